"""Settings of the safeguards."""

from __future__ import annotations

from pydantic import BaseModel, Field


class EnvelopeSettings(BaseModel):
    """Whether text from outside is put into its envelope."""

    enabled: bool = Field(
        default=True,
        alias="ENTRABOT_XPIA_WRAP_ENABLE",
        description="Put text from outside into the external-content envelope; switching it off is dangerous",
    )
