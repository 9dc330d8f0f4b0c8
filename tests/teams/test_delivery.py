"""From a human's message at Graph to one line of the channel: the plugin with the host's own inbox and storage."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from entrabot_sandbox.client import Sandbox
from entrabot_teams.domain import Teams

from entrabot_host import Conversation, Message, Sponsor
from entrabot_host.delivery.inbox import InboxFacet, InboxService
from entrabot_host.graph.client import GraphClient
from entrabot_host.storage.local import LocalBackend
from tests.teams.parts import KnownIdentity, PlainHost


class Pipe:
    """A host that reads everything it is sent, unless ``ready`` is false."""

    def __init__(self) -> None:
        self.ready = True
        self.pushed: list[dict[str, Any]] = []

    async def push(self, params: dict[str, Any]) -> None:
        self.pushed.append(params)

    def ids(self) -> list[str]:
        return [params["meta"]["message_id"] for params in self.pushed]


@asynccontextmanager
async def session(graph: GraphClient, identity: KnownIdentity, folder: Path) -> AsyncIterator[tuple[Teams, Pipe]]:
    """One running server, as far as hearing people goes."""
    backend, pipe = LocalBackend(folder), Pipe()

    async def storage() -> LocalBackend:
        return backend

    async def sponsor_of(user_id: str, tenant_id: str) -> Sponsor | None:
        return next((found for found in await identity.sponsors() if found.object_id == user_id), None)

    async def note(conversation: Conversation, message: Message, sponsor: Sponsor | None, live: bool) -> None:
        return None

    service = InboxService(
        backend_source=storage,
        data_folder=folder,
        now=graph.now,
        sink=pipe,
        sponsor_of=sponsor_of,
        on_delivered=note,
    )
    host = PlainHost(graph, identity)
    host.inbox = InboxFacet("teams", service)  # type: ignore[assignment]
    try:
        yield Teams(host), pipe
    finally:
        await service.aclose()
        await backend.aclose()


@pytest.fixture
def identity(host: PlainHost) -> KnownIdentity:
    found = host.identity
    assert isinstance(found, KnownIdentity)
    return found


async def test_heard_once_by_sessions_that_follow_each_other(
    sandbox: Sandbox, graph: GraphClient, identity: KnownIdentity, tmp_path: Path
) -> None:
    async with session(graph, identity, tmp_path) as (teams, pipe):
        await teams.changes.beat()
        first = await sandbox.say("alice", html="<p>Hello <b>you</b></p>")
        chat_id = first["chatId"]
        await teams.changes.beat()
        (params,) = pipe.pushed
        assert "Hello you" in params["content"]
        assert params["meta"]["chat_id"] == chat_id
        assert params["meta"]["sponsor"] == "yes"
        interrupted = await sandbox.say("alice", "one more thing", chat=chat_id)
        await teams.sending.send_teams_message("<p>Hello Alice</p>", chat_id=chat_id)
        await teams.changes.beat()
        assert pipe.ids() == [first["id"], interrupted["id"]]
        for _ in range(3):
            await teams.changes.beat()
        assert len(pipe.pushed) == 2

    meanwhile = await sandbox.say("alice", "are you there?", chat=chat_id)
    async with session(graph, identity, tmp_path) as (teams, pipe):
        await teams.changes.beat()
        await teams.changes.beat()
        assert pipe.ids() == [meanwhile["id"]]


async def test_a_host_that_does_not_read_gets_it_when_it_does(
    sandbox: Sandbox, graph: GraphClient, identity: KnownIdentity, tmp_path: Path
) -> None:
    async with session(graph, identity, tmp_path) as (teams, pipe):
        await teams.changes.beat()
        pipe.ready = False
        said = [await sandbox.say("carol", str(number)) for number in range(3)]
        await teams.changes.beat()
        assert pipe.pushed == []
        pipe.ready = True
        await teams.changes.beat()
        assert pipe.ids() == [message["id"] for message in said]


async def test_two_sessions_share_the_work(
    sandbox: Sandbox, graph: GraphClient, identity: KnownIdentity, tmp_path: Path
) -> None:
    async with (
        session(graph, identity, tmp_path) as (teams, pipe),
        session(graph, identity, tmp_path) as (other, rival),
    ):
        await teams.changes.beat()
        await other.changes.beat()
        said = [await sandbox.say("bob", str(number)) for number in range(3)]
        await teams.changes.beat()
        await other.changes.beat()
        assert (pipe.ids(), rival.ids()) == ([message["id"] for message in said], [])
