"""Start-up of the assembled server against a bare MCP server of as many trivial tools, alternating in one run.

Prints the median time from spawn to the `initialize` answer and to the `tools/list` answer, and the resident memory
then and after warm-up, with ratios. `python benchmarks/boot.py [ROUNDS]`.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from entrabot_host.tenant_child import TenantChild

BARE = '''
from mcp.server.mcpserver import MCPServer

server = MCPServer("bare")

def make(number):
    async def tool(first: str, second: str = "", third: int = 0) -> str:
        """A trivial tool."""
        return first
    tool.__name__ = f"tool_{number}"
    return tool

for number in range(COUNT):
    server.tool()(make(number))
server.run()
'''
HEAVY = ("msal", "requests", "azure", "pypdf", "keyring")
WARM_SECONDS = 8.0


@dataclass
class Sample:
    initialize: float
    listed: float
    memory: int
    warm_memory: int = 0
    tools: int = 0


def measure(command: list[str], environment: dict[str, str], *, warm: bool) -> Sample:
    started = time.perf_counter()
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    )
    try:
        initialize = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "benchmark", "version": "1"},
        }
        ask(process, 1, "initialize", initialize)
        initialized = time.perf_counter() - started
        say(process, {"method": "notifications/initialized"})
        tools = ask(process, 2, "tools/list", {})["tools"]
        sample = Sample(initialized, time.perf_counter() - started, resident(process), tools=len(tools))
        if warm:
            time.sleep(WARM_SECONDS)
            sample.warm_memory = resident(process)
        return sample
    finally:
        process.stdin.close()
        process.wait(timeout=10)


def say(process: subprocess.Popen[bytes], message: dict[str, Any]) -> None:
    process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    process.stdin.flush()


def ask(process: subprocess.Popen[bytes], number: int, method: str, params: dict[str, Any]) -> Any:
    say(process, {"id": number, "method": method, "params": params})
    while True:
        message = json.loads(process.stdout.readline())
        if message.get("id") == number:
            return message["result"]


def resident(process: subprocess.Popen[bytes]) -> int:
    return psutil.Process(process.pid).memory_info().rss


def heavy_modules(environment: dict[str, str]) -> str:
    """Which heavy modules are imported once the server is assembled and its protocol face is built."""
    code = (
        "import sys; from entrabot_host.application import Application; from entrabot_host.config import load_config;"
        "from entrabot_host.protocol import Client, build_server; import entrabot_host.serve, entrabot_host.stdio;"
        "build_server(Application(load_config()), Client());"
        f"print(*[name for name in {HEAVY!r} if name in sys.modules])"
    )
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    tenant = TenantChild.start()
    try:
        environment = {**os.environ, **{k: str(v) for k, v in tenant.describe()["environment"].items()}}
        ours = [sys.executable, "-m", "entrabot_host.main"]
        count = measure(ours, environment, warm=False).tools
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "bare.py"
            script.write_text(BARE.replace("COUNT", str(count)), encoding="utf-8")
            bare = [sys.executable, str(script)]
            measure(bare, environment, warm=False)
            samples: dict[str, list[Sample]] = {"bare": [], "entrabot": []}
            for number in range(rounds):
                warm = number == rounds - 1
                samples["bare"].append(measure(bare, environment, warm=warm))
                samples["entrabot"].append(measure(ours, environment, warm=warm))
        report(samples, count, heavy_modules(environment))
    finally:
        tenant.stop()


def report(samples: dict[str, list[Sample]], count: int, heavy: str) -> None:
    table = Table(title=f"Start-up with {count} tools, median of {len(samples['bare'])} (minimum)")
    for column in ("", "bare MCP server", "entrabot-mcp", "ratio", "goal"):
        table.add_column(column, justify="left" if not column else "right")
    rows = [
        ("spawn to initialize, ms", "initialize", 1000.0, 1.1),
        ("spawn to tools list, ms", "listed", 1000.0, 1.15),
        ("memory at tools list, MB", "memory", 1e-6, 1.2),
    ]
    for title, name, scale, goal in rows:
        bare, ours = ([getattr(s, name) * scale for s in samples[kind]] for kind in ("bare", "entrabot"))
        ratio = statistics.median(ours) / statistics.median(bare)
        table.add_row(title, shown(bare), shown(ours), f"{ratio:.2f}", f"{goal:.2f}")
    bare_warm, ours_warm = samples["bare"][-1].warm_memory * 1e-6, samples["entrabot"][-1].warm_memory * 1e-6
    ratio = f"{ours_warm / bare_warm:.2f}"
    table.add_row("memory after warm-up, MB", f"{bare_warm:.1f}", f"{ours_warm:.1f}", ratio, "1.50")
    Console().print(table)
    print(f"heavy modules imported before warm-up: {heavy or 'none'}")


def shown(values: list[float]) -> str:
    return f"{statistics.median(values):.1f} ({min(values):.1f})"


if __name__ == "__main__":
    main()
