"""Nothing but JSON-RPC ever leaves on standard output, whatever a plugin does."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.e2e.plugins import install
from tests.e2e.wire import LEGACY, MODERN, served

NOISY = '''
import atexit, ctypes, os, subprocess, sys, threading
from entrabot_host import BackgroundTask, Gate, Hints, Tool, hookimpl


def noise(where):
    print("NOISE print", where)
    sys.stdout.write(f"NOISE stdout {where}\\n")
    sys.stdout.flush()
    if sys.__stdout__ is not None:
        sys.__stdout__.write(f"NOISE __stdout__ {where}\\n")
        sys.__stdout__.flush()
    os.write(1, f"NOISE descriptor {where}\\n".encode())
    libc = ctypes.CDLL(None)
    libc.puts(f"NOISE libc {where}".encode())
    libc.fflush(None)
    child = subprocess.run(["sh", "-c", f"echo NOISE child {where}; wc -c >&2; exec cat"], timeout=20)
    subprocess.run(f"echo NOISE unclosed {where}", shell=True, close_fds=False, timeout=20)
    assert child.returncode == 0


async def shout() -> dict:
    """Shout."""
    noise("tool")
    thread = threading.Thread(target=print, args=("NOISE thread",))
    thread.start()
    thread.join()
    read = subprocess.run(["cat"], stdout=subprocess.PIPE, timeout=20).stdout
    try:
        input()
        typed = "something"
    except EOFError:
        typed = "end of file"
    return {"child_read": read.decode(), "typed": typed, "descriptor_0": os.read(0, 10).decode()}


async def beat():
    noise("task")


@hookimpl
def register_tools(host):
    noise("hook")
    hints = Hints(read_only=True, destructive=False, idempotent=True, open_world=False)
    return [Tool(shout, title="Shout", hints=hints)]


@hookimpl
def background_tasks(host):
    return [BackgroundTask(name="noise", run=beat, interval=3600.0, gate=Gate.ALWAYS, description="Makes noise")]


@hookimpl
def wrap_tool(tool, host):
    print("NOISE wrap")


noise("import")
atexit.register(noise, "exit")
'''


@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_a_plugin_that_writes_everywhere(bare: dict[str, str], tmp_path: Path, era: str) -> None:
    install(tmp_path / "site", "noisy", NOISY)
    async with served({**bare, "PYTHONPATH": str(tmp_path / "site")}, era=era) as server:
        assert await server.call("shout") == {"child_read": "", "typed": "end of file", "descriptor_0": ""}
        me = await server.call("whoami")
        assert [plugin["name"] for plugin in me["plugins"]["active"] if plugin["name"] == "noisy"]
        assert await server.stop() == 0
        stderr = server.stderr
    assert len(server.lines) >= 3
    for line in server.lines:
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0", line
        assert b"NOISE" not in line
    for way in ("print", "stdout", "descriptor", "libc", "child", "unclosed"):
        for where in ("import", "hook", "tool", "task"):
            assert f"NOISE {way} {where}" in stderr, "it is diverted, not lost"
    assert "NOISE thread" in stderr


async def test_a_plugin_that_writes_and_then_fails_at_import(bare: dict[str, str], tmp_path: Path) -> None:
    install(tmp_path / "site", "failing", "print('NOISE')\nimport os\nos.write(1, b'NOISE')\nraise OSError('no')\n")
    async with served({**bare, "PYTHONPATH": str(tmp_path / "site")}) as server:
        await server.tools()
        assert await server.stop() == 0
        assert "NOISE" in server.stderr
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in server.lines)


async def test_the_highest_log_level_stays_off_standard_output(environment: dict[str, str]) -> None:
    async with served({**environment, "ENTRABOT_LOG_LEVEL": "DEBUG"}) as server:
        await server.call("whoami")
        assert await server.stop() == 0
        stderr = server.stderr
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in server.lines)
    assert "entrabot: DEBUG" in stderr
    assert not re.search(r"eyJ[\w-]+\.eyJ", stderr), "a token is in the log"


async def test_standard_error_may_be_closed(bare: dict[str, str], tmp_path: Path) -> None:
    """A host that drops standard error loses the noise, and nothing of it lands in the protocol."""
    install(tmp_path / "site", "noisy", NOISY)
    command = ("sh", "-c", 'exec "$0" -m entrabot_host.main 2>&-', sys.executable)
    async with served({**bare, "PYTHONPATH": str(tmp_path / "site")}, command=command) as server:
        assert "shout" in await server.tools()
        await server.call("shout")
        assert await server.stop() == 0
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in server.lines)
