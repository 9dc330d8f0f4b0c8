"""One observer's channel: one long-lived session, owned by one task, fed from one bounded queue in order."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from entrabot_host.security.redaction import redact

log = logging.getLogger(__name__)
OBSERVE_TIMEOUT_S: Final = 0.250
"""Seconds an observer has for one copy, counted from the moment it is sent."""
DISCOVERY_TIMEOUT_S: Final = 5.0
"""Seconds a peer has to connect and to list its tools."""

QUEUE_ITEMS: Final = 10_000
QUEUE_CHARACTERS: Final = 32 * 1024 * 1024

_SLOWEST_CONNECT = 60.0
_FIRST_PAUSE = 0.25
_LONGEST_PAUSE = 60.0
_STEADY_SECONDS = 10.0
"""A session that lasted so long counts as a good one: after it, reconnecting starts without delay."""


class State(StrEnum):
    """How an observer is doing."""

    CONNECTING = "connecting"
    LIVE = "live"
    RETRYING = "retrying"
    NOT_AN_OBSERVER = "not an observer"


class SessionLost(ConnectionError):
    """The session is of no more use; a new one is opened."""


class NotAnObserver(Exception):
    """The peer answered, and offers no compatible ``observe``: it is never asked again."""


@dataclass
class Counts:
    """Copies by what became of them. dropped: never sent. failed: sent, and refused or not answered in time."""

    delivered: int = 0
    dropped: int = 0
    failed: int = 0
    failed_in_a_row: int = 0


@dataclass
class _Copy:
    payload: dict[str, Any]
    size: int
    tried: bool = False


class Channel:
    """Delivers payloads to one observer. ``factory`` makes an async context manager around a session.

    A session has ``async call_tool(name, payload)``. Any exception from it is a failed delivery; one that is a
    `ConnectionError` also ends the session, and that copy is sent once more over the next. All methods belong to the
    event loop that called `start`.

    Copies are sent one at a time: over streamable HTTP, and by a peer that runs its tools in threads, several at once
    could be seen in another order. It costs little, since most of the time of a copy is the peer's own.
    """

    def __init__(
        self,
        factory: Callable[[], Any],
        *,
        warn: Callable[[str], None],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._factory = factory
        self._warn = warn
        self._changed = changed
        self._queue: deque[_Copy] = deque()
        self._queued = 0
        self._filled = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._owner: asyncio.Task[None] | None = None
        self._calls: set[asyncio.Future[Any]] = set()
        self._live_since = 0.0
        self.state = State.CONNECTING
        self.was_live = False
        self.problem = ""
        self.counts = Counts()
        self.settled = asyncio.Event()
        """Set once the first attempt to connect is over."""

    @property
    def live(self) -> bool:
        """Whether the observer is there now."""
        return self.state is State.LIVE

    def start(self, name: str) -> None:
        """Begin to connect; later calls change nothing."""
        if self._owner is None:
            self._owner = asyncio.create_task(self._run(), name=f"efferent-copy:{name}")

    def put(self, payload: dict[str, Any], size: int) -> None:
        """Queue a payload of about ``size`` characters. The oldest ones are dropped when there are too many."""
        if self.state is State.NOT_AN_OBSERVER or size > QUEUE_CHARACTERS:
            self._drop("it is too large" if size > QUEUE_CHARACTERS else "the peer does not observe")
            return
        while self._queue and (len(self._queue) >= QUEUE_ITEMS or self._queued + size > QUEUE_CHARACTERS):
            self._queued -= self._queue.popleft().size
            self._drop("the observer is too slow")
        self._queue.append(_Copy(payload, size))
        self._queued += size
        self._filled.set()
        self._idle.clear()

    async def drain(self) -> None:
        """Wait until everything queued was sent, or given up."""
        await self._idle.wait()

    async def aclose(self) -> None:
        """End the session and what stands behind it; what is still queued is lost."""
        if self._owner is not None:
            self._owner.cancel()
            # Not `gather`: cancelled itself, it would cancel the owner again, in the middle of ending its child.
            await asyncio.wait({self._owner})

    async def _run(self) -> None:
        attempt = 0
        while True:
            try:
                await self._session(min(DISCOVERY_TIMEOUT_S * 2**attempt, _SLOWEST_CONNECT))
            except Exception as error:  # whatever an observer does must stay here
                if isinstance(cause := first_of(error), NotAnObserver):
                    self._refused(str(cause))
                    return
                lasted = asyncio.get_running_loop().time() - self._live_since
                attempt = 1 if self._live_since and lasted > _STEADY_SECONDS else min(attempt + 1, 16)
                self._lost(error)
            await asyncio.sleep(min(_FIRST_PAUSE * 2 ** (attempt - 1), _LONGEST_PAUSE) * random.uniform(0.7, 1.3))  # noqa: S311

    async def _session(self, seconds: float) -> None:
        self._live_since = 0.0
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(seconds):
                session = await stack.enter_async_context(self._factory())
            self._live()
            while True:
                await self._send(session, await self._next())

    async def _next(self) -> _Copy:
        while not self._queue:
            self._filled.clear()
            self._idle.set()
            await self._filled.wait()
        copy = self._queue.popleft()
        self._queued -= copy.size
        return copy

    async def _send(self, session: Any, copy: _Copy) -> None:
        try:
            await self._call(session, copy.payload)
        except (ConnectionError, asyncio.CancelledError):  # over HTTP the SDK cancels whoever uses a lost session
            self._once_more(copy)
            raise
        except TimeoutError:
            self._failed(f"did not answer within {OBSERVE_TIMEOUT_S * 1000:g} ms")
        except Exception as error:  # whatever an observer does must stay here
            self._failed(describe(error))
        else:
            self.counts.delivered += 1
            self.counts.failed_in_a_row = 0
            self._changed()
        await asyncio.sleep(0)  # a session that answers without waiting must not hold the loop

    async def _call(self, session: Any, payload: dict[str, Any]) -> None:
        """Call, and give up when the time is over.

        Giving up is not waited for: towards a peer that does not read, the SDK takes seconds to tell of it.
        """
        call = asyncio.ensure_future(session.call_tool("observe", payload))
        self._calls.add(call)
        call.add_done_callback(self._ended)
        try:
            await asyncio.wait({call}, timeout=OBSERVE_TIMEOUT_S)
        finally:
            call.cancel()
        if not call.done():
            raise TimeoutError
        if call.cancelled():
            raise SessionLost("the session was cancelled")
        call.result()

    def _ended(self, call: asyncio.Future[Any]) -> None:
        self._calls.discard(call)
        if not call.cancelled():
            call.exception()  # looked at, so that asyncio does not complain of a call that was given up

    def _once_more(self, copy: _Copy) -> None:
        """Keep a copy that a dying session swallowed, once: it may have been the cause."""
        if copy.tried:
            self._failed("the session ended again while it was being sent")
            return
        copy.tried = True
        self._queue.appendleft(copy)
        self._queued += copy.size

    def _live(self) -> None:
        self.state, self.was_live, self.problem = State.LIVE, True, ""
        self._live_since = asyncio.get_running_loop().time()
        self.settled.set()
        self._changed()

    def _lost(self, error: BaseException) -> None:
        self.state, self.problem = State.RETRYING, describe(error)
        self.settled.set()
        self._warn(f"is not reachable and is tried again: {self.problem}")
        self._changed()

    def _refused(self, problem: str) -> None:
        self.state, self.problem = State.NOT_AN_OBSERVER, problem
        self._queue.clear()
        self._idle.set()
        self.settled.set()
        self._changed()

    def _failed(self, problem: str) -> None:
        self.counts.failed += 1
        self.counts.failed_in_a_row += 1
        self._warn(f"{problem} ({self._tally()})")
        self._changed()

    def _drop(self, reason: str) -> None:
        self.counts.dropped += 1
        self._warn(f"a copy was dropped: {reason} ({self._tally()})")
        self._changed()

    def _tally(self) -> str:
        counts = self.counts
        return f"so far {counts.delivered} delivered, {counts.failed} failed, {counts.dropped} dropped"


def first_of(error: BaseException) -> BaseException:
    """Return the first exception of a group of groups: the SDK's sessions wrap whatever is raised inside them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def describe(error: BaseException) -> str:
    """Say what went wrong in one line, without secrets; of a group, its first member."""
    error = first_of(error)
    if isinstance(error, TimeoutError) and not str(error):
        return "it did not answer in time"
    return redact(" ".join(f"{type(error).__name__}: {error}".split()))[:300]
