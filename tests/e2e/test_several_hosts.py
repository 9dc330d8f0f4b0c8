"""Several hosts at once on one installation, and hosts that do not show pushes: real servers, real processes."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterable
from typing import Any

import pytest
from entrabot_sandbox.client import Sandbox

from tests.e2e.wire import Server, served, until

SHOWN_SECONDS = 30.0


def words(push: dict[str, Any]) -> str:
    """The human's own words: what stands inside the envelope."""
    return str(push["content"]).split("\n")[2]


def pushed(server: Server) -> list[dict[str, Any]]:
    """Take what has been pushed so far."""
    found = []
    while not server.pushes.empty():
        found.append(server.pushes.get_nowait())
    return found


def inbox(result: dict[str, Any]) -> list[dict[str, Any]]:
    """The entries that ride along on a result: the last block, a JSON document of its own."""
    documents = [json.loads(block["text"]) for block in result["content"][1:] if block["type"] == "text"]
    return [entry for document in documents for entry in document.get("_inbox", ())]


def texts(entries: Iterable[dict[str, Any]]) -> list[str]:
    return [entry["text"].split("\n")[1] for entry in entries]


async def shown(server: Server, tool: str = "audit_log") -> list[dict[str, Any]]:
    """Call a tool that is of no matter until something rides along on its result."""

    async def call() -> list[dict[str, Any]]:
        return inbox(await server.call_raw(tool, action="test", resource="test"))

    found: list[dict[str, Any]] = await until(call, "something that rides along", SHOWN_SECONDS)
    return found


async def beats(sandbox: Sandbox, number: int) -> None:
    """Wait until the chats have been looked at so many times more."""
    beat = "GET /v1.0/me/chats"
    before = (await sandbox.counts()).get(beat, 0)

    async def looked() -> bool:
        return (await sandbox.counts()).get(beat, 0) >= before + number

    await until(looked, f"{number} more looks at the chats")


@pytest.fixture
def channels(environment: dict[str, str]) -> dict[str, str]:
    """Hosts that show pushes."""
    return {**environment, "ENTRABOT_PUSH": "on"}


async def test_two_windows_share_the_work_and_one_takes_over_when_the_other_dies(
    sandbox: Sandbox, channels: dict[str, str]
) -> None:
    async with served(channels) as one, served(channels) as two:
        await asyncio.gather(one.call("whoami"), two.call("whoami"))
        chat = (await one.call("create_chat", target_email="alice@contoso.example"))["chat_id"]
        await one.call("send_teams_message", message="I am here.", chat_id=chat)

        for number in range(3):
            await sandbox.say("alice", f"message {number}", chat=chat)
            assert words(await one.next_push()) == f"message {number}"
        await beats(sandbox, 8)
        assert [*pushed(one), *pushed(two)] == []

        await two.call("send_teams_message", message="So am I.", chat_id=chat)
        await sandbox.say("alice", "for the second", chat=chat)
        assert words(await two.next_push()) == "for the second"

        await one.call("send_teams_message", message="Back.", chat_id=chat)
        one.process.kill()
        assert await one.ended() == -signal.SIGKILL
        said = await sandbox.say("alice", "anybody?", chat=chat)
        push = await two.next_push()
        assert (push["meta"]["message_id"], words(push)) == (said["id"], "anybody?")
        assert "redelivered" not in push["meta"]
        await beats(sandbox, 4)
        assert [*pushed(one), *pushed(two)] == []


async def test_a_window_that_is_stopped_loses_its_turn(sandbox: Sandbox, channels: dict[str, str]) -> None:
    async with served(channels) as one, served(channels) as two:
        await asyncio.gather(one.call("whoami"), two.call("whoami"))
        chat = (await one.call("create_chat", target_email="alice@contoso.example"))["chat_id"]
        await one.call("send_teams_message", message="I am here.", chat_id=chat)
        await sandbox.say("alice", "first", chat=chat)
        assert words(await one.next_push()) == "first"
        await beats(sandbox, 3)
        one.process.send_signal(signal.SIGSTOP)
        try:
            await sandbox.say("alice", "second", chat=chat)
            assert words(await two.next_push()) == "second"
        finally:
            one.process.send_signal(signal.SIGCONT)
        await beats(sandbox, 6)
        assert [*pushed(one), *pushed(two)] == []


