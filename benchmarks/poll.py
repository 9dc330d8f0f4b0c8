"""How soon the assembled server hears people, and what that costs, against a sandbox tenant of its own process.

For 10, 100 and 500 chats, with and without Graph's order of chats, at the usual beat and at a live beat of one second:
the time from a message's becoming visible at Graph to its push on the server's standard output, and the requests of a
quiet beat. Graph answers after 100 ms, under its documented limits; each message is visible up to three seconds after
it was written. `python benchmarks/poll.py [--sizes 10,100] [--messages 120]`; about twelve minutes for all.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from entrabot_sandbox.client import Sandbox
from rich.console import Console
from rich.table import Table

Json = dict[str, Any]
PUSH = "notifications/claude/channel"
LATENCY = 0.1
LONGEST_DELAY = 3.0
SPACING = 0.37
"""Seconds between messages: no divisor of a beat, so that their moments spread evenly over it."""
USUAL, LIVE = 5.0, 1.0
QUIET_BEATS = 4
PATIENCE = 20.0


@dataclass(frozen=True)
class Sample:
    """One run. ``delays`` in seconds; ``missing`` messages were not pushed in time."""

    delays: list[float]
    missing: int
    quiet: float | None
    tokens: float


class Server:
    """The server under test, as its host sees it. pushed: when each message arrived, by id."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._answers: dict[int, asyncio.Future[Json]] = {}
        self.pushed: dict[str, float] = {}
        self._reading = asyncio.create_task(self._read())

    @classmethod
    @asynccontextmanager
    async def start(cls, environment: dict[str, str]) -> AsyncIterator[Server]:
        """Run it for the length of a block."""
        pipe = asyncio.subprocess.PIPE
        command = (sys.executable, "-m", "entrabot_host.main", "--plugins", "teams")
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, env=environment, limit=1 << 24
        )
        server = cls(process)
        try:
            client = {"name": "claude-code", "version": "1.0"}
            await server.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
            await server.write({"jsonrpc": "2.0", "method": "notifications/initialized"})
            await server.ask("tools/call", {"name": "whoami", "arguments": {}})
            yield server
        finally:
            assert process.stdin is not None
            process.stdin.close()
            await asyncio.wait_for(process.wait(), 10)
            await server._reading

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            now, message = time.time(), json.loads(line)
            if message.get("method") == PUSH:
                self.pushed.setdefault(message["params"]["meta"]["message_id"], now)
            elif future := self._answers.pop(message.get("id"), None):
                future.set_result(message)

    async def write(self, message: Json) -> None:
        """Send a message."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        await self._process.stdin.drain()

    async def ask(self, method: str, params: Json) -> Json:
        """Send a request and return the answer."""
        number = len(self._answers) + int(time.time() * 1000)
        future = self._answers[number] = asyncio.get_running_loop().create_future()
        await self.write({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return await asyncio.wait_for(future, 60)


async def arrange(sandbox: Sandbox, size: int) -> list[str]:
    """Start over with that many chats, in which nothing was written for an hour; return their ids."""
    await sandbox.clear_faults()
    await sandbox.reset()
    await sandbox.set_clock(-3_600)
    gate = asyncio.Semaphore(16)

    async def make(number: int) -> str:
        async with gate:
            chat = await sandbox.create_chat("alice", ["agent", "bob"], topic=f"Chat {number}")
            return str(chat["id"])

    chats = await asyncio.gather(*(make(number) for number in range(size)))
    await sandbox.set_clock(0)
    await sandbox.fault("latency", path="/v1.0/**", seconds=LATENCY)
    return chats


async def run(sandbox: Sandbox, chats: list[str], *, ordered: bool, live: bool, count: int) -> Sample:
    """Measure one combination."""
    await sandbox.settings(ordering_taken=ordered, throttling=True, visibility_delay=0)
    with tempfile.TemporaryDirectory() as folder:
        async with Server.start(environment(sandbox, Path(folder), live=live)) as server:
            quiet = None if live else await quiet_beat(sandbox)
            if live:  # a conversation is what makes the beat a live one
                said = await sandbox.say("alice", "hello", chat=chats[0])
                await arrival(server, {str(said["id"]): 0.0})
            await sandbox.clear_requests()
            visible = await talk(sandbox, chats, count)
            tokens = sum(number for path, number in (await sandbox.counts()).items() if path.endswith("/token"))
            await arrival(server, visible)
            delays = [server.pushed[key] - at for key, at in visible.items() if key in server.pushed]
    return Sample(delays, count - len(delays), quiet, tokens / count)


def environment(sandbox: Sandbox, folder: Path, *, live: bool) -> dict[str, str]:
    """An installation of its own."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "SYSTEMROOT", "TMPDIR") if name in os.environ}
    folders = {f"ENTRABOT_{name}_DIR": str(folder / name.lower()) for name in ("DATA", "LOG", "AUDIT")}
    beat = {"ENTRABOT_LIVE_POLL_SECONDS": f"{LIVE:g}"} if live else {}
    return {**sandbox.environment, **kept, "HOME": str(folder), **folders, **beat}


