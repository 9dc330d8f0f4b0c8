"""Where state is kept, as the operator chose."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

from entrabot_host.errors import StorageConfigError
from entrabot_host.storage.backend import MemoryBackend

if TYPE_CHECKING:
    from entrabot_host.storage.blob import BlobBackend
    from entrabot_host.storage.blob_connection import Patience
    from entrabot_host.storage.blob_credential import AccessSource


class StorageSettings(BaseModel):
    """The storage variables."""

    endpoint: str = Field(
        default="", alias="ENTRABOT_BLOB_ENDPOINT", description="Azure Blob endpoint; only together with the container"
    )
    container: str = Field(
        default="", alias="ENTRABOT_BLOB_CONTAINER", description="Azure Blob container; only with the endpoint"
    )
    keep_local: bool = Field(
        default=False,
        alias="ENTRABOT_KEEP_MEMORY_LOCAL",
        description="Keep state on this machine although a Blob container is configured",
    )


def open_backend(settings: StorageSettings, data_folder: Path, access: AccessSource | None = None) -> MemoryBackend:
    """Return the backend to use; it does nothing before its first call.

    access: says how to reach Azure as the agent; without it a Blob container cannot be used. Raises
    `StorageConfigError` when the Blob settings are incomplete: nothing falls back silently.
    """
    if not settings.keep_local:
        refuse_half(settings)
        if settings.endpoint:
            return open_blob(settings, access)
    from entrabot_host.storage.local import LocalBackend

    return LocalBackend(data_folder)


def open_blob(settings: StorageSettings, access: AccessSource | None, patience: Patience | None = None) -> BlobBackend:
    """Return the container's backend, whatever ``keep_local`` says. Raises `StorageConfigError`."""
    from entrabot_host.storage.blob import BlobBackend
    from entrabot_host.storage.blob_connection import Connection

    if access is None:
        raise StorageConfigError("State is kept in Azure Blob Storage, which only a signed-in agent can reach.")
    return BlobBackend(Connection(settings.endpoint, settings.container, access, patience=patience))


def refuse_half(settings: StorageSettings) -> None:
    """Raise `StorageConfigError` when one of the two Blob settings is missing."""
    if bool(settings.endpoint) != bool(settings.container):
        missing = "ENTRABOT_BLOB_CONTAINER" if settings.endpoint else "ENTRABOT_BLOB_ENDPOINT"
        raise StorageConfigError(
            f"Azure Blob storage is configured by half: {missing} is not set.",
            remedy=f"Set {missing} too, or set ENTRABOT_KEEP_MEMORY_LOCAL=true to keep state on this machine.",
        )
