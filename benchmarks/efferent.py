"""What copying calls to observers costs the caller, and how much of it arrives.

Two servers of the same tool stand side by side, one that copies to four observers and one that does not, and are
called in turn, 10 calls a second each: with healthy observers, then with one of the four hanging, dying and
returning, flooding its standard error, and starting slowly. Then 2,000 calls back to back.
`python benchmarks/efferent.py [CALLS] [BURST]`.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

TOOL = '''
from typing import Annotated
from pydantic import Field
from entrabot_host import Hints, Tool, hookimpl

async def look_up(number: Annotated[int, Field(description="Which row")]) -> dict:
    """Return a row."""
    rows = [{"id": f"{number}-{row}", "text": "some words of a message " * 3, "token": "hidden"} for row in range(10)]
    return {"number": number, "rows": rows}

@hookimpl
def register_tools(host):
    hints = Hints(read_only=True, destructive=False, idempotent=True, open_world=False)
    return [Tool(look_up, title="Look up", hints=hints)]
'''

OBSERVER = '''
import json, os, sys, threading, time
out, kind = sys.argv[1:]
if kind == "slow to start":
    time.sleep(8)
from mcp.server.mcpserver import MCPServer
server = MCPServer("observer", log_level="ERROR")
file = open(out, "a", buffering=1)
seen = 0

@server.tool(structured_output=False)
async def observe(tool_name: str, args: dict, result: dict | None = None) -> str:
    """Take a copy."""
    global seen
    if kind == "hanging":
        time.sleep(3600)
    seen += 1
    file.write(json.dumps([args["number"], result is not None]) + "\\n")
    if kind.startswith("dying") and seen == 40:
        os._exit(1)
    return ""

def flood():
    while True:
        os.write(2, b"noise " * 100)

if kind == "flooding":
    threading.Thread(target=flood, daemon=True).start()
server.run()
'''
OBSERVERS = 4
RATE = 10.0
PERIOD = 1.0 / RATE
START_SECONDS = 60.0
DRAIN_SECONDS = 120.0


class Server:
    """A server process, and one client talking to it."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("ENTRABOT_", "EFFERENT_"))}
        environment |= {"ENTRABOT_DATA_DIR": str(folder), "ENTRABOT_AUDIT_DIR": str(folder), **settings}
        command = [sys.executable, "-m", "entrabot_host.main", "--plugins", "efferent_copy", "--plugin"]
        self.process = subprocess.Popen(
            [*command, str(folder / "looking.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        self._number = 0
        info = {"name": "benchmark", "version": "1"}
        self._ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})
        self._say({"method": "notifications/initialized"})

    def call(self, number: int) -> tuple[float, str]:
        """Call the tool; return the seconds until the answer, and the answer as it came."""
        begun = time.perf_counter()
        answer = self._ask("tools/call", {"name": "look_up", "arguments": {"number": number}})
        return time.perf_counter() - begun, json.dumps(answer)

    def copies(self) -> str:
        """What `whoami` says about the observers."""
        answer = json.loads(self._ask("tools/call", {"name": "whoami", "arguments": {}})["content"][0]["text"])
        return next((check["summary"] for check in answer["health"] if check["check"] == "efferent-copy"), "")

    def children(self) -> set[int]:
        return {child.pid for child in psutil.Process(self.process.pid).children(recursive=True)}

    def _ask(self, method: str, params: dict[str, Any]) -> Any:
        self._number += 1
        self._say({"id": self._number, "method": method, "params": params})
        while True:
            message = json.loads(self.process.stdout.readline())
            if message.get("id") == self._number:
                return message["result"]

    def _say(self, message: dict[str, Any]) -> None:
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def stop(self) -> None:
        self.process.stdin.close()
        self.process.wait(timeout=10)


class Bench:
    """Both servers, and the observers' notes."""

    def __init__(self, folder: Path, plain: Server, odd: str, label: str) -> None:
        self.plain = plain
        self.kinds = ["healthy"] * (OBSERVERS - bool(odd)) + ([odd] if odd else [])
        self._outs = [folder / f"{label}-{number}.jsonl" for number in range(OBSERVERS)]
        peers = {
            f"observer-{number}": {"command": sys.executable, "args": [str(folder / "observer.py"), str(out), kind]}
            for number, (out, kind) in enumerate(zip(self._outs, self.kinds, strict=True))
        }
        config = folder / "peers.json"
        config.write_text(json.dumps({"mcpServers": peers}), encoding="utf-8")
        self.observed = Server(folder, {"EFFERENT_COPY_ENABLE": "1", "EFFERENT_COPY_CONFIG": str(config)})
        self._wait_for_observers(OBSERVERS - (odd == "slow to start"))

    def _wait_for_observers(self, count: int) -> None:
        wait(lambda: self.observed.copies().count(": live") >= count, START_SECONDS)

    def heard(self, number: int) -> list[tuple[int, bool]]:
        """The copies of our calls that an observer noted, in its order."""
        out = self._outs[number]
        lines = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
        return [(call, after) for call, after in map(json.loads, lines)]

    def paced(self, calls: int) -> dict[str, Any]:
        """Call both servers in turn, ``RATE`` times a second each."""
        times: dict[str, list[float]] = {"plain": [], "observed": []}
        same = True
        begun = time.perf_counter()
        for number in range(calls):
            pairs = [("plain", self.plain), ("observed", self.observed)]
            answers = []
            for position, (kind, server) in enumerate(pairs[:: 1 if number % 2 else -1]):
                pause = begun + (number + position / 2) * PERIOD - time.perf_counter()
                time.sleep(max(0.0, pause))
                seconds, answer = server.call(number)
                times[kind].append(seconds * 1000)
                answers.append(answer)
            same = same and answers[0] == answers[1]
        return {**times, "same": same}

    def burst(self, server: Server, calls: int) -> float:
        begun = time.perf_counter()
        for number in range(calls):
            server.call(number)
        return time.perf_counter() - begun


def wait(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.2)
    return False


@contextmanager
def bench(folder: Path, plain: Server, label: str, odd: str = "") -> Iterator[Bench]:
    made = Bench(folder, plain, odd, label)
    try:
        yield made
    finally:
        made.observed.stop()


def expected(calls: int) -> list[tuple[int, bool]]:
    return [(number, after) for number in range(calls) for after in (False, True)]


def main() -> None:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 150
    burst = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    console = Console(width=120)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "looking.py").write_text(TOOL, encoding="utf-8")
        (folder / "observer.py").write_text(OBSERVER, encoding="utf-8")
        plain = Server(folder, {})
        for number in range(50):
            plain.call(number)
        try:
            console.print(steady(folder, plain, calls))
            console.print(rush(folder, plain, burst))
        finally:
            plain.stop()


