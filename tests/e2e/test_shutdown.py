"""The assembled server goes when its host goes, soon and with status 0, whatever it is doing."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.e2e.plugins import install
from tests.e2e.wire import LEGACY

SOON = 5.0
"""Seconds for what takes about one, on a machine that does other work too; what is stuck is stuck for a minute."""

STUCK = '''
import asyncio, time
from entrabot_host import Hints, Tool, hookimpl


async def sleep() -> dict:
    """Sleep in a worker thread that nothing can interrupt."""
    print("STUCK", flush=True)
    await asyncio.to_thread(time.sleep, 60)
    return {}


async def hog() -> dict:
    """Block the event loop itself."""
    print("STUCK", flush=True)
    time.sleep(60)
    return {}


async def deaf() -> dict:
    """Refuse to be cancelled."""
    print("STUCK", flush=True)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass
    return {}


@hookimpl
def register_tools(host):
    hints = Hints(read_only=True, destructive=False, idempotent=True, open_world=False)
    return [Tool(fn, title="Be stuck", hints=hints) for fn in (sleep, hog, deaf)]
'''


class Pipes:
    """A server whose pipes the test holds itself, so that it can leave them unread."""

    def __init__(self, process: subprocess.Popen[bytes], errors: Any) -> None:
        self.process = process
        self._errors = errors
        self._numbers = iter(range(1, 1_000_000))

    @property
    def stderr(self) -> str:
        self._errors.seek(0)
        return str(self._errors.read().decode("utf-8", "replace"))

    def send(self, method: str, params: dict[str, Any] | None = None, *, notify: bool = False) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        if not notify:
            message["id"] = next(self._numbers)
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")

    def answer(self) -> dict[str, Any]:
        """Read up to the next answer."""
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            message = json.loads(line)
            if "id" in message:
                return dict(message)
        raise AssertionError(f"the server has ended: {self.stderr}")

    def greet(self) -> None:
        client = {"name": "claude-code", "version": "1.0"}
        self.send("initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client})
        self.answer()
        self.send("notifications/initialized", notify=True)
        self.call("whoami")
        self.answer()

    def call(self, tool: str) -> None:
        self.send("tools/call", {"name": tool, "arguments": {}})

    def wait_for(self, words: str) -> None:
        """Wait until it has written this to standard error."""
        end = time.monotonic() + 30
        while words not in self.stderr:
            assert time.monotonic() < end, self.stderr
            time.sleep(0.02)

    def wait(self, seconds: float = SOON) -> int:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still there after {seconds:g} seconds: {self.stderr}") from None


@contextmanager
def running(environment: dict[str, str], *arguments: str, greet: bool = True) -> Iterator[Pipes]:
    command = [sys.executable, "-m", "entrabot_host.main", *arguments]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, bufsize=0
        )
        try:
            pipes = Pipes(process, errors)
            if greet:
                pipes.greet()
            yield pipes
        finally:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()


def end_of_input(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()


def closed_output(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    process.stdout.close()


def interrupt(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)


def terminate(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)


def interrupt_and_terminate(process: subprocess.Popen[bytes]) -> None:
    """As Claude Code does."""
    process.send_signal(signal.SIGINT)
    time.sleep(0.11)
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()


Way = Callable[[subprocess.Popen[bytes]], None]
WAYS: list[Way] = [end_of_input, closed_output, interrupt, terminate, interrupt_and_terminate]
every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


@pytest.fixture
def stuck(bare: dict[str, str], tmp_path: Path) -> dict[str, str]:
    install(tmp_path / "site", "stuck", STUCK)
    return {**bare, "PYTHONPATH": str(tmp_path / "site")}


@every_way
def test_at_rest(bare: dict[str, str], way: Way) -> None:
    with running(bare) as server:
        way(server.process)
        assert server.wait() == 0
        assert "Traceback" not in server.stderr


@every_way
def test_while_polling(environment: dict[str, str], way: Way) -> None:
    with running(environment) as server:
        way(server.process)
        assert server.wait() == 0
        assert "Traceback" not in server.stderr


@pytest.mark.parametrize("tool", ["sleep", "hog", "deaf"])
@every_way
def test_while_a_tool_is_stuck(stuck: dict[str, str], way: Way, tool: str) -> None:
    with running(stuck) as server:
        server.call(tool)
        server.wait_for("STUCK")
        way(server.process)
        assert server.wait() == 0
        assert "Traceback" not in server.stderr


@every_way
def test_while_the_host_does_not_read(bare: dict[str, str], way: Way) -> None:
    with running(bare) as server:
        assert server.process.stdin is not None
        assert server.process.stdout is not None
        os.set_blocking(server.process.stdin.fileno(), False)
        wanted = b'{"jsonrpc":"2.0","id":"x%d","method":"tools/list","params":{}}\n'
        for number in range(400):
            if not select.select([], [server.process.stdin], [], 0.2)[1]:
                break  # its queues are full, too
            server.process.stdin.write(wanted % number)
        way(server.process)
        assert server.wait() == 0
        assert "Traceback" not in server.stderr


@every_way
def test_before_it_was_greeted(bare: dict[str, str], way: Way) -> None:
    with running(bare, greet=False) as server:
        server.send("ping")
        server.answer()
        way(server.process)
        assert server.wait() == 0


@pytest.mark.parametrize("way", [*WAYS, kill], ids=lambda way: way.__name__)
def test_the_sandbox_goes_with_the_server(bare: dict[str, str], way: Way) -> None:
    with running(bare, "--sandbox") as server:
        children = psutil.Process(server.process.pid).children(recursive=True)
        assert children
        way(server.process)
        assert server.wait() == (-signal.SIGKILL if way is kill else 0)
        _, alive = psutil.wait_procs(children, timeout=SOON)
        assert not alive
