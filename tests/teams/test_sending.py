"""Sending messages, on the wire."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from entrabot_sandbox.client import Sandbox
from entrabot_teams.domain import Teams

from entrabot_host import (
    Attribution,
    Direction,
    GraphError,
    GraphForbidden,
    GraphNotFound,
    GraphUnavailable,
    InvalidArgument,
)
from entrabot_host.graph.client import GraphClient
from tests.teams.parts import KnownIdentity, PlainHost, principal

POSTS = {"method": "POST", "path": "/v1.0/chats/*/messages"}


@pytest.fixture
async def chat_id(sandbox: Sandbox) -> str:
    chat = await sandbox.create_chat("alice", ["agent"])
    await sandbox.clear_requests()
    return str(chat["id"])


async def sent(sandbox: Sandbox, chat_id: str) -> list[dict[str, Any]]:
    return await sandbox.messages(chat_id, sender="agent")


async def test_html(teams: Teams, host: PlainHost, sandbox: Sandbox, chat_id: str) -> None:
    result = await teams.sending.send_teams_message("<p>Hello <b>Alice</b></p>", chat_id=chat_id)
    (message,) = await sent(sandbox, chat_id)
    assert result == {"message_id": message["id"], "chat_id": chat_id, "sent_at": message["createdDateTime"]}
    assert message["body"]["contentType"] == "html"
    assert "<b>Alice</b>" in message["body"]["content"]
    assert host.inbox.spoken == [(chat_id, message["id"])]
    assert chat_id in await teams.watched.all()
    (entry,) = host.records.interactions
    assert (entry.channel, entry.direction, entry.recipient) == ("teams_dm", Direction.OUTBOUND, chat_id)
    assert (entry.summary, entry.content_ref) == ("Hello Alice", message["id"])


async def test_text_is_shown_as_it_is(teams: Teams, sandbox: Sandbox, chat_id: str) -> None:
    await teams.sending.send_teams_message('1 < 2 & <at id="0">x</at>', "text", chat_id=chat_id)
    (message,) = await sent(sandbox, chat_id)
    assert message["body"] == {"contentType": "text", "content": '1 < 2 & <at id="0">x</at>'}


async def test_a_person_s_name_is_not_used_silently(
    graph: GraphClient, host: PlainHost, sandbox: Sandbox, chat_id: str
) -> None:
    identity = host.identity
    assert isinstance(identity, KnownIdentity)
    identity.principal = principal(sandbox.environment, Attribution.DELEGATED_HUMAN)
    await Teams(host).sending.send_teams_message("<p>Hello</p>", chat_id=chat_id)
    (message,) = await sent(sandbox, chat_id)
    assert message["body"]["content"].startswith("[EntraBot] ")


async def test_mention(teams: Teams, sandbox: Sandbox, chat_id: str) -> None:
    alice = sandbox.people["alice"]
    mentions = [{"id": 0, "name": "Alice", "user_id": alice["id"]}]
    await teams.sending.send_teams_message('Hi <at id="0">Alice</at>', "html", mentions, chat_id)
    (message,) = await sent(sandbox, chat_id)
    assert message["mentions"][0]["mentioned"]["user"]["id"] == alice["id"]
    assert message["mentions"][0]["mentionText"] == "Alice"


@pytest.mark.parametrize("message", ["", " \n ", "<p>&nbsp;</p>", "<script>x</script>"])
async def test_nothing_to_say(teams: Teams, sandbox: Sandbox, chat_id: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match="empty"):
        await teams.sending.send_teams_message(message, chat_id=chat_id)
    assert await sandbox.requests() == []


async def test_too_long_names_the_limit(teams: Teams, sandbox: Sandbox, chat_id: str) -> None:
    with pytest.raises(InvalidArgument, match="28672"):
        await teams.sending.send_teams_message("é" * 14337, chat_id=chat_id)
    assert await sandbox.requests() == []
    await teams.sending.send_teams_message("é" * 14336, "text", chat_id=chat_id)
    assert len(await sent(sandbox, chat_id)) == 1


@pytest.mark.parametrize("chat_id", ["", "alice", "19:x/messages@thread.v2"])
async def test_there_is_no_default_chat(teams: Teams, sandbox: Sandbox, chat_id: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await teams.sending.send_teams_message("hello", chat_id=chat_id)
    assert "create_chat" in caught.value.remedy
    assert await sandbox.requests() == []


async def test_unknown_chat(teams: Teams, host: PlainHost) -> None:
    with pytest.raises(GraphNotFound) as caught:
        await teams.sending.send_teams_message("hello", chat_id=f"19:{'0' * 32}@thread.v2")
    assert "create_chat" in caught.value.remedy
    assert host.inbox.spoken == []
    assert host.records.interactions == []
    assert await teams.watched.all() == frozenset()


async def test_a_chat_of_others(teams: Teams, sandbox: Sandbox) -> None:
    foreign = await sandbox.create_chat("alice", ["bob"])
    with pytest.raises((GraphForbidden, GraphNotFound)) as caught:
        await teams.sending.send_teams_message("hello", chat_id=foreign["id"])
    assert caught.value.remedy


async def test_a_send_that_landed_though_the_answer_was_lost(
    teams: Teams, host: PlainHost, sandbox: Sandbox, chat_id: str
) -> None:
    await teams.sending.send_teams_message("<p>Done &amp; dusted</p>", chat_id=chat_id)
    (earlier,) = await sent(sandbox, chat_id)
    await sandbox.fault("drop_after", **POSTS, count=1)
    result = await teams.sending.send_teams_message("<p>Done &amp; dusted</p>", chat_id=chat_id)
    messages = await sent(sandbox, chat_id)
    assert [message["id"] for message in messages] == [earlier["id"], result["message_id"]]
    assert host.inbox.spoken[-1] == (chat_id, result["message_id"])


async def test_a_send_that_is_visible_late(teams: Teams, sandbox: Sandbox, chat_id: str) -> None:
    await sandbox.settings(visibility_delay=0.5)
    await sandbox.fault("drop_after", **POSTS, count=1)
    result = await teams.sending.send_teams_message("late", chat_id=chat_id)
    await sandbox.settings(visibility_delay=0)
    (message,) = await sandbox.messages(chat_id, sender="agent", wait=5)
    assert result["message_id"] == message["id"]


async def test_a_send_of_unknown_outcome_is_said_so(teams: Teams, host: PlainHost, sandbox: Sandbox) -> None:
    alice = await sandbox.say("alice", "hello")
    await sandbox.fault("drop_after", **POSTS, count=1)
    await sandbox.fault("status", method="GET", path="/v1.0/chats/*/messages", status=403)
    with anyio.fail_after(30), pytest.raises(GraphUnavailable) as caught:
        await teams.sending.send_teams_message("hello", chat_id=alice["chatId"])
    assert caught.value.outcome_unknown
    assert "read_teams_messages" in caught.value.remedy
    assert host.inbox.spoken == []


async def test_what_others_say_is_not_taken_for_the_lost_send(teams: Teams, sandbox: Sandbox) -> None:
    alice = await sandbox.say("alice", "hello")
    await sandbox.fault("drop_before", **POSTS)
    with anyio.fail_after(30), pytest.raises(GraphUnavailable) as caught:
        await teams.sending.send_teams_message("hello", chat_id=alice["chatId"])
    assert caught.value.outcome_unknown
    assert await sent(sandbox, alice["chatId"]) == []


async def test_an_equal_message_sent_before_is_not_taken_for_the_lost_one(
    teams: Teams, sandbox: Sandbox, chat_id: str
) -> None:
    await teams.sending.send_teams_message("same", chat_id=chat_id)
    await sandbox.fault("drop_before", **POSTS)
    with anyio.fail_after(30), pytest.raises(GraphUnavailable) as caught:
        await teams.sending.send_teams_message("same", chat_id=chat_id)
    assert caught.value.outcome_unknown
    assert len(await sent(sandbox, chat_id)) == 1


async def test_an_equal_message_of_long_ago_is_not_taken_for_the_lost_one(
    host: PlainHost, sandbox: Sandbox, chat_id: str
) -> None:
    await Teams(host).sending.send_teams_message("same", chat_id=chat_id)
    await sandbox.set_clock(60)
    await sandbox.fault("drop_before", **POSTS)
    later = PlainHost(host.graph, host.identity)
    with anyio.fail_after(30), pytest.raises(GraphUnavailable):
        await Teams(later).sending.send_teams_message("same", chat_id=chat_id)


async def test_a_refusal_is_not_settled(teams: Teams, sandbox: Sandbox, chat_id: str) -> None:
    await sandbox.fault("status", **POSTS, status=400)
    with pytest.raises(GraphError) as caught:
        await teams.sending.send_teams_message("hello", chat_id=chat_id)
    assert caught.value.status == 400
    assert not [key for key in await sandbox.counts() if key.startswith("GET") and key.endswith("/messages")]


async def test_book_keeping_that_fails_does_not_look_like_a_failed_send(
    teams: Teams, host: PlainHost, sandbox: Sandbox, chat_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    from entrabot_host import StorageError

    async def refuse(*_: object) -> None:
        raise StorageError("The disk is full.")

    host.inbox.spoke = refuse  # type: ignore[method-assign]
    result = await teams.sending.send_teams_message("hello", chat_id=chat_id)
    assert result["message_id"]
    assert "The disk is full" in caplog.text
    assert len(host.records.interactions) == 1
