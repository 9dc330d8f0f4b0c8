"""Recurring work: every task has an owner, a timing, a gate, a time limit and a visible state."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from entrabot_host.clock import Clock, SystemClock
from entrabot_host.discovery import Installed
from entrabot_host.errors import EntrabotError
from entrabot_host.security.redaction import redact
from entrabot_host.tasks import BackgroundTask, Gate

log = logging.getLogger(__name__)
_LONGEST_PAUSE = 300.0
_GATE_PAUSE = 15.0


@dataclass
class TaskState:
    """How one task is doing. Times are on the monotonic clock; None means never."""

    task: BackgroundTask
    plugin: Installed
    runs: int = 0
    failures_in_a_row: int = 0
    last_success: float | None = None
    last_error: str = ""
    next_run: float | None = None
    waiting_for: str = ""
    busy: bool = False

    def to_dict(self, now: float) -> dict[str, Any]:
        """Return what ``whoami`` shows; ``now`` is on the monotonic clock."""
        state: dict[str, Any] = {
            "name": self.task.name,
            "plugin": self.plugin.name,
            "every_seconds": self.task.interval,
        }
        state["runs"] = self.runs
        if self.waiting_for:
            state["waiting_for"] = self.waiting_for
        if self.last_success is not None:
            state["last_success_seconds_ago"] = round(now - self.last_success, 1)
        if self.next_run is not None:
            state["next_run_in_seconds"] = round(max(0.0, self.next_run - now), 1)
        if self.failures_in_a_row:
            state["failures_in_a_row"] = self.failures_in_a_row
        if self.last_error:
            state["last_error"] = self.last_error
        return state


OpenGate = Callable[[Gate], Awaitable[str]]
"""Waits until the gate's question is settled; returns what is missing, or an empty text when the gate is open."""


class Report(Protocol):
    """Where bugs of tasks are reported. A refusal by Graph or a storage that is full is no bug."""

    async def note(self, plugin: Installed, step: str, error: BaseException) -> None:
        """A step of a plugin failed."""
        ...

    async def over(self, plugin: Installed, step: str) -> None:
        """The step works again."""
        ...


class Supervisor:
    """Owns one asyncio task for each background task; none can stop another or the server."""

    def __init__(self, open_gate: OpenGate, report: Report, clock: Clock | None = None) -> None:
        self._open_gate = open_gate
        self._report = report
        self._clock = clock or SystemClock()
        self._running: list[asyncio.Task[None]] = []
        self.states: list[TaskState] = []

    def start(self, tasks: list[tuple[Installed, BackgroundTask]]) -> None:
        """Start all, given with their plugins."""
        for plugin, task in tasks:
            state = TaskState(task, plugin)
            self.states.append(state)
            self._running.append(asyncio.create_task(self._keep_running(state), name=f"entrabot:{task.name}"))

    def describe(self) -> list[dict[str, Any]]:
        """Return the state of every task, for ``whoami``."""
        return [state.to_dict(self._clock.monotonic()) for state in self.states]

    async def aclose(self) -> None:
        """Cancel all and wait for them; the caller bounds the time."""
        for running in self._running:
            running.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _keep_running(self, state: TaskState) -> None:
        while True:
            pause = await self._once(state)
            state.next_run = self._clock.monotonic() + pause
            await self._clock.sleep(pause)

    async def _once(self, state: TaskState) -> float:
        """Do one iteration and return the seconds until the next."""
        task = state.task
        try:
            if missing := await self._open_gate(task.gate):
                state.waiting_for = missing
                return min(_GATE_PAUSE, task.interval)
            state.waiting_for = ""
            state.runs += 1
            state.busy = True
            async with asyncio.timeout(task.timeout):
                asked = await task.run()
        except TimeoutError:
            return self._failed(state, f"did not end within {task.timeout:g} seconds")
        except EntrabotError as error:
            return self._failed(state, f"{type(error).__name__}: {error.message}")
        except BaseException as error:  # SystemExit and the like, too: nothing of a task may end the server
            current = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and current is not None and current.cancelling():
                raise
            log.debug("background task %s", task.name, exc_info=True)
            await self._report.note(state.plugin, f"task {task.name}", error)
            return self._failed(state, f"{type(error).__name__}: {error}")
        finally:
            state.busy = False
        if state.failures_in_a_row:
            log.info("background task %s works again", task.name)
            await self._report.over(state.plugin, f"task {task.name}")
        state.failures_in_a_row, state.last_error, state.last_success = 0, "", self._clock.monotonic()
        return max(0.0, task.interval if asked is None else float(asked))

    def _failed(self, state: TaskState, cause: str) -> float:
        state.failures_in_a_row += 1
        cause = " ".join(redact(cause).split())[:300]
        if cause != state.last_error:
            log.warning("background task %s of plugin %s failed: %s", state.task.name, state.plugin.name, cause)
        state.last_error = cause
        pause: float = state.task.interval * 2 ** min(state.failures_in_a_row - 1, 10)
        ceiling = max(_LONGEST_PAUSE, state.task.interval)
        return min(pause, ceiling) * random.uniform(0.8, 1.2)  # noqa: S311 - spreads retries, no secret
