"""Settings of the Teams plugin."""

from typing import Literal

from pydantic import BaseModel, Field

LONGEST_WAIT = 280
"""Seconds: below the five minutes at which the most patient hosts give a call up."""


class TeamsSettings(BaseModel):
    """How often chats are looked at and how long a send waits for an answer, in seconds; and how strict to be."""

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
    wait_seconds: int = Field(
        default=50,
        ge=0,
        le=LONGEST_WAIT,
        description="Seconds a send waits for a sponsor's reply where the host shows no pushes; 0 never waits. "
        "Several hosts give a call up after 60 seconds",
    )
    placeholders: Literal["off", "warn", "refuse"] = Field(
        default="warn",
        description="What happens to a long message in a chat without a placeholder in the last five minutes: "
        "off (nothing), warn (it is sent, the result says so) or refuse (it is not sent)",
    )
