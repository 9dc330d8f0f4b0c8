"""The service's clock: real time plus an offset that a test may set."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from email.utils import format_datetime


class Clock:
    """Tells the time by which tokens expire, messages are stamped and the ``Date`` header is written."""

    def __init__(self) -> None:
        self.offset: float = 0.0

    def time(self) -> float:
        """Seconds since the epoch."""
        return time.time() + self.offset

    def now(self) -> datetime:
        """The moment as an aware UTC time with millisecond precision."""
        return at_milliseconds(int(self.time() * 1000))

    def http_date(self) -> str:
        """The moment in the form of an HTTP ``Date`` header."""
        return format_datetime(self.now().replace(microsecond=0), usegmt=True)


def at_milliseconds(milliseconds: int) -> datetime:
    """The aware UTC time at that many milliseconds since the epoch."""
    seconds, rest = divmod(milliseconds, 1000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest * 1000)


def iso(moment: datetime | None) -> str | None:
    """``2021-03-28T20:48:29.832Z``; None stays None."""
    if moment is None:
        return None
    text = moment.strftime("%Y-%m-%dT%H:%M:%S")
    milliseconds = moment.microsecond // 1000
    return f"{text}.{milliseconds:03d}".rstrip("0").rstrip(".") + "Z" if milliseconds else text + "Z"
