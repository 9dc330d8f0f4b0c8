"""Settings of the promises plugin."""

from pydantic import BaseModel, Field


class PromisesSettings(BaseModel):
    """When a message without a recorded promise is pointed out, and how long kept promises are remembered."""

    warn: bool = Field(
        default=True,
        description="Whether results of sending tools point out a commitment for which no promise was recorded",
    )
    fresh_minutes: int = Field(
        default=30,
        ge=1,
        le=1440,
        description="For how many minutes a recorded promise covers what is written in its conversation",
    )
    keep_days: int = Field(
        default=90,
        ge=1,
        le=3650,
        description="For how many days resolved promises are kept once the file has grown; open ones are always kept",
    )
