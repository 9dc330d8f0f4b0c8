"""Clients by other people: MCP Inspector's command line, and both generations of the official TypeScript SDK."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
from entrabot_sandbox.client import Sandbox

from tests.packages import node_packages

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]

HERE = Path(__file__).parent / "node"
_SECONDS = 60.0


@pytest.fixture(scope="module")
def node_modules() -> Path:
    """The folder of the packages of ``node/package.json``."""
    return node_packages(HERE / "package.json")


# --- MCP Inspector ----------------------------------------------------------------------------------------------------


async def inspect(node_modules: Path, environment: dict[str, str], *arguments: str) -> dict[str, Any]:
    """Run the inspector's command line against the server; return what it prints."""
    passed = [part for name, value in environment.items() for part in ("-e", f"{name}={value}")]
    inspector = str(node_modules / "node_modules" / ".bin" / "mcp-inspector")
    command = [inspector, "--cli", *passed, sys.executable, "-m", "entrabot_host.main", *arguments]

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=_SECONDS, cwd=node_modules)

    done = await anyio.to_thread.run_sync(run)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(json.loads(done.stdout))


async def test_the_inspector_lists_and_calls(node_modules: Path, environment: dict[str, str]) -> None:
    listed = await inspect(node_modules, environment, "--method", "tools/list")
    assert {"whoami", "send_teams_message"} <= {tool["name"] for tool in listed["tools"]}
    called = await inspect(node_modules, environment, "--method", "tools/call", "--tool-name", "whoami")
    assert not called.get("isError")
    me = json.loads(called["content"][0]["text"])
    assert me["identity"]["attribution"] == "agent"
    read = await inspect(node_modules, environment, "--method", "resources/read", "--uri", "entrabot://instructions")
    assert "You work in Microsoft 365" in read["contents"][0]["text"]


# --- the TypeScript SDKs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "mode"), [("sdk1.mjs", ""), ("sdk2.mjs", ""), ("sdk2.mjs", "modern")], ids=["1.x", "2.x", "2.x modern"]
)
async def test_the_typescript_sdk_receives_a_push(
    sandbox: Sandbox, environment: dict[str, str], node_modules: Path, script: str, mode: str
) -> None:
    place = node_modules / script  # beside node_modules, where its imports are looked for
    place.write_bytes((HERE / script).read_bytes())
    launch = {"command": sys.executable, "args": ["-m", "entrabot_host.main"], "env": environment}
    process = await asyncio.create_subprocess_exec(
        "node", str(place), json.dumps(launch), mode, stdout=asyncio.subprocess.PIPE, limit=1 << 22
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_SECONDS):
            connected = json.loads(await process.stdout.readline())
            said = await sandbox.say("alice", "Hello from Teams")
            push = json.loads(await process.stdout.readline())
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        process._transport.close()  # type: ignore[attr-defined]
    assert connected["server"]["name"] == "entrabot"
    assert connected["experimental"] == {"claude/channel": {}}
    assert "send_teams_message" in connected["tools"]
    assert connected["whoami"]["identity"]["attribution"] == "agent"
    assert "Hello from Teams" in push["content"]
    assert (push["meta"]["message_id"], push["meta"]["sponsor"]) == (said["id"], "yes")
