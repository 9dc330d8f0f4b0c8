"""Observers as child processes, and what they were told."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

OBSERVER = Path(__file__).with_name("observer.py")


class Observer:
    """One observer: its entry for a config file, and the copies it wrote down."""

    def __init__(self, out: Path, *options: str) -> None:
        self.out = out
        self.command = [sys.executable, str(OBSERVER), str(out), *options]

    @property
    def entry(self) -> dict[str, Any]:
        return {"command": self.command[0], "args": self.command[1:]}

    def copies(self) -> list[dict[str, Any]]:
        return _lines(self.out)

    def starts(self) -> list[dict[str, Any]]:
        return _lines(Path(f"{self.out}.starts"))


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.endswith("}")]


def config(path: Path, entries: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
    return path


@contextmanager
def served(observer: Observer, transport: str, port: int) -> Iterator[str]:
    """Run an observer over HTTP and give its address."""
    process = subprocess.Popen([*observer.command, "--transport", transport, "--port", str(port)])
    try:
        yield f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}"
    finally:
        process.kill()
        process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def until(condition: Callable[[], Any], seconds: float = 45.0) -> Any:
    """Wait until the condition holds and return what it returned."""
    async with asyncio.timeout(seconds):
        while not (value := condition()):
            await asyncio.sleep(0.02)
    return value


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE]


class Recorder:
    """A session in memory."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.entered = 0

    @property
    def payloads(self) -> list[dict[str, Any]]:
        return [payload for _, payload in self.calls]

    async def call_tool(self, name: str, payload: dict[str, Any]) -> None:
        self.calls.append((name, payload))

    async def __aenter__(self) -> Recorder:
        self.entered += 1
        return self

    async def __aexit__(self, *exc: object) -> None:
        return None
