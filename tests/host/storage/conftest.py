"""The emulator, started once for the tests of this folder that ask for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.host.storage.azurite import Azurite, running


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    with running(_folder(tmp_path_factory)) as azurite:
        yield azurite


@pytest.fixture(scope="session")
def small_azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    """One whose append blobs take ten blocks."""
    with running(_folder(tmp_path_factory), blocks=10) as azurite:
        yield azurite


def _folder(factory: pytest.TempPathFactory) -> Path:
    return factory.mktemp("azurite")
