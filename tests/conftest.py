"""Shared by all tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.host.storage.azurite import Azurite


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    """Azure's storage emulator, started once for all tests that ask for it; each makes a container of its own."""
    from tests.host.storage.azurite import running

    with running(tmp_path_factory.mktemp("azurite")) as azurite:
        yield azurite
