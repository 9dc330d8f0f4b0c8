"""CPU that one tools/call costs the server against a bare MCP server, alternating in one run; and what wrappers add.

The client writes calls one after another on the pipe, so that the server alone is measured: user and system time of
its process over many calls. What five wrappers add is too little for that clock, so it is measured in this process,
where the call boundary runs without a pipe. `python benchmarks/call.py [CALLS] [ROUNDS]`.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import psutil
from pydantic import Field
from rich.console import Console
from rich.table import Table

from entrabot_host import Hints, Tool, Wrapper, hookimpl
from entrabot_host.assembly import AssembledTool, assemble
from entrabot_host.calls import Calls
from entrabot_host.discovery import Installed, Loaded, Selection

BARE = '''
from mcp.server.mcpserver import MCPServer

server = MCPServer("bare")

@server.tool(structured_output=False)
async def echo(text: str) -> str:
    """Return the text."""
    return text

server.run()
'''

PLUGIN = '''
from typing import Annotated
from pydantic import Field
from entrabot_host import Band, Hints, Tool, Wrapper, hookimpl

async def echo(text: Annotated[str, Field(description="The text")]) -> str:
    """Return the text."""
    return text

@hookimpl
def register_tools(host):
    hints = Hints(read_only=True, destructive=False, idempotent=True, open_world=False)
    return [Tool(echo, title="Echo", hints=hints)]
'''


class Server:
    """A server process, and one client talking to it."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
        self._number = 0
        info = {"name": "benchmark", "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})
        self._say({"method": "notifications/initialized"})
        self.call(200)

    def call(self, count: int) -> float:
        """Make calls and return the CPU seconds that they cost."""
        before = self._cpu()
        for _ in range(count):
            answer = self.ask("tools/call", {"name": "echo", "arguments": {"text": "hello"}})
            assert not answer.get("isError"), answer
        return self._cpu() - before

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        self._number += 1
        self._say({"id": self._number, "method": method, "params": params})
        while True:
            message = json.loads(self.process.stdout.readline())
            if message.get("id") == self._number:
                return message["result"]

    def _say(self, message: dict[str, Any]) -> None:
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def _cpu(self) -> float:
        times = psutil.Process(self.process.pid).cpu_times()
        return times.user + times.system

    def stop(self) -> None:
        self.process.stdin.close()
        self.process.wait(timeout=10)


def main() -> None:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = {key: value for key, value in os.environ.items() if not key.startswith("ENTRABOT_")}
        environment |= {"ENTRABOT_DATA_DIR": name, "ENTRABOT_AUDIT_DIR": name}
        (folder / "bare.py").write_text(BARE, encoding="utf-8")
        (folder / "echoing.py").write_text(PLUGIN, encoding="utf-8")
        ours = [sys.executable, "-m", "entrabot_host.main", "--plugins", "none", "--plugin", str(folder / "echoing.py")]
        commands = {"bare": [sys.executable, str(folder / "bare.py")], "entrabot": ours}
        servers = {kind: Server(command, environment) for kind, command in commands.items()}
        costs: dict[str, list[float]] = {kind: [] for kind in servers}
        for _ in range(rounds):
            for kind, server in servers.items():
                costs[kind].append(server.call(calls) / calls * 1e6)
        for server in servers.values():
            server.stop()
    report(costs, calls, asyncio.run(wrapping(rounds)))


class Context:
    call_id = "1"
    client_name = "benchmark"

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None: ...


async def echo(text: Annotated[str, Field(description="The text")]) -> str:
    """Return the text."""
    return text


def through(call: Any) -> Any:
    @functools.wraps(call)
    async def wrapped(**arguments: Any) -> Any:
        return await call(**arguments)

    return wrapped


def assembled(wrappers: int) -> tuple[Calls, AssembledTool]:
    """The call boundary with one tool under so many wrappers."""
    calls = Calls(write_audit=None)
    hints = Hints(read_only=True, destructive=False, idempotent=True, open_world=False)
    tool = Tool(echo, title="Echo", hints=hints)
    modules = {"echoing": SimpleNamespace(register_tools=hookimpl(lambda host: [tool]))}
    for number in range(wrappers):
        modules[f"wrapper_{number}"] = SimpleNamespace(wrap_tool=hookimpl(lambda tool, host: Wrapper(through)))
    plugins = [Loaded(Installed(name, name, "1", object), module) for name, module in modules.items()]
    assembly = assemble(plugins, lambda name: None, Selection(), innermost=calls.innermost)
    return calls, assembly.tools["echo"]


async def wrapping(rounds: int, count: int = 20_000) -> dict[int, float]:
    """Least CPU microseconds of a call under no and under five wrappers."""
    best = dict.fromkeys((0, 5), float("inf"))
    for _ in range(rounds):
        for wrappers in best:
            calls, tool = assembled(wrappers)
            started = time.process_time()
            for _ in range(count):
                await calls.run(tool, {"text": "hello"}, Context())
            best[wrappers] = min(best[wrappers], (time.process_time() - started) / count * 1e6)
    return best


def report(costs: dict[str, list[float]], calls: int, wrapping: dict[int, float]) -> None:
    table = Table(title=f"CPU per call, microseconds, {len(costs['bare'])} rounds of {calls} calls")
    for column in ("", "median", "minimum", "result", "goal"):
        table.add_column(column, justify="left" if not column else "right")
    bare, ours = (statistics.median(costs[kind]) for kind in ("bare", "entrabot"))
    table.add_row("bare MCP server", f"{bare:.1f}", f"{min(costs['bare']):.1f}", "", "")
    table.add_row("entrabot-mcp", f"{ours:.1f}", f"{min(costs['entrabot']):.1f}", f"{ours / bare:.2f} of bare", "1.10")
    added = wrapping[5] - wrapping[0]
    table.add_row("the boundary alone", "", f"{wrapping[0]:.1f}", "", "")
    table.add_row("with five wrappers", "", f"{wrapping[5]:.1f}", f"{added:+.1f} us", "+10 us")
    Console().print(table)


if __name__ == "__main__":
    main()
