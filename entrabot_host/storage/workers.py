"""A few threads that wait for the disk, so that the event loop never does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from entrabot_host.errors import StorageError

ResultT = TypeVar("ResultT")

THREADS = 4
SECONDS = 30.0


class Abandoned(Exception):
    """Nobody waits for this work any more, so it must change nothing."""


class Ticket:
    """Tells work in a thread whether somebody still waits for it."""

    def __init__(self) -> None:
        self._abandoned = threading.Event()

    def abandon(self) -> None:
        """Say that nobody waits any more."""
        self._abandoned.set()

    def still_wanted(self) -> bool:
        """Whether somebody waits for the outcome."""
        return not self._abandoned.is_set()

    def check(self) -> None:
        """Call it right before the step that others can see. Raises `Abandoned`."""
        if self._abandoned.is_set():
            raise Abandoned


class Workers:
    """A pool of its own: a disk that hangs occupies these threads and no others.

    `run` is cancellable at once. Work that is abandoned before its commit point (`Ticket.check`) does nothing, so a
    cancelled write cannot land after a later one.
    """

    def __init__(self, name: str, *, threads: int = THREADS, timeout: float = SECONDS) -> None:
        self._name = name
        self._timeout = timeout
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def run(self, work: Callable[[Ticket], ResultT]) -> ResultT:
        """Run ``work`` in a thread. Raises what it raises, or `StorageError` after the time limit (in seconds)."""
        ticket = Ticket()
        try:
            async with asyncio.timeout(self._timeout):
                return await asyncio.wrap_future(self._submit(work, ticket))
        except TimeoutError:
            raise StorageError(
                f"The disk did not answer within {self._timeout:g} seconds ({self._name}).",
                remedy="Check that the disk or network drive is reachable, then try again.",
            ) from None
        finally:
            ticket.abandon()

    def _submit(self, work: Callable[[Ticket], ResultT], ticket: Ticket) -> Future[ResultT]:
        try:
            return self._pool.submit(work, ticket)
        except RuntimeError:
            raise StorageError(f"The store was closed already ({self._name}).") from None

    def close(self) -> None:
        """Take no more work, drop what has not begun, and wait for nothing."""
        self._pool.shutdown(wait=False, cancel_futures=True)
