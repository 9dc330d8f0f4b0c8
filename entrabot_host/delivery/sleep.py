"""Notices that the machine slept, that the process was stopped, or that somebody set the clock."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from entrabot_host.delivery.book import boot_clock

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
JUMP_SECONDS = 5.0
"""How far two clocks may drift apart between two looks."""
STALL_SECONDS = 25.0
"""A look that comes so late was kept from coming: by a stop of the process, or of the machine it runs in."""


@dataclass(frozen=True)
class Clocks:
    """Seconds on three clocks. monotonic: stands still in sleep. boot: does not. wall: can be set."""

    monotonic: float
    boot: float
    wall: float

    @classmethod
    def read(cls) -> Clocks:
        """Return what they show now."""
        return cls(time.monotonic(), boot_clock(), time.time())

    def jump_since(self, before: Clocks) -> float:
        """Return by how many seconds a clock went on or back that should not have."""
        passed = self.monotonic - before.monotonic
        return max(abs(self.boot - before.boot - passed), abs(self.wall - before.wall - passed))


class SleepWatch:
    """Looks every few seconds, and whenever `check` is called. on_wake: ends before `check` returns."""

    def __init__(self, on_wake: Callable[[], Awaitable[None]], read: Callable[[], Clocks] = Clocks.read) -> None:
        self._on_wake = on_wake
        self._read = read
        self._last = read()
        self._waking: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look from now on."""
        self._last = self._read()
        self._task = asyncio.create_task(self._look_always(), name="entrabot:sleep-watch")

    async def check(self) -> None:
        """Return once nothing that was known before a sleep is trusted any more. Costs a look at the clocks."""
        jump = self._jump()
        if jump and self._waking is None:
            log.info("The machine slept or a clock jumped (%.0f seconds); looking at everything afresh.", jump)
            self._waking = asyncio.create_task(self._wake(), name="entrabot:wake")
        if self._waking is not None:
            await asyncio.shield(self._waking)

    def _jump(self) -> float:
        now, before = self._read(), self._last
        self._last = now
        jump = now.jump_since(before)
        if jump > JUMP_SECONDS:
            return jump
        passed = now.monotonic - before.monotonic
        return passed if self._task is not None and passed > STALL_SECONDS else 0.0

    async def _wake(self) -> None:
        try:
            await self._on_wake()
        finally:
            self._waking = None

    async def _look_always(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.check()
            except Exception:  # whatever fails, the next look comes
                log.exception("What follows a sleep has failed.")

    async def aclose(self) -> None:
        """Look no more."""
        tasks = [task for task in (self._task, self._waking) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
