"""Settings of the email plugin."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone, tzinfo
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

_OFFSET = re.compile(r"(?:UTC|GMT)(?:([+-])(\d{1,2})(?::?([0-5]\d))?)?", re.IGNORECASE | re.ASCII)


def parse_zone(text: str) -> tzinfo:
    """Read ``UTC``, ``UTC-7``, ``UTC+5:30`` or a name such as ``Europe/Berlin``. Raises ValueError."""
    if match := _OFFSET.fullmatch(text.strip()):
        sign, hours, minutes = match.groups()
        offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
        if offset > timedelta(hours=14):
            raise ValueError("the offset must be at most 14 hours")
        return timezone(-offset if sign == "-" else offset) if offset else UTC
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(text.strip())
    except (KeyError, ValueError, OSError):
        raise ValueError("it must read like UTC-7, UTC+5:30 or Europe/Berlin") from None


def _checked_zone(text: str) -> str:
    parse_zone(text)
    return text


def _words(text: object) -> object:
    return tuple(part.strip() for part in text.split(",") if part.strip()) if isinstance(text, str) else text


class EmailSettings(BaseModel):
    """The poll, what is left out of it, and the daily summary."""

    poll_seconds: float = Field(default=60.0, ge=5.0, le=3600.0, description="Seconds between two looks at the inbox")
    filter_noise: bool = Field(
        default=True, description="Whether newsletters, automatic replies and no-reply senders are left out"
    )
    max_body_chars: int = Field(
        default=50_000, ge=1_000, le=1_000_000, description="Characters of a mail that read_email returns at most"
    )
    summary: bool = Field(default=True, description="Whether the daily summary is sent by itself")
    summary_hour: int = Field(default=17, ge=0, le=23, description="Hour at which the daily summary is sent")
    summary_zone: Annotated[str, AfterValidator(_checked_zone)] = Field(
        default="UTC-7", description="Time zone of that hour: UTC-7, UTC+5:30 or a name like Europe/Berlin"
    )
    sponsor_mails: Annotated[tuple[str, ...], BeforeValidator(_words)] = Field(
        default=(),
        alias="ENTRABOT_HUMAN_USER_MAILS",
        description="Mail addresses of the sponsors; the first receives the daily summary",
    )
