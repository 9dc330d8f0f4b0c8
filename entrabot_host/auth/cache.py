"""Tokens kept until shortly before they expire, and one request at a time for each of them."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass

from entrabot_host.auth.provider import Token
from entrabot_host.errors import AuthError, NotSignedIn

_MARGIN_SECONDS = 300.0
_USABLE_SECONDS = 30.0
_CLOSE_SECONDS = 1.0


def boot_clock() -> float:
    """Seconds on a clock that also runs while the machine sleeps, unlike ``time.monotonic`` on Linux and macOS."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    if sys.platform == "darwin":
        return time.clock_gettime(time.CLOCK_MONOTONIC)
    return time.monotonic()


@dataclass(frozen=True)
class _Kept:
    token: Token
    fresh_until: float
    expires: float


class TokenCache:
    """Keeps tokens by key.

    A token is handed out until a tenth of its life, at most five minutes, is left. While a new one is being fetched,
    everybody who asks for it waits for the same request; who stops waiting does not stop the request for the others.
    """

    def __init__(self, clock: Callable[[], float] = boot_clock) -> None:
        self._clock = clock
        self._kept: dict[Hashable, _Kept] = {}
        self._flights: dict[Hashable, asyncio.Task[Token]] = {}
        self._closed = False

    def fresh(self, key: Hashable) -> Token | None:
        """Return the token kept under ``key``, unless it is about to expire."""
        kept = self._kept.get(key)
        return kept.token if kept and self._clock() < kept.fresh_until else None

    def drop(self, key: Hashable) -> None:
        """Forget a token."""
        self._kept.pop(key, None)

    async def get(
        self, key: Hashable, mint: Callable[[], Awaitable[Token]], *, rejected: str = "", claims: str = ""
    ) -> Token:
        """Return the kept token or mint one.

        rejected: a token text that is not to be returned again. claims: distinguishes requests that ask for more than
        a kept token has; one that is newer than ``rejected`` counts as having it.
        """
        token = self.fresh(key)
        if token and token.secret != rejected and (rejected or not claims):
            return token
        if (kept := self._kept.get(key)) and kept.token.secret == rejected:
            self.drop(key)  # also when it was due anyway, so that it bridges nothing
        try:
            return await self._join((key, claims), key, mint)
        except AuthError as error:
            if error.code is None and not claims and (token := self._still_valid(key)):
                return token
            raise

    def _still_valid(self, key: Hashable) -> Token | None:
        kept = self._kept.get(key)
        return kept.token if kept and self._clock() + _USABLE_SECONDS < kept.expires else None

    async def _join(self, flight: Hashable, key: Hashable, mint: Callable[[], Awaitable[Token]]) -> Token:
        if self._closed:
            raise NotSignedIn("The session is closed.")
        task = self._flights.get(flight)
        if task is None:
            task = self._flights[flight] = asyncio.create_task(self._mint(key, mint))
            task.add_done_callback(lambda done: self._landed(flight, done))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if self._closed and task.cancelled() and not _being_cancelled():
                raise NotSignedIn("The session was closed while it signed in.") from None
            raise

    async def _mint(self, key: Hashable, mint: Callable[[], Awaitable[Token]]) -> Token:
        token = await mint()
        life = token.seconds_left
        now = self._clock()
        self._kept[key] = _Kept(token, now + life - min(_MARGIN_SECONDS, life / 10), now + life)
        return token

    def _landed(self, flight: Hashable, task: asyncio.Task[Token]) -> None:
        self._flights.pop(flight, None)
        if not task.cancelled():
            task.exception()  # whoever still waits gets it; with nobody waiting it must not be reported as lost

    async def aclose(self) -> None:
        """Stop what is under way and forget all tokens."""
        self._closed = True
        flights = list(self._flights.values())
        for task in flights:
            task.cancel()
        if flights:
            await asyncio.wait(flights, timeout=_CLOSE_SECONDS)
        self._kept.clear()


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return bool(task and task.cancelling())
