"""An emulator whose blobs are soon full, started once for the tests of this folder that ask for it."""

from collections.abc import Iterator

import pytest

from tests.host.storage.azurite import Azurite, running


@pytest.fixture(scope="session")
def small_azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    """One whose append blobs take ten blocks."""
    with running(tmp_path_factory.mktemp("azurite"), blocks=10) as azurite:
        yield azurite