async def quiet_beat(sandbox: Sandbox) -> float:
    """Return the requests of a beat without news, after the first looks."""
    await asyncio.sleep(2 * USUAL)
    await sandbox.clear_requests()
    await asyncio.sleep(QUIET_BEATS * USUAL)
    asked = [entry for entry in await sandbox.requests() if not entry["batch"] and entry["path"].startswith("/v1.0")]
    return len(asked) / QUIET_BEATS


async def talk(sandbox: Sandbox, chats: list[str], count: int) -> dict[str, float]:
    """Let people write; return when each message became visible, by its id."""
    visible: dict[str, float] = {}
    began = time.monotonic()
    for number in range(count):
        await asyncio.sleep(max(0.0, began + number * SPACING - time.monotonic()))
        delay = random.uniform(0, LONGEST_DELAY)
        await sandbox.settings(visibility_delay=delay)
        said = await sandbox.say("alice", f"message {number}", chat=random.choice(chats))
        visible[said["id"]] = datetime.fromisoformat(said["createdDateTime"]).timestamp() + delay
    return visible


async def arrival(server: Server, visible: dict[str, float]) -> None:
    """Wait until all were pushed, for a while."""
    deadline = time.monotonic() + LONGEST_DELAY + PATIENCE
    while not visible.keys() <= server.pushed.keys() and time.monotonic() < deadline:
        await asyncio.sleep(0.1)


async def measure(sizes: list[int], count: int) -> None:
    """Measure all combinations and print them as they come."""
    table = Table(
        "chats", "order", "beat s", "median s", "95 % s", "missing", "requests per quiet beat", "tokens/message"
    )
    console = Console(width=110)
    async with Sandbox.start() as sandbox:
        for size in sizes:
            chats = await arrange(sandbox, size)
            for ordered in (True, False):
                for live in (False, True):
                    sample = await run(sandbox, chats, ordered=ordered, live=live, count=count)
                    table.add_row(*shown(size, ordered, live, sample))
                    console.print("  ".join(shown(size, ordered, live, sample)))
    console.print(table)


def shown(size: int, ordered: bool, live: bool, sample: Sample) -> list[str]:
    """A row of the table."""
    cuts = statistics.quantiles(sample.delays, n=20) if len(sample.delays) > 1 else [float("nan")] * 19
    quiet = "" if sample.quiet is None else f"{sample.quiet:.1f}"
    beat = LIVE if live else USUAL
    figures = [f"{beat:g}", f"{cuts[9]:.2f}", f"{cuts[18]:.2f}", str(sample.missing), quiet, f"{sample.tokens:.2f}"]
    return [str(size), "taken" if ordered else "refused", *figures]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10,100,500", help="numbers of chats")
    parser.add_argument("--messages", type=int, default=120, help="messages of each run")
    chosen = parser.parse_args()
    asyncio.run(measure([int(size) for size in chosen.sizes.split(",")], chosen.messages))