async def test_many_messages_at_once_reach_two_windows_once_in_total(
    sandbox: Sandbox, channels: dict[str, str]
) -> None:
    async with served(channels) as one, served(channels) as two:
        await asyncio.gather(one.call("whoami"), two.call("whoami"))
        said = []
        for number in range(5):
            for person in ("alice", "bob", "carol"):
                said.append((await sandbox.say(person, f"{person} {number}"))["id"])
        handed: list[dict[str, Any]] = []

        async def all_there() -> bool:
            handed.extend([*pushed(one), *pushed(two)])
            return len(handed) >= len(said)

        await until(all_there, "all messages")
        await beats(sandbox, 8)
        handed.extend([*pushed(one), *pushed(two)])
        assert sorted(push["meta"]["message_id"] for push in handed) == sorted(said)
        assert not [push for push in handed if "redelivered" in push["meta"]]


async def test_a_host_without_pushes_is_shown_messages_on_its_results(
    sandbox: Sandbox, environment: dict[str, str]
) -> None:
    async with served(environment, greet=False) as server:
        await server.greet("codex-mcp-client")
        await server.call("whoami")
        said = await sandbox.say("alice", "hello codex")
        await sandbox.say("bob", "me too")
        assert {words(await server.next_push()), words(await server.next_push())} == {"hello codex", "me too"}
        entries = await shown(server)
        while len(entries) < 2:
            entries += await shown(server)
        assert sorted(texts(entries)) == ["hello codex", "me too"]
        (first,) = [entry for entry in entries if entry["message_id"] == said["id"]]
        assert (first["chat_id"], first["sponsor"], first["redelivered"]) == (said["chatId"], "yes", False)
        assert "Alice" in first["from"]
        await beats(sandbox, 3)
        assert inbox(await server.call_raw("audit_log", action="test", resource="test")) == []
        assert pushed(server) == []


async def test_claude_code_without_its_flag_is_shown_messages_on_its_next_result(
    sandbox: Sandbox, environment: dict[str, str]
) -> None:
    async with served(environment) as server:
        await server.call("whoami")
        said = await sandbox.say("alice", "do you hear me?")
        await server.next_push()  # which such a host drops
        await beats(sandbox, 2)
        (entry,) = await shown(server)
        assert (entry["message_id"], texts([entry])) == (said["id"], ["do you hear me?"])
        assert inbox(await server.call_raw("audit_log", action="test", resource="test")) == []
        assert await server.stop() == 0
    async with served(environment) as server:
        await server.call("whoami")
        await beats(sandbox, 3)
        assert pushed(server) == []


async def test_what_a_host_may_have_dropped_reaches_the_next_session(
    sandbox: Sandbox, environment: dict[str, str]
) -> None:
    async with served(environment) as server:
        await server.call("whoami")
        said = await sandbox.say("alice", "do you hear me?")
        await server.next_push()
        await beats(sandbox, 2)
        assert await server.stop() == 0
    async with served(environment) as server:
        await server.call("whoami")
        push = await server.next_push()
        assert (push["meta"]["message_id"], push["meta"]["redelivered"]) == (said["id"], "yes")


async def test_an_answer_comes_with_the_send_and_other_chats_stay_with_their_window(
    sandbox: Sandbox, environment: dict[str, str], channels: dict[str, str]
) -> None:
    async with served(channels) as claude, served(environment, greet=False) as copilot:
        await copilot.greet("github-copilot-developer")
        await asyncio.gather(claude.call("whoami"), copilot.call("whoami"))
        group = (await sandbox.create_chat("alice", ["agent", "bob"], topic="Release"))["id"]
        await claude.call("send_teams_message", message="Claude here.", chat_id=group)
        chat = (await copilot.call("create_chat", target_email="alice@contoso.example"))["chat_id"]
        sending = asyncio.create_task(copilot.call("send_teams_message", message="May I?", chat_id=chat))
        await sandbox.wait_for_message(chat, sender="agent")
        await sandbox.say("alice", "to claude", chat=group)
        assert words(await claude.next_push()) == "to claude"
        answer = await sandbox.say("alice", "yes", chat=chat)
        result = await asyncio.wait_for(sending, 60)
        assert result["sponsor_reply"]["message_id"] == answer["id"]
        await beats(sandbox, 6)
        assert [*pushed(claude), *pushed(copilot)] == []


async def test_a_cancelled_wait_gives_back_what_it_was_about_to_carry(
    sandbox: Sandbox, environment: dict[str, str]
) -> None:
    async with served(environment, greet=False) as server:
        await server.greet("codex-mcp-client")
        await server.call("whoami")
        await server.write(
            {
                "jsonrpc": "2.0",
                "id": 4711,
                "method": "tools/call",
                "params": {"name": "wait_for_sponsor_dm", "arguments": {"timeout_seconds": 60}},
            }
        )
        await beats(sandbox, 1)
        await server.write(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 4711, "reason": "test"}}
        )
        said = await sandbox.say("alice", "too late?")
        (entry,) = await shown(server)
        assert (entry["message_id"], entry["redelivered"]) == (said["id"], False)
