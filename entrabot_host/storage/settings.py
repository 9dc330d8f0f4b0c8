"""Where state is kept, as the operator chose."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field

from entrabot_host.errors import StorageConfigError
from entrabot_host.storage.backend import MemoryBackend


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


def open_backend(settings: StorageSettings, data_folder: Path) -> MemoryBackend:
    """Return the backend to use; it does nothing before its first call.

    Raises `StorageConfigError` when the Blob settings are incomplete, or complete: nothing falls back silently.
    """
    if not settings.keep_local:
        _refuse_blob(settings)
    from entrabot_host.storage.local import LocalBackend

    return LocalBackend(data_folder)


def _refuse_blob(settings: StorageSettings) -> None:
    if bool(settings.endpoint) != bool(settings.container):
        missing = "ENTRABOT_BLOB_CONTAINER" if settings.endpoint else "ENTRABOT_BLOB_ENDPOINT"
        raise StorageConfigError(
            f"Azure Blob storage is configured by half: {missing} is not set.",
            remedy=f"Set {missing} too, or set ENTRABOT_KEEP_MEMORY_LOCAL=true to keep state on this machine.",
        )
    if settings.endpoint:
        raise StorageConfigError(
            "Azure Blob storage is configured, but this version keeps state on this machine only.",
            remedy="Set ENTRABOT_KEEP_MEMORY_LOCAL=true, or unset ENTRABOT_BLOB_ENDPOINT and ENTRABOT_BLOB_CONTAINER.",
        )
