"""Reading the interaction log: seven days of 20,000 lines each, the newest in their chats' usual mixture.

Prints, per question, the median and the longest time of `read_interactions`' search, the longest stall of the event
loop meanwhile (a 1 ms ticker), and the growth of peak memory; last, a reader that parses every line.

    python benchmarks/records.py [--lines 20000] [--days 7] [--runs 7]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import random
import resource
import statistics
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.table import Table

from entrabot_host.records.interactions import InteractionLog
from entrabot_host.records.reading import Wanted
from entrabot_host.storage.backend import MemoryBackend
from entrabot_host.storage.local import LocalBackend

CHATS = 40
SUMMARY = 160


def chat(number: int) -> str:
    """A chat's id, in Teams' form."""
    return f"19:{number:032x}@thread.v2"


def line(number: int, when: datetime, chance: random.Random) -> dict[str, Any]:
    """One line, inbound or outbound."""
    where = chat(chance.randrange(CHATS))
    text = "".join(chance.choices("abcdefghij klmnop", k=SUMMARY))
    common = {"id": f"{number:032x}", "ts": when.isoformat(), "channel": "teams_group", "summary": text}
    if number % 3:
        metadata = {"chat_id": where, "sender_id": f"{number % 50:032x}", "sponsor": False}
        return {**common, "direction": "inbound", "sender": f"user{number % 50}@contoso.com", "metadata": metadata}
    sent = {"recipient": where, "action": "send_teams_message"}
    return {**common, "direction": "outbound", "sender": "agent@contoso.com", **sent}


def fill(folder: Path, days: int, lines: int, now: datetime) -> None:
    """Write the files. Runs in a process of its own, so that its memory does not count."""
    chance = random.Random(7)
    (folder / "interactions").mkdir()
    for back in range(days):
        start = (now - timedelta(days=back)).replace(hour=0, minute=0, second=0, microsecond=0)
        span = (min(now, start + timedelta(days=1)) - start) / lines
        text = "".join(json.dumps(line(n, start + n * span, chance)) + "\n" for n in range(lines))
        (folder / "interactions" / f"{start:%Y-%m-%d}.jsonl").write_text(text, encoding="ascii")


class Ticker:
    """The longest time for which another task that wants to run every millisecond did not get its turn."""

    async def __aenter__(self) -> Ticker:
        self.longest = 0.0
        self._task = asyncio.create_task(self._run())
        await asyncio.sleep(0.005)
        self.longest = 0.0
        return self

    async def __aexit__(self, *error: object) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        last = perf_counter()
        while True:
            await asyncio.sleep(0.001)
            now = perf_counter()
            self.longest = max(self.longest, now - last - 0.001)
            last = now


def resident() -> float:
    """The peak of resident memory, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def measured(table: Table, name: str, runs: int, work: Callable[[], Awaitable[int]]) -> None:
    """Run it several times and add a row."""
    before, times, stalls, found = resident(), [], [], 0
    for _ in range(runs):
        async with Ticker() as ticker:
            began = perf_counter()
            found = await work()
            times.append(perf_counter() - began)
            await asyncio.sleep(0.002)
        stalls.append(ticker.longest)
    figures = [statistics.median(times), max(times), max(stalls)]
    table.add_row(name, str(found), *(f"{1000 * figure:.1f}" for figure in figures), f"{resident() - before:.0f}")


async def measure(days: int, lines: int, runs: int) -> None:
    """Measure all questions."""
    now = datetime.now(UTC)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        filling = multiprocessing.get_context("spawn").Process(target=fill, args=(folder, days, lines, now))
        filling.start()
        filling.join()
        size = sum(path.stat().st_size for path in (folder / "interactions").iterdir())
        backend = LocalBackend(folder)

        async def source() -> MemoryBackend:
            return backend

        log = InteractionLog(source)
        questions: dict[str, dict[str, str]] = {
            "the newest ten": {},
            "one chat of forty": {"chat_id": chat(7)},
            "an absent chat": {"chat_id": chat(77)},
            "an absent sender": {"sender": "Nobody@contoso.com"},
            "one sender, outbound, absent action": {"direction": "outbound", "action": "share_file"},
        }
        title = f"{days} days of {lines:,} lines, {size / 1e6:.0f} MB"
        table = Table("question", "found", "median ms", "longest ms", "longest stall ms", "memory MB", title=title)
        for name, filters in questions.items():
            wanted = Wanted(since=now - timedelta(days=days), **filters)  # type: ignore[arg-type]
            await measured(table, name, runs, lambda wanted=wanted: counted(log, wanted))  # type: ignore[misc]
        await measured(table, "counting today", runs, lambda: tallied(log, now))
        await measured(table, "reading and parsing all, on the loop", 1, lambda: everything(folder))
        await backend.aclose()
        Console(width=120).print(table)


async def counted(log: InteractionLog, wanted: Wanted) -> int:
    """Ask."""
    return len(await log.read(wanted, 10))


async def tallied(log: InteractionLog, now: datetime) -> int:
    """What `bootstrap_body_state` asks."""
    return sum((await log.tally(now.date())).directions.values())


async def everything(folder: Path) -> int:
    """The measure: what a reader that parses every line pays."""
    paths = sorted((folder / "interactions").iterdir())
    return len([json.loads(text) for path in paths for text in path.read_text(encoding="ascii").splitlines()])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=7, help="days of the log")
    parser.add_argument("--lines", type=int, default=20_000, help="lines of each day")
    parser.add_argument("--runs", type=int, default=7, help="times that each question is asked")
    chosen = parser.parse_args()
    asyncio.run(measure(chosen.days, chosen.lines, chosen.runs))
