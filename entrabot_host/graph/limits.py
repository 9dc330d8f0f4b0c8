"""A token bucket for each of Graph's documented limits, so that most requests never meet a 429."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

Sleep = Callable[[float], Awaitable[None]]


class TokenBucket:
    """``rate`` requests a second, half a second's worth of them at once. First come, first served; cancellable."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic, sleep: Sleep = asyncio.sleep) -> None:
        self._rate = rate
        self._capacity = max(1.0, rate / 2)
        self._level = self._capacity
        self._clock = clock
        self._sleep = sleep
        self._filled_at = clock()
        self._turn = asyncio.Lock()  # wakes its waiters in the order in which they came

    async def acquire(self, count: int = 1) -> None:
        """Wait until ``count`` requests may be sent. More than fit at once are granted on credit and paid off after."""
        async with self._turn:
            while (wait := self._shortfall(count) / self._rate) > 0:
                await self._sleep(wait)
            self._level -= count

    def _shortfall(self, count: int) -> float:
        now = self._clock()
        self._level = min(self._capacity, self._level + (now - self._filled_at) * self._rate)
        self._filled_at = now
        missing = min(count, self._capacity) - self._level
        return missing if missing > 1e-6 else 0.0


@dataclass(frozen=True)
class Limit:
    """A limit that Microsoft documents (or a generous bound where it documents none), in requests a second."""

    name: str
    rate: float


CHAT_GET = Limit("reading chat messages", 20)
CHAT_POST = Limit("sending chat messages", 20)
TEAMS_GET = Limit("other Teams reads", 30)
TEAMS_OTHER = Limit("other Teams calls", 30)
DIRECTORY = Limit("directory", 50)
DRIVE = Limit("files", 50)
MAIL = Limit("mail", 16)
OTHER = Limit("other", 50)
ALL_LIMITS = (CHAT_GET, CHAT_POST, TEAMS_GET, TEAMS_OTHER, DIRECTORY, DRIVE, MAIL, OTHER)

_TEAMS = frozenset({"chats", "teams", "teamwork", "joinedteams"})
_DRIVE = frozenset({"drive", "drives", "shares", "sites"})
_MAIL = frozenset({"messages", "mailfolders", "sendmail", "events", "calendar", "calendarview", "outlook"})
_DIRECTORY = frozenset({"serviceprincipals", "groups", "directoryobjects", "organization", "me", "users"})


def limit_for(method: str, path: str) -> Limit:
    """Say which limit counts a request. ``path``: relative to the version root, without a query."""
    steps = path.lower().split("?", 1)[0].strip("/").split("/")
    names = set(steps)
    if names & _TEAMS:
        return _teams_limit(method.upper(), steps)
    if names & _DRIVE:
        return DRIVE
    if names & _MAIL:
        return MAIL
    return DIRECTORY if names & _DIRECTORY else OTHER


def _teams_limit(method: str, steps: list[str]) -> Limit:
    if method == "GET":
        return CHAT_GET if "messages" in steps else TEAMS_GET
    return CHAT_POST if method == "POST" and steps[-1] == "messages" else TEAMS_OTHER


class Limiter:
    """The buckets of one process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, sleep: Sleep = asyncio.sleep) -> None:
        self._buckets = {limit.name: TokenBucket(limit.rate, clock, sleep) for limit in ALL_LIMITS}

    async def acquire(self, method: str, path: str) -> None:
        """Wait until the request may be sent."""
        await self._buckets[limit_for(method, path).name].acquire()

    async def acquire_all(self, requests: list[tuple[str, str]]) -> None:
        """Wait until all these (method, path) may be sent at once, as parts of a batch: Graph counts each."""
        counts: dict[str, int] = {}
        for method, path in requests:
            name = limit_for(method, path).name
            counts[name] = counts.get(name, 0) + 1
        for name, count in counts.items():
            await self._buckets[name].acquire(count)
