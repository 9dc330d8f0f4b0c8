"""From a human's message at Graph to one line of the channel: the plugin with the host's own inbox and storage."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from entrabot_sandbox.client import Sandbox
from entrabot_teams.domain import Teams

from entrabot_host import Conversation, Message, Sponsor
from entrabot_host.assembly import Assembly
from entrabot_host.calls import Calls
from entrabot_host.delivery.book import boot_clock
from entrabot_host.delivery.capability import Capability
from entrabot_host.delivery.inbox import InboxFacet, InboxService
from entrabot_host.delivery.start import Beginnings
from entrabot_host.graph.client import GraphClient
from entrabot_host.storage.local import LocalBackend
from tests.teams.parts import KnownIdentity, PlainHost, PlainSettings
from tests.teams.test_plugin import Context, assembled, no_audit
from tests.teams.test_waiting import listening


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
async def session(
    graph: GraphClient, identity: KnownIdentity, folder: Path, *, push: str = "on", client: str = "claude-code"
) -> AsyncIterator[tuple[Teams, Pipe]]:
    """One running server, as far as hearing people goes."""
    async with serving(graph, identity, folder, push=push, client=client) as (server, pipe):
        yield server.teams, pipe


@dataclass
class Server:
    """The plugin behind the boundary around calls."""

    assembly: Assembly
    calls: Calls
    teams: Teams

    async def call(self, tool: str, *, shown: bool = True, **arguments: Any) -> dict[str, Any]:
        """Call a tool; the answer reaches the host unless ``shown`` is false."""
        answer = await self.calls.run(self.assembly.tools[tool], arguments, Context())
        if answer.cargo:
            (answer.cargo.shown if shown else answer.cargo.lost)()
        assert not answer.is_error, answer.text
        return json.loads(answer.text)


@asynccontextmanager
async def serving(
    graph: GraphClient, identity: KnownIdentity, folder: Path, *, push: str = "off", client: str = "codex-mcp-client"
) -> AsyncIterator[tuple[Server, Pipe]]:
    """A session with its tools. push: as the setting of that name; wait for two seconds at most after a send."""
    backend, pipe = LocalBackend(folder), Pipe()
    await Beginnings(graph.now).first_run(backend)

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
        capability=Capability(push, lambda: client, boot_clock),
    )
    host = PlainHost(graph, identity, settings=PlainSettings(wait_seconds=2))
    host.inbox = InboxFacet("teams", service)  # type: ignore[assignment]
    calls = Calls(write_audit=no_audit, envelope=False)
    calls.carrier = lambda: service
    try:
        yield Server(assembled(host, calls), calls, host.shared(Teams)), pipe
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


# --- hosts that show no pushes ---------------------------------------------------------------------------------------


async def test_a_reply_comes_with_the_send_and_never_again(
    sandbox: Sandbox, graph: GraphClient, identity: KnownIdentity, tmp_path: Path
) -> None:
    chat_id = (await sandbox.create_chat("alice", ["agent"]))["id"]
    async with serving(graph, identity, tmp_path) as (server, _), listening(server.teams):
        call = asyncio.create_task(server.call("send_teams_message", message="Shall I?", chat_id=chat_id))
        await sandbox.wait_for_message(chat_id)
        yes = await sandbox.say("alice", "yes", chat=chat_id)
        result = await call
        assert (result["sponsor_reply"]["message_id"], result["sponsor_reply"]["content"]) == (yes["id"], "yes")
        again = await server.call("watch_teams_replies", chat_id=chat_id, timeout=1)
        assert again["timed_out"]
    async with session(graph, identity, tmp_path) as (teams, pipe):
        await teams.changes.beat()
        assert pipe.pushed == []


async def test_an_old_yes_and_a_late_answer_are_earlier_messages(
    sandbox: Sandbox, graph: GraphClient, identity: KnownIdentity, tmp_path: Path
) -> None:
    chat_id = (await sandbox.create_chat("alice", ["agent"]))["id"]
    async with serving(graph, identity, tmp_path) as (server, _), listening(server.teams):
        first = await server.call("send_teams_message", message="Red or blue?", chat_id=chat_id)
        assert "sponsor_reply" not in first
        await sandbox.say("alice", "yes, blue", chat=chat_id)
        with anyio.fail_after(20):
            while not await server.teams.changes._host.inbox.unseen(1):
                await asyncio.sleep(0.02)
        second = await server.call("send_teams_message", message="Delete it all?", chat_id=chat_id)
        assert "sponsor_reply" not in second
        assert [message["content"] for message in second["earlier_messages"]] == ["yes, blue"]


async def test_a_cancelled_wait_gives_back_what_it_took(
    sandbox: Sandbox, graph: GraphClient, identity: KnownIdentity, tmp_path: Path
) -> None:
    chat_id = (await sandbox.create_chat("alice", ["agent"]))["id"]
    async with serving(graph, identity, tmp_path) as (server, _), listening(server.teams):
        call = asyncio.create_task(server.call("send_teams_message", message="Shall I?", chat_id=chat_id))
        await sandbox.wait_for_message(chat_id)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await sandbox.say("alice", "yes", chat=chat_id)
        lost = await server.call("wait_for_sponsor_dm", timeout_seconds=20, shown=False)
        result = await server.call("wait_for_sponsor_dm", timeout_seconds=20)
        assert lost["sponsor_reply"]["content"] == result["sponsor_reply"]["content"] == "yes"


async def test_a_reply_in_another_chat_and_somebody_else(
    sandbox: Sandbox, graph: GraphClient, identity: KnownIdentity, tmp_path: Path
) -> None:
    chat_id = (await sandbox.create_chat("alice", ["agent"]))["id"]
    group = (await sandbox.create_chat("alice", ["agent", "mallory"], topic="Plan"))["id"]
    async with serving(graph, identity, tmp_path) as (server, _), listening(server.teams):
        call = asyncio.create_task(server.call("send_teams_message", message="Shall I?", chat_id=chat_id))
        await sandbox.wait_for_message(chat_id)
        await sandbox.say("mallory", "yes!", chat=group)
        first = await call
        assert "sponsor_reply" not in first
        assert [(one["content"], one["sponsor"]) for one in first["earlier_messages"]] == [("yes!", False)]
        call = asyncio.create_task(server.call("wait_for_sponsor_dm", timeout_seconds=20))
        await sandbox.say("alice", "do it", chat=group)
        reply = (await call)["sponsor_reply"]
        assert (reply["content"], reply["chat_id"], reply["other_chat"]) == ("do it", group, True)


async def test_a_wait_on_a_push_host_carries_it_instead_of_a_push(
    sandbox: Sandbox, graph: GraphClient, identity: KnownIdentity, tmp_path: Path
) -> None:
    async with serving(graph, identity, tmp_path, push="on") as (server, pipe):
        await server.teams.changes.beat()
        call = asyncio.create_task(server.call("wait_for_sponsor_dm", timeout_seconds=20))
        await asyncio.sleep(0)
        async with listening(server.teams):
            said = await sandbox.say("alice", "hello")
            result = await call
            assert result["sponsor_reply"]["message_id"] == said["id"]
            heard = await sandbox.say("alice", "and more")
            with anyio.fail_after(20):
                while not pipe.pushed:
                    await asyncio.sleep(0.02)
        assert pipe.ids() == [heard["id"]]


async def test_late_visible_messages_come_once_each(
    sandbox: Sandbox, graph: GraphClient, identity: KnownIdentity, tmp_path: Path
) -> None:
    async with session(graph, identity, tmp_path) as (teams, pipe):
        async with listening(teams):
            await sandbox.settings(visibility_delay=1.5)
            late = await sandbox.say("alice", "late")
            await sandbox.settings(visibility_delay=0)
            early = await sandbox.say("alice", "early", chat=late["chatId"])
            with anyio.fail_after(30):
                while len(pipe.pushed) < 2:
                    await asyncio.sleep(0.05)
        assert pipe.ids() == [early["id"], late["id"]]
