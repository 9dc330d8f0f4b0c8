"""Hearing people: what a look costs, what it finds, and what it survives. On the wire."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

import pytest
from entrabot_sandbox.client import Sandbox
from entrabot_teams import changes
from entrabot_teams.api import ChatApi
from entrabot_teams.changes import ChangeSource
from entrabot_teams.chatstate import GIVE_UP_SECONDS
from entrabot_teams.posting import Posting
from entrabot_teams.sending import Sending
from entrabot_teams.settings import TeamsSettings
from entrabot_teams.waiting import Waiting
from entrabot_teams.watching import WatchedChats

from entrabot_host import Attribution, BatchRequest, Conversation, GraphError, GraphResponse
from entrabot_host.graph.client import GraphClient
from tests.teams.parts import Clock, PlainHost, principal

MESSAGES = "/v1.0/chats/*/messages"


@dataclass
class Ear:
    """A change source with a clock that can be moved, and the means to see what it asked."""

    source: ChangeSource
    watched: WatchedChats
    clock: Clock
    sandbox: Sandbox

    async def beat(self) -> list[str]:
        """Look once; return the requests that it took."""
        await self.sandbox.clear_requests()
        await self.source.beat()
        return [f"{asked['method']} {asked['path']}" for asked in await self.sandbox.requests() if not asked["batch"]]

    async def later(self, seconds: float) -> None:
        """Let time pass, here and at Graph."""
        self.clock.offset += seconds
        await self.sandbox.set_clock(self.clock.offset)


class Forgetful:
    """Graph, but for one message that reading a chat does not return."""

    def __init__(self, graph: Any, message_id: str) -> None:
        self._graph = graph
        self._message_id = message_id

    def __getattr__(self, name: str) -> Any:
        return getattr(self._graph, name)

    async def request(self, method: str, path: str, **more: Any) -> Any:
        answer = await self._graph.request(method, path, **more)
        if path.endswith("/messages"):
            answer.body["value"] = [row for row in answer.body["value"] if row["id"] != self._message_id]
        return answer


@pytest.fixture
async def ear(host: PlainHost, sandbox: Sandbox) -> Ear:
    clock, api = Clock(), ChatApi(host)
    watched = WatchedChats(host, clock)
    return Ear(ChangeSource(host, api, watched, TeamsSettings(), clock), watched, clock, sandbox)


async def many_chats(sandbox: Sandbox, count: int) -> list[str]:
    """Chats of the agent that have one message each."""
    found = []
    for number in range(count):
        chat = await sandbox.create_chat("alice", ["agent", "bob"], topic=f"Chat {number}")
        await sandbox.say("alice", f"old {number}", chat=chat["id"])
        found.append(chat["id"])
    return found


# --- cost -----------------------------------------------------------------------------------------------------------


async def test_a_quiet_beat_is_one_request_and_one_new_message_costs_two(
    ear: Ear, host: PlainHost, sandbox: Sandbox
) -> None:
    chats = await many_chats(sandbox, 60)
    await ear.beat()
    assert len(host.inbox.texts()) == 60
    await ear.later(200)
    for _ in range(2):
        await ear.beat()

    positions, offers = host.inbox.positions, host.inbox.offers
    assert await ear.beat() == ["GET /v1.0/me/chats"]
    assert (host.inbox.positions, host.inbox.offers) == (positions, offers)

    await sandbox.say("bob", "news", chat=chats[7])
    asked = await ear.beat()
    assert len(asked) == 2
    assert host.inbox.texts(chats[7]) == ["old 7", "news"]
    assert await ear.beat() == ["GET /v1.0/me/chats"]


async def test_a_restart_reads_only_what_is_not_done(ear: Ear, host: PlainHost, sandbox: Sandbox) -> None:
    chats = await many_chats(sandbox, 3)
    await ear.beat()
    await ear.later(100)
    await sandbox.say("bob", "while nobody listened", chat=chats[1])
    again = Ear(
        ChangeSource(host, ChatApi(host), ear.watched, TeamsSettings(), ear.clock), ear.watched, ear.clock, sandbox
    )
    asked = await again.beat()
    assert len([request for request in asked if request.endswith("/messages")]) == 1
    assert host.inbox.texts(chats[1]) == ["old 1", "while nobody listened"]


@pytest.mark.parametrize("change", ["edit", "react", "delete", "rename"])
async def test_what_is_no_new_message_delivers_nothing(
    ear: Ear, host: PlainHost, sandbox: Sandbox, change: str
) -> None:
    (chat,) = await many_chats(sandbox, 1)
    last = await sandbox.say("alice", "last", chat=chat)
    await ear.beat()
    if change == "edit":
        await sandbox.edit("alice", chat, last["id"], "edited")
    elif change == "react":
        await sandbox.react("bob", chat, last["id"])
    elif change == "delete":
        await sandbox.delete("alice", chat, last["id"])
    else:
        await sandbox.rename("alice", chat, "Another topic")
    await ear.later(200)
    await ear.beat()
    assert host.inbox.texts() == ["old 0", "last"]
    assert await ear.beat() == ["GET /v1.0/me/chats"]


async def test_own_messages_are_not_heard(ear: Ear, host: PlainHost, sandbox: Sandbox) -> None:
    (chat,) = await many_chats(sandbox, 1)
    await ChatApi(host).post_message(chat, {"body": {"contentType": "html", "content": "mine"}})
    await ear.beat()
    assert host.inbox.texts() == ["old 0"]


async def test_an_answer_of_our_own_offers_nothing_again(ear: Ear, host: PlainHost, sandbox: Sandbox) -> None:
    (chat,) = await many_chats(sandbox, 1)
    await ear.beat()
    offers = host.inbox.offers
    await ChatApi(host).post_message(chat, {"body": {"contentType": "html", "content": "mine"}})
    assert len(await ear.beat()) == 2
    assert host.inbox.offers == offers


async def test_the_beat_is_shorter_during_a_conversation(host: PlainHost, sandbox: Sandbox) -> None:
    clock, api = Clock(), ChatApi(host)
    settings = TeamsSettings.model_validate({"ENTRABOT_LIVE_POLL_SECONDS": "1.5"})
    source = ChangeSource(host, api, WatchedChats(host, clock), settings, clock)
    assert await source.beat() == 5.0
    source.spoke()
    assert await source.beat() == 1.5
    clock.offset += 121
    assert await source.beat() == 5.0


# --- what is heard --------------------------------------------------------------------------------------------------


async def test_the_first_message_of_a_new_chat(ear: Ear, host: PlainHost, sandbox: Sandbox) -> None:
    await ear.beat()
    said = await sandbox.say("carol", html='<p>Hi <b>there</b> <a href="https://x.example/">you</a></p>')
    await ear.beat()
    (message,) = host.inbox.done[said["chatId"]].values()
    carol = sandbox.people["carol"]
    assert message.text == "Hi there you (https://x.example/)"
    assert (message.id, message.sender_id, message.sender_tenant) == (said["id"], carol["id"], carol["tenant_id"])
    assert message.meta == {"chat_type": "oneOnOne"}
    assert said["chatId"] in await ear.watched.all()


async def test_mentions_and_quotes_are_told(ear: Ear, host: PlainHost, sandbox: Sandbox) -> None:
    group = await sandbox.create_chat("alice", ["agent", "bob"], topic="Plan")
    first = await sandbox.say("alice", "one", chat=group["id"])
    await sandbox.say("bob", html="<p>two</p>", chat=group["id"], reply_to=first["id"], mention=["agent"])
    await ear.beat()
    second = list(host.inbox.done[group["id"]].values())[1]
    assert second.meta == {"chat_type": "group", "mentions_me": "yes", "reply_to_ids": first["id"]}


async def test_what_was_said_just_before_our_own_message(ear: Ear, host: PlainHost, sandbox: Sandbox) -> None:
    (chat,) = await many_chats(sandbox, 1)
    await ear.beat()
    await sandbox.say("bob", "wait!", chat=chat)
    api = ChatApi(host)
    waiting = Waiting(host, api, ear.watched, ear.source, TeamsSettings())
    sending = Sending(host, Posting(host, api, ear.watched, ear.source), waiting)
    await sending.send_teams_message("<p>Done.</p>", chat_id=chat)
    await ear.beat()
    assert host.inbox.texts() == ["old 0", "wait!"]


@pytest.mark.parametrize("history", [True, False])
async def test_an_old_group_s_history_is_not_heard(ear: Ear, host: PlainHost, sandbox: Sandbox, history: bool) -> None:
    group = await sandbox.create_chat("alice", ["bob", "carol"], topic="Old")
    for number in range(3):
        await sandbox.say("bob", f"history {number}", chat=group["id"])
    await ear.beat()
    await sandbox.add_member("alice", group["id"], "agent", history=history)
    await sandbox.say("bob", "welcome", chat=group["id"])
    await ear.beat()
    assert host.inbox.texts() == ["welcome"]


async def test_a_burst_comes_whole_and_in_order(ear: Ear, host: PlainHost, sandbox: Sandbox) -> None:
    (chat,) = await many_chats(sandbox, 1)
    await ear.beat()
    for number in range(60):
        await sandbox.say("alice" if number % 2 else "bob", str(number), chat=chat)
    await ear.beat()
    assert host.inbox.texts() == ["old 0", *map(str, range(60))]


async def test_a_message_that_reading_shows_later_than_the_list(ear: Ear, host: PlainHost, sandbox: Sandbox) -> None:
    (chat,) = await many_chats(sandbox, 1)
    await ear.beat()
    late = await sandbox.say("alice", "late", chat=chat)
    graph, host.graph = host.graph, Forgetful(host.graph, late["id"])
    await ear.beat()
    assert host.inbox.texts() == ["old 0"]
    host.graph = graph
    ear.clock.offset += 6
    await ear.beat()
    assert host.inbox.texts() == ["old 0", "late"]


async def test_nothing_counts_as_covered_that_the_list_shows_and_reading_does_not(
    ear: Ear, host: PlainHost, sandbox: Sandbox
) -> None:
    (chat,) = await many_chats(sandbox, 1)
    await ear.beat()
    await sandbox.say("bob", "early", chat=chat)
    late = await sandbox.say("alice", "late", chat=chat)
    host.graph = Forgetful(host.graph, late["id"])
    await ear.later(60)
    await ear.beat()
    assert host.inbox.texts() == ["old 0", "early"]
    assert host.inbox.covered[-1] < datetime.fromisoformat(late["createdDateTime"])


async def test_a_message_that_becomes_visible_behind_a_newer_one(ear: Ear, host: PlainHost, sandbox: Sandbox) -> None:
    (chat,) = await many_chats(sandbox, 1)
    await ear.beat()
    await ear.later(200)
    await ear.beat()
    late = await sandbox.say("bob", "late", chat=chat)
    await sandbox.say("alice", "early", chat=chat)
    graph, host.graph = host.graph, Forgetful(host.graph, late["id"])
    await ear.beat()
    assert host.inbox.texts() == ["old 0", "early"]
    host.graph = graph
    await ear.later(5)
    assert len(await ear.beat()) == 2
    assert host.inbox.texts() == ["old 0", "early", "late"]


async def test_looking_again_costs_what_has_changed_and_ends(ear: Ear, host: PlainHost, sandbox: Sandbox) -> None:
    chats = await many_chats(sandbox, 5)
    await ear.beat()
    await ear.later(200)
    await ear.beat()
    await sandbox.say("bob", "news", chat=chats[2])
    reads = []
    for _ in range(20):
        reads += [request for request in await ear.beat() if request.endswith("/messages")]
        await ear.later(5)
    assert set(reads) == {f"GET /v1.0/chats/{chats[2]}/messages"}
    assert len(reads) == 3
    assert await ear.beat() == ["GET /v1.0/me/chats"]


async def test_old_news_is_not_looked_at_again(ear: Ear, host: PlainHost, sandbox: Sandbox) -> None:
    await many_chats(sandbox, 2)
    await ear.later(100)
    assert len(await ear.beat()) == 3
    await ear.later(5)
    assert await ear.beat() == ["GET /v1.0/me/chats"]


async def test_addresses_are_joined_from_member_lists(ear: Ear, host: PlainHost, sandbox: Sandbox) -> None:
    api = ChatApi(host)
    source = ChangeSource(host, api, ear.watched, TeamsSettings(), ear.clock)
    group = (await sandbox.create_chat("alice", ["agent", "bob"], topic="Plan"))["id"]
    await sandbox.say("alice", "one", chat=group)
    await source.beat()
    await api.members(group)
    await sandbox.say("alice", "two", chat=group)
    await source.beat()
    addresses = [message.sender_address for message in host.inbox.done[group].values()]
    assert addresses == ["", sandbox.people["alice"]["mail"]]


async def test_a_read_that_fails_is_repeated(ear: Ear, host: PlainHost, sandbox: Sandbox) -> None:
    (chat,) = await many_chats(sandbox, 1)
    await ear.beat()
    await sandbox.say("alice", "news", chat=chat)
    await sandbox.fault("status", method="GET", path=MESSAGES, status=404, count=1)
    await ear.beat()
    assert host.inbox.texts() == ["old 0"]
    await ear.later(30)
    await ear.beat()
    assert host.inbox.texts() == ["old 0", "news"]


async def test_what_no_session_took_is_offered_again_without_asking_graph(
    ear: Ear, host: PlainHost, sandbox: Sandbox
) -> None:
    await many_chats(sandbox, 1)
    host.inbox.takes = False
    await ear.beat()
    offers = host.inbox.offers
    assert await ear.beat() == ["GET /v1.0/me/chats"]
    assert host.inbox.offers == offers + 1
    host.inbox.takes = True
    await ear.beat()
    assert host.inbox.texts() == ["old 0"]
    offers = host.inbox.offers
    await ear.beat()
    assert host.inbox.offers == offers


async def test_a_long_backlog_that_waits_is_kept_in_part_and_heard_in_whole(
    ear: Ear, host: PlainHost, sandbox: Sandbox
) -> None:
    (chat,) = await many_chats(sandbox, 1)
    for number in range(70):
        await sandbox.say("bob", str(number), chat=chat)
    host.inbox.takes = False
    await ear.beat()
    host.inbox.takes = True
    await ear.beat()
    assert len(host.inbox.texts()) == 50
    await ear.beat()
    assert host.inbox.texts() == ["old 0", *map(str, range(70))]


async def test_what_waits_is_bounded_over_all_chats(
    ear: Ear, host: PlainHost, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "KEPT_IN_ALL", 3)
    chats = await many_chats(sandbox, 3)
    for chat in chats:
        await sandbox.say("bob", "more", chat=chat)
    host.inbox.takes = False
    await ear.beat()
    assert sum(len(state.waiting) for state in ear.source._states.values()) == 3
    await ear.later(5)
    await ear.beat()
    assert await ear.beat() == ["GET /v1.0/me/chats"]
    host.inbox.takes = True
    await ear.later(61)
    for _ in range(3):
        await ear.beat()
    assert sorted(host.inbox.texts()) == ["more"] * 3 + ["old 0", "old 1", "old 2"]
    for chat in chats:
        assert host.inbox.texts(chat)[1] == "more"


# --- what it survives -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["refused", "ignored"])
async def test_no_order_means_a_sweep(ear: Ear, host: PlainHost, sandbox: Sandbox, how: str) -> None:
    chats = await many_chats(sandbox, 4)
    if how == "ignored":
        await sandbox.settings(ordering_taken=False)
        for number in (0, 2, 1):
            await sandbox.say("alice", f"more {number}", chat=chats[number])
    else:
        await sandbox.fault("status", method="GET", path="/v1.0/me/chats", status=400, count=1)
    await ear.beat()
    assert not ear.source.report()["sorted_by_graph"]
    await sandbox.say("bob", "news", chat=chats[3])
    asked = await ear.beat()
    assert len(asked) == 2
    assert host.inbox.texts(chats[3]) == ["old 3", "news"]
    ear.clock.offset += 3601
    assert ear.source.report()["sorted_by_graph"]


async def test_one_chat_s_failure_stops_no_other(
    ear: Ear, host: PlainHost, sandbox: Sandbox, caplog: pytest.LogCaptureFixture
) -> None:
    chats = await many_chats(sandbox, 3)
    host.inbox.broken_for = chats[1]
    await ear.beat()
    assert sorted(host.inbox.texts()) == ["old 0", "old 2"]
    assert ear.source.report()["failing"] == {chats[1]: "StorageError: The record cannot be read."}
    assert caplog.text.count("cannot be read: StorageError") == 1
    positions = host.inbox.positions
    await ear.beat()
    assert host.inbox.positions == positions
    host.inbox.broken_for = ""
    await ear.later(30)
    await ear.beat()
    assert sorted(host.inbox.texts()) == ["old 0", "old 1", "old 2"]
    assert ear.source.report()["chats_failing"] == 0


async def test_a_failed_look_loses_nothing(ear: Ear, host: PlainHost, sandbox: Sandbox) -> None:
    (chat,) = await many_chats(sandbox, 1)
    await ear.beat()
    await ear.later(300)
    await sandbox.say("bob", "news", chat=chat)
    await sandbox.fault("status", method="GET", path="/v1.0/me/chats", status=403, count=1)
    with pytest.raises(GraphError):
        await ear.beat()
    await ear.later(300)
    await ear.beat()
    assert host.inbox.texts() == ["old 0", "news"]


async def test_reads_fall_back_to_order_of_creation(ear: Ear, host: PlainHost, sandbox: Sandbox) -> None:
    (chat,) = await many_chats(sandbox, 1)
    await sandbox.fault("status", method="GET", path=MESSAGES, status=400, count=1)
    await ear.beat()
    assert host.inbox.texts(chat) == ["old 0"]


async def test_a_preview_that_reading_never_returns_is_given_up(
    ear: Ear, host: PlainHost, sandbox: Sandbox, graph: GraphClient
) -> None:
    """The list shows a message; reading answers as if it were not there."""
    (chat,) = await many_chats(sandbox, 1)
    await ear.beat()
    said = await sandbox.say("alice", "ghost", chat=chat)
    host.graph = Forgetful(graph, said["id"])
    assert len(await ear.beat()) == 2
    assert await ear.beat() == ["GET /v1.0/me/chats"]
    reads, passed = 0, 0
    while passed < GIVE_UP_SECONDS + 200:
        ear.clock.offset += 10
        passed += 10
        reads += len([request for request in await ear.beat() if request.endswith("/messages")])
    assert 5 < reads < 15
    assert ear.source.report()["previews_given_up"] == 1
    host.graph = graph
    await sandbox.say("alice", "real", chat=chat)
    await ear.beat()
    assert host.inbox.texts() == ["old 0", "ghost", "real"]


# --- discovery and other identities ---------------------------------------------------------------------------------


async def test_discovery_registers_all_in_one_write(ear: Ear, host: PlainHost, sandbox: Sandbox) -> None:
    chats = await many_chats(sandbox, 55)
    await sandbox.clear_requests()
    await ear.source.discover()
    assert await ear.watched.all() == set(chats)
    assert host.store.writes == 1
    assert "orderby" not in str(await sandbox.requests()).lower()
    await ear.source.discover()
    assert host.store.writes == 1


async def test_discovery_retries_what_could_not_be_written(ear: Ear, host: PlainHost, sandbox: Sandbox) -> None:
    (chat,) = await many_chats(sandbox, 1)
    host.store.broken = True
    await ear.source.discover()
    host.store.broken = False
    ear.clock.offset += 120
    await ear.source.discover()
    assert host.store.values["watched_chats"] == f"{chat}\n".encode()


async def test_a_chat_without_messages_is_looked_at_once_a_minute(ear: Ear, host: PlainHost, sandbox: Sandbox) -> None:
    await sandbox.create_chat("alice", ["agent"])
    assert "POST /v1.0/$batch" in await ear.beat()
    assert await ear.beat() == ["GET /v1.0/me/chats"]
    ear.clock.offset += 61
    assert "POST /v1.0/$batch" in await ear.beat()
    await sandbox.say("alice", "hello")
    await ear.beat()
    assert host.inbox.texts() == ["hello"]


@pytest.mark.parametrize("ordered", [True, False])
async def test_in_a_person_s_name_only_watched_chats_are_heard(
    ear: Ear, host: PlainHost, sandbox: Sandbox, ordered: bool
) -> None:
    host.identity.principal = principal(sandbox.environment, Attribution.DELEGATED_HUMAN)
    if not ordered:
        await sandbox.fault("status", method="GET", path="/v1.0/me/chats", status=400, count=1)
    chats = await many_chats(sandbox, 4)
    await ear.beat()
    assert await sandbox.requests() == []
    await ear.watched.add([chats[2]])
    await ear.beat()
    await sandbox.say("bob", "news", chat=chats[2])
    await sandbox.say("bob", "private", chat=chats[1])
    asked = await ear.beat()
    assert host.inbox.texts() == ["old 2", "news"]
    assert list(host.inbox.done) == [chats[2]]
    assert ("GET /v1.0/me/chats" in asked) is ordered
    assert len(asked) == 2


async def test_in_a_person_s_name_his_own_words_are_heard_and_the_agent_s_are_not(
    ear: Ear, host: PlainHost, sandbox: Sandbox
) -> None:
    """Both have the same object id: the agent's are told by its prefix, or by the ids that were sent."""
    host.identity.principal = principal(sandbox.environment, Attribution.DELEGATED_HUMAN)
    (chat,) = await many_chats(sandbox, 1)
    await ear.watched.add([chat])
    await sandbox.say("agent", "[EntraBot] by the agent", chat=chat)
    card = await sandbox.say("agent", "a card of the agent", chat=chat)
    await host.inbox.spoke(Conversation.chat(chat), card["id"])
    await sandbox.say("agent", "by hand", chat=chat)
    await ear.beat()
    assert host.inbox.texts() == ["old 0", "by hand"]


