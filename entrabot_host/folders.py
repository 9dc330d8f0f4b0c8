"""Where this installation keeps its files."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field, field_validator

from entrabot_host.config import relative_to_home


class Folders(BaseModel):
    """Data (state and locks), logs and audit. All are created with access for their owner only."""

    data: Path = Field(
        default_factory=relative_to_home("data"), alias="ENTRABOT_DATA_DIR", description="Folder of stored state"
    )
    logs: Path | None = Field(
        default=None,
        alias="ENTRABOT_LOG_DIR",
        description="Write the log here too, one file a day; default: stderr only",
    )
    audit: Path = Field(
        default_factory=relative_to_home("audit"), alias="ENTRABOT_AUDIT_DIR", description="Folder of the audit log"
    )

    @field_validator("data", "logs", "audit")
    @classmethod
    def _expand(cls, value: Path | None) -> Path | None:
        return value.expanduser().absolute() if value else None
