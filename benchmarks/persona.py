"""What a persona costs at start: spawn to the `initialize` answer with one, against without, alternating in one run.

First starts, which may wait for the persona (2 seconds unless set otherwise), have a data folder of their own each
time; later starts use what an earlier one left. `python benchmarks/persona.py [ROUNDS]`.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from boot import ask, say
from rich.console import Console
from rich.table import Table

SERVER = '''
import sys
from mcp.server.mcpserver import MCPServer

server = MCPServer("persona", log_level="CRITICAL")

@server.tool()
def get_system_prompt() -> str:
    """The persona."""
    return "You are Sati. " * 1000

server.run("streamable-http", port=int(sys.argv[1]))
'''
HANGING = f"{sys.executable} -c 'import time; time.sleep(600)'"
MINTING = "echo token"
SETTLE_SECONDS = 60.0


@dataclass
class Case:
    title: str
    settings: dict[str, str]
    first: bool = False
    data: str = ""
    samples: list[float] = field(default_factory=list)


def start(environment: dict[str, str], until: str = "") -> float:
    """Start a server and return the seconds to its first answer. until: wait on, for a file of this pattern."""
    born = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "entrabot_host.main"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    try:
        client = {"name": "benchmark", "version": "1"}
        ask(process, 1, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
        taken = time.perf_counter() - born
        if until:
            say(process, {"method": "notifications/initialized"})
            deadline = time.monotonic() + SETTLE_SECONDS
            while not list(Path(environment["ENTRABOT_DATA_DIR"]).glob(until)):
                if time.monotonic() > deadline:
                    raise SystemExit("the persona did not settle")
                time.sleep(0.05)
        return taken
    finally:
        process.stdin.close()
        process.wait(timeout=10)


@contextmanager
def persona_server(folder: Path) -> Iterator[str]:
    script = folder / "server.py"
    script.write_text(SERVER, encoding="utf-8")
    port = free_port()
    process = subprocess.Popen([sys.executable, str(script), str(port)], stderr=subprocess.DEVNULL)
    try:
        while socket.socket().connect_ex(("127.0.0.1", port)):
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


@contextmanager
def mute_server() -> Iterator[str]:
    """It takes connections and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(256)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def configured(url: str, command: str) -> dict[str, str]:
    return {"PERSONA_SATI_MCP_URL": url, "PERSONA_SATI_MCP_TOKEN_COMMAND": command}


def environment(case: Case, data: str) -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("ENTRABOT_", "PERSONA_", "EFFERENT_"))
    }
    own = {"HOME": data, "ENTRABOT_DATA_DIR": f"{data}/data", "ENTRABOT_AUDIT_DIR": f"{data}/audit"}
    return {**kept, **own, "ENTRABOT_PLUGINS": "none", **case.settings}


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    with tempfile.TemporaryDirectory() as name, persona_server(Path(name)) as url, mute_server() as mute:
        dead = f"http://127.0.0.1:{free_port()}/mcp"
        cases = [
            Case("no persona", {}),
            Case("later start, text cached", configured(url, MINTING)),
            Case("later start, server refuses connections", configured(dead, MINTING)),
            Case("later start, server never answers", configured(mute, MINTING)),
            Case("later start, token command hangs", configured(url, HANGING)),
            Case("first start, server answers", configured(url, MINTING), first=True),
            Case("first start, server refuses connections", configured(dead, MINTING), first=True),
            Case("first start, server never answers", configured(mute, MINTING), first=True),
            Case("first start, token command hangs", configured(url, HANGING), first=True),
        ]
        for case in cases:
            case.data = tempfile.mkdtemp(dir=name)
            start(environment(case, case.data), ".persona/*.json" if case.settings else "")
        for _ in range(rounds):
            for case in cases:
                data = tempfile.mkdtemp(dir=name) if case.first else case.data
                case.samples.append(start(environment(case, data)))
        report(cases)


def report(cases: list[Case]) -> None:
    bare = statistics.median(cases[0].samples)
    table = Table(title=f"Spawn to initialize, ms: median of {len(cases[0].samples)} (minimum)")
    for column in ("", "ms", "ratio"):
        table.add_column(column, justify="left" if not column else "right")
    for case in cases:
        middle = statistics.median(case.samples)
        table.add_row(case.title, f"{middle * 1000:.0f} ({min(case.samples) * 1000:.0f})", f"{middle / bare:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
