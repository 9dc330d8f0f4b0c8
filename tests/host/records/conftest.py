"""The emulator of Azure Storage for these tests, too."""

from tests.host.storage.conftest import azurite

__all__ = ["azurite"]