def steady(folder: Path, plain: Server, calls: int) -> Table:
    table = Table(title=f"{OBSERVERS} observers, {calls} calls at {RATE:g} a second, milliseconds: median (95 %)")
    for column in ("observers", "not copied", "copied", "added at the median", "goal", "answers", "healthy ones got"):
        table.add_column(column, justify="left" if column == "observers" else "right")
    for odd in ("", "hanging", "dying and returning", "flooding", "slow to start"):
        with bench(folder, plain, odd or "healthy", odd) as made:
            result = made.paced(calls)
            healthy = range(made.kinds.count("healthy"))
            wanted = len(expected(calls))
            wait(lambda: all(len(made.heard(number)) >= wanted for number in healthy), 20.0)  # noqa: B023
            arrived = [len(set(made.heard(number)) & set(expected(calls))) / wanted for number in healthy]
        added = statistics.median(result["observed"]) - statistics.median(result["plain"])
        table.add_row(
            f"{OBSERVERS - 1} healthy, 1 {odd}" if odd else f"{OBSERVERS} healthy",
            shown(result["plain"]),
            shown(result["observed"]),
            f"{added:+.2f}",
            "< 1.00",
            "identical" if result["same"] else "DIFFERENT",
            f"{min(arrived):.2%}",
        )
    return table


def rush(folder: Path, plain: Server, calls: int) -> Table:
    table = Table(title=f"{calls} calls back to back, {OBSERVERS} healthy observers")
    for column in ("", "value", "goal"):
        table.add_column(column, justify="left" if not column else "right")
    with bench(folder, plain, "rush") as made:
        before = made.observed.children()
        alone = made.burst(plain, calls)
        copied = made.burst(made.observed, calls)
        wanted = expected(calls)
        begun = time.perf_counter()
        wait(lambda: all(len(made.heard(n)) >= len(wanted) for n in range(OBSERVERS)), DRAIN_SECONDS)
        drained = time.perf_counter() - begun
        heard = [made.heard(number) for number in range(OBSERVERS)]
        started = len(made.observed.children() - before)
    delivered = min(len(set(copies) & set(wanted)) / len(wanted) for copies in heard)
    table.add_row("a call, not copied, ms", f"{alone / calls * 1000:.2f}", "")
    table.add_row("a call, copied, ms", f"{copied / calls * 1000:.2f}", "")
    table.add_row("seconds until the last copy had arrived", f"{drained:.1f}", "")
    table.add_row("copies delivered, the worst observer", f"{delivered:.3%}", ">= 99.9 %")
    table.add_row("in order", "yes" if all(copies == sorted(copies) for copies in heard) else "NO", "yes")
    table.add_row("processes started after boot", str(started), "0")
    return table


def shown(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({sorted(values)[int(len(values) * 0.95)]:.2f})"


if __name__ == "__main__":
    main()
