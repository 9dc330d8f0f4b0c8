"""Small writes that nobody waits for: owned, bounded, and finished before the end if that is quick."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import Any

log = logging.getLogger(__name__)

CHORE_SECONDS = 30.0
_END_SECONDS = 0.4


async def finished(work: Coroutine[Any, Any, None], seconds: float) -> None:
    """Let ``work`` end, within so many seconds, although whoever asked for it is cancelled meanwhile.

    It is a task of its own because a shielded scope does not hold off a cancellation of the task itself, which is how a
    server stops its background tasks: what was pushed would then be pushed again at the next start.
    """
    task = asyncio.create_task(_bounded(work, seconds), name="entrabot:record")
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task}, timeout=seconds)
        raise


class Chores:
    """Owns the tasks that record what became of calls."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()
        self._due: dict[Hashable, tuple[asyncio.TimerHandle, Callable[[], Coroutine[Any, Any, None]]]] = {}

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do it now, in the background. Whoever waits for the task shields it: it goes on when nobody waits."""
        task = asyncio.create_task(_bounded(work), name="entrabot:record")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def later(self, key: Hashable, seconds: float, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do it after so many seconds, or at the end; once for each ``key``."""
        if key not in self._due:
            handle = asyncio.get_running_loop().call_later(seconds, self._fire, key)
            self._due[key] = (handle, work)

    def _fire(self, key: Hashable) -> None:
        handle, work = self._due.pop(key)
        handle.cancel()
        self.start(work())

    async def aclose(self) -> None:
        """Do what is due, and wait for it a moment."""
        for key in [*self._due]:
            self._fire(key)
        if self._running:
            await asyncio.wait(self._running, timeout=_END_SECONDS)
        for task in [*self._running]:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)


async def _bounded(work: Awaitable[None], seconds: float = CHORE_SECONDS) -> None:
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        log.warning("What became of a message could not be recorded within %g seconds.", seconds)
