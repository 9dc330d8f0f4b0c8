"""Graph's clock, and what its headers say about time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


class ServiceClock:
    """The time at Graph: the last ``Date`` header, carried on by the monotonic clock.

    A laptop's clock that jumps changes nothing. Before any answer, and after the machine slept (the monotonic clock
    may have stood still), it is the local clock, corrected by what is known of its error.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time) -> None:
        self._monotonic = monotonic
        self._wall = wall
        self._ahead_of_monotonic: float | None = None
        self._ahead_of_wall = 0.0

    def note(self, date_header: str) -> None:
        """Take the time from a ``Date`` header; a malformed one is ignored."""
        seen = _http_date(date_header)
        if seen is not None:
            self._ahead_of_monotonic = seen - self._monotonic()
            self._ahead_of_wall = seen - self._wall()

    def distrust(self) -> None:
        """Forget the monotonic reading, after a sleep of the machine."""
        self._ahead_of_monotonic = None

    def now(self) -> datetime:
        """Return the time at Graph, in UTC."""
        return datetime.fromtimestamp(self._seconds(), UTC)

    @property
    def offset(self) -> float:
        """Seconds by which Graph's clock is ahead of this machine's."""
        return self._seconds() - self._wall()

    def _seconds(self) -> float:
        if self._ahead_of_monotonic is None:
            return self._wall() + self._ahead_of_wall
        return self._monotonic() + self._ahead_of_monotonic

    def retry_after(self, header: str) -> float | None:
        """Return the seconds a ``Retry-After`` asks for, given as seconds or as a date; None when it says nothing."""
        header = header.strip()
        if re.fullmatch(r"\d{1,7}(\.\d{1,6})?", header, re.ASCII):
            return float(header)
        until = _http_date(header)
        return None if until is None else max(0.0, until - self._seconds())


def _http_date(header: str) -> float | None:
    try:
        found = parsedate_to_datetime(header)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
