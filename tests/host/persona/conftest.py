"""One persona's server for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .server import PersonaServer, serving


@pytest.fixture
def persona() -> Iterator[PersonaServer]:
    with serving() as server:
        yield server
