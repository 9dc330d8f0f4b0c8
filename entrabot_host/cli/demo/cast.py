"""Who is on the stage, and what scenes have in common."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from entrabot_host.cli.demo.stage import Stage, expect
from entrabot_host.security.envelope import MARKER
from entrabot_host.testing.agent import Agent, Push
from entrabot_host.testing.tenant import Tenant

_QUIET_SECONDS = 1.0
_ENVELOPE = re.compile(rf"‹/?{MARKER}[^›]*›\s*")

Launch = Callable[[str], AbstractAsyncContextManager[Agent]]
"""From a host program's name to a server of its own, with a client connected."""


class Cast:
    """The agent's host, the people, the stage; and the chats that a scene leaves to the next."""

    def __init__(self, stage: Stage, host: Agent, tenant: Tenant, launch: Launch, offered: frozenset[str]) -> None:
        self.stage = stage
        self.host = host
        self.humans = tenant
        self.sponsor = tenant.people["alice"]
        self.colleague = tenant.people["bob"]
        self.partner = tenant.people["carol"]
        self.offered = offered
        self.chat = ""
        """The agent's chat with its sponsor, once it has one."""
        self._launch = launch
        self._audit = Path(tenant.environment["ENTRABOT_AUDIT_DIR"])

    @property
    def chats(self) -> bool:
        """Whether the agent and its sponsor talk in Teams."""
        return bool(self.chat)

    @asynccontextmanager
    async def another_host(self, name: str) -> AsyncIterator[Agent]:
        """Start a second server on the same data, launched by another host program."""
        async with self._launch(name) as other:
            yield other

    async def does(self, tool: str, shown: str = "", *, host: Agent | None = None, **arguments: Any) -> Any:
        """Let the agent call a tool; ``shown`` is what the audience sees of the arguments."""
        self.stage.does(f"{tool}({shown})")
        return await (host or self.host).call(tool, **arguments)

    async def sponsor_says(self, text: str, chat: str = "") -> Mapping[str, Any]:
        """The sponsor writes in Teams."""
        self.stage.says("sponsor", self.sponsor["name"], text)
        return await self.humans.say("alice", text, chat or self.chat)

    async def pushed(self) -> Push:
        """Wait for the next push and show it."""
        push = await self.host.next_push()
        text = " ".join(_ENVELOPE.sub("", push.content).split())
        self.stage.says("server", "push → model", f"[sponsor={push.meta.get('sponsor')}] {text}")
        return push

    async def silence(self) -> None:
        """Nothing more is pushed."""
        await asyncio.sleep(_QUIET_SECONDS)
        expect(self.host.waiting_pushes == 0, "it was pushed again")

    async def audit_lines(self) -> list[dict[str, Any]]:
        """What is in the audit log, oldest first."""
        return await asyncio.to_thread(self._read_audit)

    def _read_audit(self) -> list[dict[str, Any]]:
        return [
            json.loads(line)
            for path in sorted(self._audit.glob("*.jsonl"))
            for line in path.read_text(encoding="utf-8").splitlines()
        ]


@dataclass(frozen=True)
class Scene:
    """A part of the demo. tools: without these it is left out, since a server may have any subset of the plugins."""

    title: str
    tools: frozenset[str]
    play: Callable[[Cast], Awaitable[None]]

    def missing(self, offered: frozenset[str]) -> list[str]:
        """Return the tools that are not there."""
        return sorted(self.tools - offered)
