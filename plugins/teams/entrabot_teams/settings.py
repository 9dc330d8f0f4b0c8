"""Settings of the Teams plugin."""

from pydantic import BaseModel, Field


class TeamsSettings(BaseModel):
    """How often chats are looked at, in seconds."""

    poll_seconds: float = Field(
        default=5.0, ge=2.0, le=300.0, description="Seconds between two looks at all chats for new messages"
    )
    live_poll_seconds: float | None = Field(
        default=None,
        ge=1.0,
        le=60.0,
        alias="ENTRABOT_LIVE_POLL_SECONDS",
        description="Seconds between two looks during a conversation, if they are to be fewer than usual; "
        "Microsoft asks for modest polling",
    )
