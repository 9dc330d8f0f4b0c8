"""A value that is made once, by whoever needs it first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Shared(Generic[T]):
    """A value made once. Concurrent callers share an attempt; after a failure the next caller makes a new one."""

    def __init__(self, make: Callable[[], Awaitable[T]]) -> None:
        self._make = make
        self._attempt: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """Return the value. Cancelling one caller leaves the attempt to the others."""
        if self._attempt is None or (self._attempt.done() and _failed(self._attempt)):
            self._attempt = asyncio.create_task(self._run())
        return await asyncio.shield(self._attempt)

    async def abandon(self) -> T | None:
        """Stop an attempt under way; return the value if there is one."""
        if self._attempt is None:
            return None
        self._attempt.cancel()
        (outcome,) = await asyncio.gather(self._attempt, return_exceptions=True)
        return None if isinstance(outcome, BaseException) else outcome

    async def _run(self) -> T:
        return await self._make()


def _failed(task: asyncio.Task[Any]) -> bool:
    return task.cancelled() or task.exception() is not None
