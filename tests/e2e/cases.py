"""What tests of delivery share: an installation of their own, what was pushed, and moments that must not be missed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from entrabot_sandbox.client import Sandbox

from tests.e2e.swarm import inbox
from tests.e2e.wire import Server, until

Json = dict[str, Any]
_KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR")
_SHOWN_SECONDS = 30.0

ASKING = '''
from typing import Annotated
from pydantic import Field
from entrabot_host import AuthorizationError, Conversation, Hints, Tool, hookimpl


@hookimpl
def register_tools(host):
    async def ask(
        requester: Annotated[str, Field(description="Who asks")],
        chat_id: Annotated[str, Field(description="Where")],
        beneficiary: Annotated[str, Field(description="Who gains")] = "",
    ) -> dict:
        """Say on whose authority something may be done."""
        try:
            sponsor = await host.identity.authorize(requester, Conversation.chat(chat_id), beneficiary)
        except AuthorizationError as error:
            return {"refused": type(error).__name__}
        return {"granted": sponsor.object_id}

    hints = Hints(read_only=True, destructive=False, idempotent=True, open_world=True)
    return [Tool(ask, title="Ask", hints=hints, external=())]
'''


async def fresh(sandbox: Sandbox) -> Sandbox:
    """Start the tenant over, as fast as it can answer."""
    await sandbox.reset()
    await sandbox.clear_requests()
    await sandbox.settings(throttling=False)
    return sandbox


def installation(sandbox: Sandbox, folder: Path, **settings: str) -> dict[str, str]:
    """Return the environment of an installation of its own in ``folder``, which looks for messages often."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    folders = {f"ENTRABOT_{name.upper()}_DIR": str(folder / name) for name in ("data", "log", "audit")}
    often = {"ENTRABOT_TEAMS_POLL_SECONDS": "2", "ENTRABOT_LIVE_POLL_SECONDS": "1"}
    return {**kept, **sandbox.environment, "HOME": str(folder), **folders, **often, **settings}


def words(push: Mapping[str, Any]) -> str:
    """The person's own words in a push: what stands inside the envelope."""
    return str(push["content"]).split("\n")[2]


def taken(server: Server) -> list[Json]:
    """Take what has been pushed so far."""
    found = []
    while not server.pushes.empty():
        found.append(server.pushes.get_nowait())
    return found


async def shown(server: Server) -> list[Json]:
    """Call a tool that is of no matter until something rides along on its result."""

    async def call() -> list[Json]:
        return inbox(await server.call_raw("audit_log", action="test", resource="test"))

    found: list[Json] = await until(call, "something that rides along", _SHOWN_SECONDS)
    return found


async def reads(sandbox: Sandbox, chat: str) -> int:
    """How often a chat's messages were read."""
    paths = (f"/v1.0/chats/{chat}/messages", f"/v1.0/chats/{quote(chat, safe='')}/messages")
    asked = await sandbox.requests()
    return sum(one["method"] == "GET" and one["path"] in paths for one in asked)


@contextmanager
def frozen(*servers: Server) -> Iterator[None]:
    """Stop servers for the length of the block, so that all that happens in it happens between two looks."""
    for server in servers:
        server.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for server in servers:
            server.process.send_signal(signal.SIGCONT)
