"""What a server leaves behind: tasks, threads and child processes that were not there before."""

from __future__ import annotations

import asyncio
import threading

import psutil

_SETTLE_SECONDS = 2.0
_STEP_SECONDS = 0.02
_SHARED_THREADS = ("AnyIO worker thread", "asyncio_", "ThreadPoolExecutor")
"""Worker threads of the loop's own pools: they are the loop's, not the server's."""


class Census:
    """Who was there at one moment."""

    def __init__(self) -> None:
        self._tasks = asyncio.all_tasks()
        self._threads = set(threading.enumerate())
        self._children = set(psutil.Process().children(recursive=True))

    def newcomers(self) -> list[str]:
        """Describe who is there now and was not then."""
        tasks = [task.get_name() for task in asyncio.all_tasks() - self._tasks if not task.done()]
        threads = [
            thread.name
            for thread in set(threading.enumerate()) - self._threads
            if thread.is_alive() and not thread.name.startswith(_SHARED_THREADS)
        ]
        children = [child.name() for child in psutil.Process().children(recursive=True) if child not in self._children]
        return (
            [f"task {name}" for name in tasks]
            + [f"thread {name}" for name in threads]
            + [f"process {name}" for name in children]
        )


async def settled(census: Census) -> None:
    """Give what is ending a moment to end. Raises AssertionError naming what stays."""
    async with asyncio.timeout(_SETTLE_SECONDS + 1):
        waited = 0.0
        while (left := census.newcomers()) and waited < _SETTLE_SECONDS:
            await asyncio.sleep(_STEP_SECONDS)
            waited += _STEP_SECONDS
    if left:
        raise AssertionError(f"The server left behind: {', '.join(left)}.")
