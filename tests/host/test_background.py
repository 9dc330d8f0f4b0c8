"""The supervisor: gates, failures, time limits; no task can stop another."""

import asyncio

import pytest

from entrabot_host import BackgroundTask, EntrabotError, Gate
from entrabot_host.background import Supervisor
from entrabot_host.clock import ManualClock
from entrabot_host.discovery import Installed

pytestmark = pytest.mark.anyio


A = Installed("a", "dist-a", "1.0", object)
B = Installed("b", "dist-b", "1.0", object)


class Reported:
    def __init__(self) -> None:
        self.steps: list[tuple[str, str, str]] = []

    async def note(self, plugin: Installed, step: str, error: BaseException) -> None:
        self.steps.append((plugin.name, step, str(error)))

    async def over(self, plugin: Installed, step: str) -> None:
        self.steps.append((plugin.name, step, "over"))


async def opened(gate: Gate) -> str:
    return ""


def task(run: object, **more: object) -> BackgroundTask:
    return BackgroundTask(**{"name": "task", "run": run, "interval": 0.001, "description": "x", **more})  # type: ignore[arg-type]


async def until(condition: object) -> None:
    async with asyncio.timeout(10):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0.001)


async def test_a_failing_task_backs_off_is_visible_and_stops_no_other() -> None:
    runs = []

    async def fail() -> None:
        raise EntrabotError("Graph is away. Bearer abcdefghijklmnopqrstuvwxyz.0123456789")

    async def work() -> None:
        runs.append(1)

    supervisor = Supervisor(opened, Reported())
    supervisor.start([(A, task(fail, name="bad")), (B, task(work, name="good"))])
    bad, good = supervisor.states
    await until(lambda: len(runs) > 5 and bad.failures_in_a_row > 1)
    await supervisor.aclose()

    assert "Graph is away" in bad.to_dict(0)["last_error"]
    assert "abcdefghij" not in bad.to_dict(0)["last_error"]
    assert good.to_dict(1e12)["last_success_seconds_ago"] >= 0
    assert "last_error" not in good.to_dict(1e12)


async def test_a_success_clears_the_error() -> None:
    outcomes = iter([RuntimeError("once"), None, None])

    async def flaky() -> None:
        if error := next(outcomes, None):
            raise error

    reported = Reported()
    supervisor = Supervisor(opened, reported)
    supervisor.start([(A, task(flaky))])
    (state,) = supervisor.states
    await until(lambda: state.runs >= 3)
    await supervisor.aclose()

    assert reported.steps == [("a", "task task", "once"), ("a", "task task", "over")]

    assert (state.failures_in_a_row, state.last_error) == (0, "")


async def test_an_iteration_that_hangs_is_cut_off() -> None:
    async def hang() -> None:
        await asyncio.Event().wait()

    supervisor = Supervisor(opened, Reported())
    supervisor.start([(A, task(hang, timeout=0.01))])
    (state,) = supervisor.states
    await until(lambda: state.last_error)
    await supervisor.aclose()

    assert state.last_error == "did not end within 0.01 seconds"


async def test_a_closed_gate_is_shown_and_nothing_runs() -> None:
    runs = []

    async def closed(gate: Gate) -> str:
        return "a session of the agent's own identity"

    async def work() -> None:
        runs.append(1)

    supervisor = Supervisor(closed, Reported())
    supervisor.start([(A, task(work, gate=Gate.AGENT_USER))])
    (state,) = supervisor.states
    await until(lambda: state.waiting_for)
    await supervisor.aclose()

    assert runs == []
    assert state.to_dict(0)["waiting_for"] == "a session of the agent's own identity"


async def test_intervals_are_kept_by_the_clock() -> None:
    clock = ManualClock()
    runs: list[float] = []

    async def work() -> None:
        runs.append(clock.monotonic())

    supervisor = Supervisor(opened, Reported(), clock)
    supervisor.start([(A, task(work, interval=60.0))])
    await until(lambda: len(runs) == 1 and supervisor.states[0].next_run == 60.0)
    await clock.advance(59)
    assert len(runs) == 1
    await clock.advance(2)
    await clock.advance(60)

    assert runs == [0.0, 60.0, 120.0]
    assert supervisor.describe()[0]["next_run_in_seconds"] == 59.0
    await supervisor.aclose()


async def test_an_iteration_may_ask_for_the_next_one_sooner() -> None:
    runs = []

    async def work() -> float:
        runs.append(1)
        return 0.0

    supervisor = Supervisor(opened, Reported())
    supervisor.start([(A, task(work, interval=3600.0))])
    await until(lambda: len(runs) > 3)
    await supervisor.aclose()
