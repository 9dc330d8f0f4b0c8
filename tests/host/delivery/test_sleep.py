"""Sleep and clock jumps are noticed, and nothing goes on before what was known is forgotten."""

import asyncio
from dataclasses import replace

import pytest

from entrabot_host.delivery import sleep
from entrabot_host.delivery.sleep import Clocks, SleepWatch


class Machine:
    """Three clocks, and what was done on waking."""

    def __init__(self) -> None:
        self.clocks = Clocks(0.0, 0.0, 0.0)
        self.woken = 0
        self.awake = asyncio.Event()
        self.watch = SleepWatch(self.wake, lambda: self.clocks)

    def runs(self, seconds: float) -> None:
        now = self.clocks
        self.clocks = Clocks(now.monotonic + seconds, now.boot + seconds, now.wall + seconds)

    async def wake(self) -> None:
        await asyncio.sleep(0)
        self.woken += 1
        self.awake.set()


@pytest.mark.parametrize(
    ("changes", "woken"),
    [
        ({}, 0),
        ({"wall": 3.0}, 0),
        ({"boot": 8 * 3600.0, "wall": 8 * 3600.0}, 1),
        ({"wall": -3600.0}, 1),
        ({"wall": 3600.0}, 1),
        ({"monotonic": 10.0, "boot": 10.0, "wall": 10.0}, 0),
    ],
)
async def test_a_clock_that_runs_away_from_the_others_tells_of_it(changes: dict[str, float], woken: int) -> None:
    machine = Machine()
    machine.runs(1000)
    await machine.watch.check()
    now = machine.clocks
    machine.clocks = replace(now, **{name: getattr(now, name) + by for name, by in changes.items()})
    await machine.watch.check()
    assert machine.woken == woken
    await machine.watch.check()
    assert machine.woken == woken


async def test_whoever_checks_waits_until_everything_is_forgotten() -> None:
    machine = Machine()
    machine.clocks = Clocks(0.0, 9000.0, 9000.0)
    seen: list[int] = []

    async def go_on() -> None:
        await machine.watch.check()
        seen.append(machine.woken)

    await asyncio.gather(go_on(), go_on(), go_on())
    assert seen == [1, 1, 1]


async def test_the_watch_looks_by_itself_and_a_stop_of_the_process_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sleep, "LOOK_SECONDS", 0.01)
    machine = Machine()
    machine.watch.start()
    machine.runs(sleep.STALL_SECONDS + 1)
    await asyncio.wait_for(machine.awake.wait(), 5)
    await machine.watch.aclose()
    assert machine.woken == 1


async def test_a_failure_on_waking_does_not_end_the_watch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sleep, "LOOK_SECONDS", 0.01)
    machine = Machine()
    good = machine.wake
    failed = asyncio.Event()

    async def fail() -> None:
        machine.watch._on_wake = good
        failed.set()
        raise ValueError("broken")

    machine.watch._on_wake = fail
    machine.watch.start()
    machine.runs(60)
    await asyncio.wait_for(failed.wait(), 5)
    while "ValueError" not in caplog.text:
        await asyncio.sleep(0.01)
    machine.runs(60)
    await asyncio.wait_for(machine.awake.wait(), 5)
    await machine.watch.aclose()
