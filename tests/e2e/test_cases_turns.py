"""Whose turn it is, among hosts that show pushes and hosts that do not; late answers, and mail.

What takes a minute begins with the first test and ends with the last one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from entrabot_sandbox.client import Sandbox

from tests.e2e import swarm
from tests.e2e.cases import Json, fresh, installation, shown, taken, words
from tests.e2e.swarm import inbox
from tests.e2e.wire import Server, served, until

_COPILOT = "github-copilot-developer"
_RIVAL_SECONDS = 60.0
_LOOKS = 12
"""At the chats, by all servers that run here at once: three or more by each."""
_LOOK = "GET /v1.0/me/mailFolders/inbox/messages"


@dataclass(frozen=True)
class Forgotten:
    """A question of a host that makes no call any more, and a host with channels beside it."""

    claude: Server
    answer: Json
    said_at: float

    def pushed(self) -> list[Json]:
        """What Claude was pushed of this chat since the last time; other tests speak in others."""
        return [push for push in taken(self.claude) if push["meta"]["chat_id"] == self.answer["chatId"]]


@pytest.fixture(scope="module")
async def tenant(running: Sandbox) -> Sandbox:
    return await fresh(running)


@pytest.fixture(scope="module")
async def forgotten(tenant: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Forgotten]:
    """Asks at the beginning, so that the minute passes while other tests run."""
    settings = installation(tenant, tmp_path_factory.mktemp("forgotten"), ENTRABOT_TEAMS_WAIT_SECONDS="1")
    channels = {**settings, "ENTRABOT_PUSH": "on"}
    async with served(channels) as claude, served(settings, greet=False) as copilot:
        await copilot.greet(_COPILOT)
        await asyncio.gather(claude.call("whoami"), copilot.call("whoami"))
        group = (await tenant.create_chat("alice", ["agent", "carol"], topic="Forgotten"))["id"]
        sent = await copilot.call("send_teams_message", message="May I?", chat_id=group)
        assert "sponsor_reply" not in sent
        said_at = time.monotonic()
        answer = await tenant.say("alice", "yes, but late", chat=group)
        yield Forgotten(claude, answer, said_at)


@dataclass
class Asking:
    """A host without channels whose sends wait a second. asked: how many questions so far."""

    sandbox: Sandbox
    server: Server
    chat: str = ""

    async def ask(self, text: str) -> Json:
        """Ask alice, in vain."""
        if not self.chat:
            self.chat = (await self.server.call("create_chat", target_email="alice@contoso.example"))["chat_id"]
        sent: Json = await self.server.call("send_teams_message", message=text, chat_id=self.chat)
        return sent

    async def answer(self, text: str) -> Json:
        """Let her answer; return the message once the server has seen it."""
        said = await self.sandbox.say("alice", text, chat=self.chat)
        push = await self.server.next_push()  # in courtesy, which counts for nothing
        while push["meta"]["chat_id"] != self.chat:
            push = await self.server.next_push()
        assert (push["meta"]["message_id"], words(push)) == (said["id"], text)
        return said


@pytest.fixture(scope="module")
async def asking(
    forgotten: Forgotten, tenant: Sandbox, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Asking]:
    settings = installation(tenant, tmp_path_factory.mktemp("asking"), ENTRABOT_TEAMS_WAIT_SECONDS="1")
    async with served(settings, greet=False) as server:
        await server.greet(_COPILOT)
        await server.call("whoami")
        yield Asking(tenant, server)


async def test_a_late_answer_comes_with_the_next_wait(asking: Asking) -> None:
    assert "sponsor_reply" not in await asking.ask("May I deploy?")
    said = await asking.answer("yes, deploy")
    waited = await asking.server.call("wait_for_sponsor_dm", timeout_seconds=20)
    assert waited["sponsor_reply"]["message_id"] == said["id"]
    assert "earlier_messages" not in waited


async def test_a_late_answer_comes_with_the_next_result(asking: Asking) -> None:
    assert "sponsor_reply" not in await asking.ask("May I test?")
    said = await asking.answer("yes, test")
    entries = [entry for entry in await shown(asking.server) if entry["chat_id"] == asking.chat]
    assert [(entry["message_id"], entry["sponsor"], entry["redelivered"]) for entry in entries] == [
        (said["id"], "yes", False)
    ]


async def test_a_late_answer_does_not_answer_a_newer_question(asking: Asking) -> None:
    assert "sponsor_reply" not in await asking.ask("May I read the report?")
    said = await asking.answer("yes, of course")
    sent = await asking.ask("May I delete the report?")
    assert "sponsor_reply" not in sent
    assert [one["message_id"] for one in sent["earlier_messages"]] == [said["id"]]
    assert "earlier_messages" in sent["_next_action"]
    waited = await asking.server.call("wait_for_sponsor_dm", timeout_seconds=1)
    assert not {"sponsor_reply", "earlier_messages"} & set(waited)


async def _looks(sandbox: Sandbox, more: int) -> None:
    """Wait until the inbox has been looked at so many times more."""
    before = (await sandbox.counts()).get(_LOOK, 0)

    async def looked() -> bool:
        return (await sandbox.counts()).get(_LOOK, 0) >= before + more

    await until(looked, f"{more} more looks at the inbox")


async def _write(sandbox: Sandbox, subject: str) -> str:
    mail = await sandbox.call("POST", "/mail", {"as": "alice", "subject": subject, "text": "Please read this."})
    return str(mail["id"])


async def _idle(server: Server) -> list[Json]:
    return inbox(await server.call_raw("audit_log", action="test", resource="test"))


async def test_mail_comes_with_the_next_result_also_of_the_next_process(tenant: Sandbox, tmp_path: Path) -> None:
    settings = installation(tenant, tmp_path, ENTRABOT_EMAIL_POLL_SECONDS="5")
    async with served(settings, greet=False) as server:
        await server.greet(_COPILOT)
        await server.call("whoami")
        await _looks(tenant, 1)
        first = await _write(tenant, "Minutes")
        (entry,) = await shown(server)
        assert (entry["message_id"], entry["sponsor"], entry["redelivered"]) == (first, "no", False)
        assert entry["mailbox"].lower() == tenant.people["agent"]["upn"].lower()
        assert "Subject: Minutes" in entry["text"]
        assert await _idle(server) == []

        taken(server)
        second = await _write(tenant, "Agenda")
        assert (await server.next_push())["meta"]["message_id"] == second  # in courtesy, which counts for nothing
        assert await server.stop() == 0
    async with served(settings, greet=False) as server:
        await server.greet(_COPILOT)
        await server.call("whoami")
        (entry,) = await shown(server)
        assert (entry["message_id"], entry["redelivered"]) == (second, False)
        await _looks(tenant, 1)
        assert await _idle(server) == []


async def _at_work(sandbox: Sandbox, *servers: Server) -> None:
    await asyncio.gather(*(server.call("whoami") for server in servers))
    await swarm.looks(sandbox, _LOOKS)


async def _first_of(servers: tuple[Server, Server]) -> tuple[Server, Server]:
    """Wait until one of them is pushed something; return that one, and the other."""
    waiting = {asyncio.create_task(server.next_push()): server for server in servers}
    done, others = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    (task,) = done
    taker = waiting[task]
    return taker, next(server for server in servers if server is not taker)


@pytest.mark.timeout(180)
async def test_a_group_in_which_the_agent_is_silent_stays_with_who_was_handed_its_last_message(
    tenant: Sandbox, tmp_path_factory: pytest.TempPathFactory
) -> None:
    settings = installation(tenant, tmp_path_factory.mktemp("silent"), ENTRABOT_PUSH="on")
    async with served(settings) as one, served(settings) as two:
        await _at_work(tenant, one, two)
        group = (await tenant.create_chat("alice", ["agent", "bob"], topic="Silent"))["id"]
        await tenant.say("alice", "message 0", chat=group)
        keeper, other = await _first_of((one, two))
        for number in range(1, 4):
            await tenant.say("bob", f"message {number}", chat=group)
            assert words(await keeper.next_push()) == f"message {number}"
        await swarm.looks(tenant, _LOOKS)
        assert taken(other) == []

        keeper.process.kill()
        await keeper.ended()
        for number in range(4, 6):
            await tenant.say("alice", f"message {number}", chat=group)
            push = await other.next_push()
            assert (words(push), "redelivered" in push["meta"]) == (f"message {number}", False)
        await swarm.looks(tenant, _LOOKS)
        assert taken(other) == []


async def test_pushes_in_courtesy_leave_a_host_with_channels_its_turn(
    tenant: Sandbox, tmp_path_factory: pytest.TempPathFactory
) -> None:
    settings = installation(tenant, tmp_path_factory.mktemp("courtesy"))
    async with served({**settings, "ENTRABOT_PUSH": "on"}) as claude, served(settings, greet=False) as codex:
        await codex.greet("codex-mcp-client")
        await _at_work(tenant, claude, codex)
        await tenant.say("alice", "hello")
        assert words(await claude.next_push()) == "hello"
        taken(codex)  # before that, neither could know of the other
        said = [f"first words of group {number}" for number in range(6)]
        for text in said:
            group = (await tenant.create_chat("alice", ["agent", "bob"], topic=text))["id"]
            await tenant.say("bob", text, chat=group)
        assert sorted([words(await claude.next_push()) for _ in said]) == said
        await swarm.looks(tenant, _LOOKS)
        assert [*taken(claude), *taken(codex)] == []

        claude.process.kill()
        await claude.ended()
        group = (await tenant.create_chat("alice", ["agent", "bob"], topic="Alone"))["id"]
        await tenant.say("alice", "anybody?", chat=group)
        assert words(await codex.next_push()) == "anybody?"


@pytest.mark.timeout(180)
async def test_a_host_with_channels_gets_a_late_answer_after_a_minute(forgotten: Forgotten, tenant: Sandbox) -> None:
    pushed = forgotten.pushed()
    assert not pushed or time.monotonic() - forgotten.said_at >= _RIVAL_SECONDS

    async def heard() -> bool:
        pushed.extend(forgotten.pushed())
        return bool(pushed)

    await until(heard, "the answer is pushed to somebody else", 2 * _RIVAL_SECONDS)
    assert time.monotonic() - forgotten.said_at >= _RIVAL_SECONDS
    await swarm.looks(tenant, _LOOKS)
    (push,) = [*pushed, *forgotten.pushed()]
    assert (push["meta"]["message_id"], "redelivered" in push["meta"]) == (forgotten.answer["id"], False)
