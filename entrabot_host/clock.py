"""Time, as a part that tests can replace: when recurring work is due, and what time it is."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """What the server asks about time."""

    def monotonic(self) -> float:
        """Seconds that only grow."""
        ...

    def now(self) -> datetime:
        """The time of day, with its zone."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The machine's clock."""

    def monotonic(self) -> float:
        """Seconds that only grow."""
        return time.monotonic()

    def now(self) -> datetime:
        """The time of day, UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


class ManualClock:
    """A clock that stands still until a test moves it."""

    def __init__(self, start: datetime | None = None) -> None:
        self._start = start or datetime(2026, 1, 1, tzinfo=UTC)
        self._elapsed = 0.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Event]] = []

    def monotonic(self) -> float:
        """Seconds since the start."""
        return self._elapsed

    def now(self) -> datetime:
        """The start and what was added to it."""
        return self._start + timedelta(seconds=self._elapsed)

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock was moved so far."""
        woken = asyncio.Event()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._order), woken))
        await woken.wait()

    async def advance(self, seconds: float) -> None:
        """Move the clock, waking in order whoever sleeps until then and letting each go on."""
        target = self._elapsed + seconds
        while self._sleepers and self._sleepers[0][0] <= target:
            due, _, woken = heapq.heappop(self._sleepers)
            self._elapsed = max(self._elapsed, due)
            woken.set()
            for _ in range(_TURNS):
                await asyncio.sleep(0)
        self._elapsed = target


_TURNS = 20
"""Turns of the loop that a woken task gets, enough to run to its next wait when nothing else delays it."""