class CrowdedList:
    """Graph for somebody with 3,000 chats: pages of 50, newest first where order is taken; counts what is asked."""

    def __init__(self, watched: list[str], *, ordered: bool) -> None:
        self.ordered = ordered
        self.watched = watched
        self.others = [f"19:{number:032x}@thread.v2" for number in range(3_000)]
        self.said = {chat_id: self.message("100", "old", minutes=90) for chat_id in [*self.others, *watched]}
        self.requests = self.parts = 0

    @staticmethod
    def message(message_id: str, text: str, minutes: float = 0) -> dict[str, Any]:
        created = (datetime.now(UTC) - timedelta(minutes=minutes)).isoformat()
        sender = {"user": {"id": "alice", "displayName": "Alice"}}
        body = {"contentType": "text", "content": text}
        return {"id": message_id, "messageType": "message", "createdDateTime": created, "from": sender, "body": body}

    async def request(self, method: str, path: str, *, params: Any = None, **_: Any) -> GraphResponse:
        self.requests += 1
        if path.endswith("/messages"):
            return GraphResponse(200, {}, {"value": [self.said[unquote(path.split("/")[2])]]})
        if params and "$orderby" in params and not self.ordered:
            raise GraphError("refused", status=400)
        newest = sorted(self.said, key=lambda chat_id: str(self.said[chat_id]["createdDateTime"]), reverse=True)
        start = int(path.partition("skip=")[2] or 0)
        rows = [{"id": chat_id, "lastMessagePreview": self.said[chat_id]} for chat_id in newest[start : start + 50]]
        return GraphResponse(200, {}, {"value": rows, "@odata.nextLink": f"/me/chats?skip={start + 50}"})

    async def batch(self, requests: Sequence[BatchRequest]) -> list[GraphResponse]:
        self.requests += -(-len(requests) // 20)
        self.parts += len(requests)
        return [
            GraphResponse(200, {}, {"value": [self.said[unquote(request.path.split("/")[2])]]}) for request in requests
        ]


@pytest.mark.parametrize("ordered", [True, False])
async def test_somebody_with_3000_chats(ear: Ear, host: PlainHost, sandbox: Sandbox, ordered: bool) -> None:
    host.identity.principal = principal(sandbox.environment, Attribution.DELEGATED_HUMAN)
    watched = [f"19:{'f' * 31}{number}@thread.v2" for number in range(3)]
    await ear.watched.add(watched)
    graph = host.graph = CrowdedList(watched, ordered=ordered)
    for _ in range(2):
        await ear.source.beat()
    assert sorted(host.inbox.done) == watched
    assert set(ear.source._states) == set(watched)

    graph.requests = graph.parts = 0
    await ear.source.beat()
    assert (graph.requests, graph.parts) == ((1, 0) if ordered else (1, 3))

    graph.said[graph.others[9]] = graph.message("200", "private")
    graph.said[watched[1]] = graph.message("200", "the sponsor's")
    ear.clock.offset += 5
    await ear.source.beat()
    assert host.inbox.texts(watched[1]) == ["old", "the sponsor's"]
    assert "private" not in host.inbox.texts()


async def test_many_watched_chats_without_order_are_asked_in_turn(ear: Ear, host: PlainHost, sandbox: Sandbox) -> None:
    host.identity.principal = principal(sandbox.environment, Attribution.DELEGATED_HUMAN)
    watched = [f"19:{number:032x}@thread.v2" for number in range(500)]
    await ear.watched.add(watched)
    graph = host.graph = CrowdedList(watched, ordered=False)
    costs = []
    for _ in range(12):
        graph.parts, before = 0, graph.requests
        await ear.source.beat()
        costs.append((graph.parts, graph.requests - before))
        ear.clock.offset += 5
    assert max(parts for parts, _ in costs) == 60
    assert len(host.inbox.texts()) == 500
    graph.requests = 0
    await ear.source.beat()
    assert graph.requests == 3


async def test_throttling_delays_and_loses_nothing(ear: Ear, host: PlainHost, sandbox: Sandbox) -> None:
    await sandbox.settings(throttling=True)
    chats = await many_chats(sandbox, 30)
    await sandbox.fault("status", method="GET", path=MESSAGES, status=429, count=5, retry_after=1)
    await sandbox.fault("status", method="GET", path="/v1.0/me/chats", status=429, count=1, retry_after=1)
    await ear.beat()
    assert sorted(host.inbox.done) == sorted(chats)
    assert ear.source.report()["chats_failing"] == 0


async def test_a_watched_chat_that_is_gone_stops_nothing(ear: Ear, host: PlainHost, sandbox: Sandbox) -> None:
    (chat,) = await many_chats(sandbox, 1)
    gone = f"19:{'0' * 32}@thread.v2"
    await ear.watched.add([gone])
    await ear.beat()
    assert host.inbox.texts(chat) == ["old 0"]
    assert list(ear.source.report()["failing"]) == [gone]
