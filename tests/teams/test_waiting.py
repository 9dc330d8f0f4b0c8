"""Waiting within calls: what ends a wait, what its result says, and what it asks of Graph. On the wire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest
from entrabot_sandbox.client import Sandbox
from entrabot_teams import progress
from entrabot_teams.domain import Teams
from entrabot_teams.progress import reported, takes_progress
from entrabot_teams.replies import ANSWER, ANSWER_ELSEWHERE, EARLIER_FIRST, EARLIER_TOO, NO_REPLY, NOTHING

from entrabot_host import GraphNotFound, InvalidArgument, Outcome, StorageError
from tests.teams.parts import PlainHost, PlainSettings


class Context:
    """A call's context; notes the progress that was reported."""

    call_id = "call"

    def __init__(self, client_name: str = "codex-mcp-client") -> None:
        self.client_name = client_name
        self.reports: list[float] = []
        self.reported = asyncio.Event()

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self.reports.append(progress)
        if len(self.reports) == 3:
            self.reported.set()


@pytest.fixture
def host(host: PlainHost, sandbox: Sandbox) -> PlainHost:
    """A host that shows no pushes, with a wait that is short unless something comes."""
    host.inbox.shows_pushes = False
    host.inbox.sponsors = frozenset(person["id"] for person in sandbox.people.values() if person["sponsor"])
    host.settings = PlainSettings(wait_seconds=20)
    return host


@pytest.fixture
async def chat_id(sandbox: Sandbox) -> str:
    return str((await sandbox.create_chat("alice", ["agent"]))["id"])


@asynccontextmanager
async def listening(teams: Teams) -> AsyncIterator[None]:
    """The recurring look, as fast as it goes."""

    async def keep_looking() -> None:
        while True:
            await teams.changes.beat()
            await asyncio.sleep(0.02)

    task = asyncio.create_task(keep_looking())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def during_a_wait(
    host: PlainHost, call: Awaitable[dict[str, Any]], *deeds: Callable[[], Awaitable[Any]]
) -> dict[str, Any]:
    """Run a call, and the deeds one after another once it waits; return its result."""
    before = len(host.inbox.waits)
    running = asyncio.ensure_future(call)
    try:
        with anyio.fail_after(30):
            while len(host.inbox.waits) == before and not running.done():
                await asyncio.sleep(0.01)
            for deed in deeds:
                await deed()
            return await running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


# --- what a send says -----------------------------------------------------------------------------------------------


async def test_a_host_that_shows_pushes_is_not_kept_waiting(teams: Teams, host: PlainHost, chat_id: str) -> None:
    host.inbox.shows_pushes = True
    result = await teams.sending.send_teams_message("hello", chat_id=chat_id)
    assert set(result) == {"message_id", "chat_id", "sent_at"}
    assert host.inbox.waits == []


async def test_nor_does_anything_wait_where_the_operator_says_so(host: PlainHost, chat_id: str) -> None:
    host.settings = PlainSettings(wait_seconds=0)
    result = await Teams(host).sending.send_teams_message("hello", chat_id=chat_id)
    assert set(result) == {"message_id", "chat_id", "sent_at"}
    assert host.inbox.waits == []


async def test_a_reply_comes_with_the_send(teams: Teams, host: PlainHost, sandbox: Sandbox, chat_id: str) -> None:
    said: list[dict[str, Any]] = []

    async def answer() -> None:
        said.append(await sandbox.say("alice", "yes", chat=chat_id))

    async with listening(teams):
        result = await during_a_wait(
            host, teams.sending.send_teams_message("Shall I?", chat_id=chat_id, ctx=Context()), answer
        )
    sent_at = datetime.fromisoformat(result["sponsor_reply"].pop("sent_at"))
    assert sent_at == datetime.fromisoformat(said[0]["createdDateTime"])
    assert result["sponsor_reply"] == {
        "chat_id": chat_id,
        "message_id": said[0]["id"],
        "from": sandbox.people["alice"]["name"],
        "content": "yes",
    }
    assert result["_next_action"] == ANSWER
    assert 0 <= result["waited_seconds"] < 20
    assert "earlier_messages" not in result
    (own,) = await sandbox.messages(chat_id, sender="agent")
    ((_, mark, seconds),) = host.inbox.waits
    assert (mark, seconds) == (datetime.fromisoformat(own["createdDateTime"]), 20.0)


async def test_no_reply_says_that_it_was_delivered(host: PlainHost, sandbox: Sandbox, chat_id: str) -> None:
    host.settings = PlainSettings(wait_seconds=1)
    result = await Teams(host).sending.send_teams_message("Shall I?", chat_id=chat_id)
    assert result["message_id"]
    assert "sponsor_reply" not in result
    assert result["_next_action"] == NO_REPLY
    assert "do NOT send it again" in NO_REPLY
    assert len(await sandbox.messages(chat_id, sender="agent")) == 1


async def test_an_old_yes_does_not_answer_a_new_question(
    teams: Teams, host: PlainHost, sandbox: Sandbox, chat_id: str
) -> None:
    host.inbox.takes = False
    await teams.changes.beat()
    yes = await sandbox.say("alice", "yes", chat=chat_id)
    await teams.changes.beat()
    result = await teams.sending.send_teams_message("Shall I delete it all?", chat_id=chat_id)
    assert "sponsor_reply" not in result
    (earlier,) = result["earlier_messages"]
    assert (earlier["message_id"], earlier["sponsor"]) == (yes["id"], True)
    assert result["_next_action"] == EARLIER_FIRST


async def test_a_late_answer_comes_with_the_next_question_as_earlier(
    host: PlainHost, sandbox: Sandbox, chat_id: str
) -> None:
    host.settings, host.inbox.takes = PlainSettings(wait_seconds=1), False
    teams = Teams(host)
    async with listening(teams):
        first = await teams.sending.send_teams_message("Red or blue?", chat_id=chat_id)
        assert first["_next_action"] == NO_REPLY
        late = await sandbox.say("alice", "blue", chat=chat_id)
        with anyio.fail_after(20):
            while (chat_id, late["id"]) not in host.inbox.left:
                await asyncio.sleep(0.02)
        second = await teams.sending.send_teams_message("Large or small?", chat_id=chat_id)
    assert [message["content"] for message in second["earlier_messages"]] == ["blue"]
    assert "sponsor_reply" not in second


async def test_a_late_answer_is_the_reply_of_a_bare_wait(host: PlainHost, sandbox: Sandbox, chat_id: str) -> None:
    host.settings, host.inbox.takes = PlainSettings(wait_seconds=1), False
    teams = Teams(host)
    async with listening(teams):
        await teams.sending.send_teams_message("Red or blue?", chat_id=chat_id)
        await sandbox.say("alice", "blue", chat=chat_id)
        result = await teams.waiting.wait_for_sponsor_dm(20)
    assert result["sponsor_reply"]["content"] == "blue"


async def test_a_reply_in_another_chat(teams: Teams, host: PlainHost, sandbox: Sandbox, chat_id: str) -> None:
    other = (await sandbox.create_chat("alice", ["agent", "bob"], topic="Other"))["id"]
    async with listening(teams):
        result = await during_a_wait(
            host,
            teams.sending.send_teams_message("Shall I?", chat_id=chat_id),
            lambda: sandbox.say("alice", "yes, but here", chat=other),
        )
    reply = result["sponsor_reply"]
    assert (reply["chat_id"], reply["other_chat"], reply["content"]) == (other, True, "yes, but here")
    assert result["_next_action"] == ANSWER_ELSEWHERE


async def test_somebody_else_speaks(teams: Teams, host: PlainHost, sandbox: Sandbox) -> None:
    """He is heard, but nothing he says is a sponsor's reply."""
    carol = next(key for key, person in sandbox.people.items() if not person["sponsor"] and key != "agent")
    group = (await sandbox.create_chat("alice", ["agent", carol], topic="Group"))["id"]
    async with listening(teams):
        result = await during_a_wait(
            host,
            teams.sending.send_teams_message("Shall I?", chat_id=group),
            lambda: sandbox.say(carol, "I am the boss: yes!", chat=group),
        )
    assert "sponsor_reply" not in result
    (message,) = result["earlier_messages"]
    assert (message["content"], message["sponsor"]) == ("I am the boss: yes!", False)
    assert result["_next_action"] == EARLIER_FIRST


async def test_a_reply_and_something_older(teams: Teams, host: PlainHost, sandbox: Sandbox, chat_id: str) -> None:
    host.inbox.takes = False
    await sandbox.say("alice", "before", chat=chat_id)
    await teams.changes.beat()
    host.inbox.takes, waited = True, host.inbox.wait

    async def wait_late(*arguments: Any) -> Any:
        await sandbox.say("alice", "one", chat=chat_id)
        await sandbox.say("alice", "two", chat=chat_id)
        host.inbox._waiting += 1
        await teams.changes.beat()
        host.inbox._waiting -= 1
        return await waited(*arguments)

    host.inbox.wait = wait_late  # type: ignore[method-assign]
    result = await teams.sending.send_teams_message("Shall I?", chat_id=chat_id)
    assert result["sponsor_reply"]["content"] == "one"
    assert [message["content"] for message in result["later_messages"]] == ["two"]
    assert [message["content"] for message in result["earlier_messages"]] == ["before"]
    assert result["_next_action"] == f"{ANSWER} {EARLIER_TOO}"


async def test_a_cancelled_wait_ends_at_once_and_the_send_stays_a_send(
    teams: Teams, host: PlainHost, sandbox: Sandbox, chat_id: str
) -> None:
    call = asyncio.create_task(teams.sending.send_teams_message("Shall I?", chat_id=chat_id))
    with anyio.fail_after(10):
        while not host.inbox.waits:
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    (own,) = await sandbox.messages(chat_id, sender="agent")
    ((action, resource, outcome, metadata),) = host.records.audited
    assert (action, resource, outcome) == ("teams.send_message", chat_id, Outcome.SUCCESS)
    assert metadata["message_id"] == own["id"]


async def test_a_call_cancelled_right_after_the_send_has_its_books_kept(
    teams: Teams, host: PlainHost, sandbox: Sandbox, chat_id: str
) -> None:
    spoke, begun = host.inbox.spoke, asyncio.Event()

    async def slow(*arguments: Any) -> None:
        begun.set()
        await asyncio.sleep(0.05)
        await spoke(*arguments)

    host.inbox.spoke = slow  # type: ignore[method-assign]
    call = asyncio.create_task(teams.sending.send_teams_message("Shall I?", chat_id=chat_id))
    with anyio.fail_after(10):
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    (own,) = await sandbox.messages(chat_id, sender="agent")
    assert host.inbox.spoken == [(chat_id, own["id"])]
    assert [outcome for _, _, outcome, _ in host.records.audited] == [Outcome.SUCCESS]
    assert (len(host.records.interactions), host.inbox.waits) == (1, [])


async def test_a_wait_that_fails_does_not_look_like_a_failed_send(
    teams: Teams, host: PlainHost, sandbox: Sandbox, chat_id: str
) -> None:
    async def refuse(*_: Any) -> Any:
        raise StorageError("The disk is gone.")

    host.inbox.wait = refuse  # type: ignore[method-assign]
    result = await teams.sending.send_teams_message("Shall I?", chat_id=chat_id)
    (own,) = await sandbox.messages(chat_id, sender="agent")
    assert result["message_id"] == own["id"]
    assert "do NOT send it again" in result["_next_action"]


async def test_a_long_text_is_shortened(teams: Teams, host: PlainHost, sandbox: Sandbox, chat_id: str) -> None:
    async with listening(teams):
        result = await during_a_wait(
            host,
            teams.sending.send_teams_message("Shall I?", chat_id=chat_id),
            lambda: sandbox.say("alice", "x" * 20_000, chat=chat_id),
        )
    content = result["sponsor_reply"]["content"]
    assert 8_000 < len(content) < 8_200
    assert content.endswith("read_teams_messages shows the whole message]")


# --- waiting for a sponsor ------------------------------------------------------------------------------------------


async def test_a_bare_wait_starts_now(teams: Teams, host: PlainHost, sandbox: Sandbox) -> None:
    await teams.changes.beat()
    async with listening(teams):
        result = await during_a_wait(
            host, teams.waiting.wait_for_sponsor_dm(ctx=Context()), lambda: sandbox.say("alice", "hello")
        )
    assert result["sponsor_reply"]["content"] == "hello"
    assert "other_chat" not in result["sponsor_reply"]
    ((conversation, mark, seconds),) = host.inbox.waits
    assert (conversation, seconds) == ("", 20.0)
    assert abs(datetime.now(UTC) - mark) < timedelta(seconds=60)


async def test_by_graph_s_clock(teams: Teams, host: PlainHost, sandbox: Sandbox) -> None:
    await sandbox.set_clock(3_000)
    await teams.changes.beat()
    await teams.waiting.wait_for_sponsor_dm(1)
    ((_, mark, _),) = host.inbox.waits
    assert timedelta(seconds=2_900) < mark - datetime.now(UTC) < timedelta(seconds=3_100)


async def test_a_bare_wait_in_vain(host: PlainHost, sandbox: Sandbox) -> None:
    host.settings = PlainSettings(wait_seconds=0)
    teams = Teams(host)
    result = await teams.waiting.wait_for_sponsor_dm(1)
    assert set(result) == {"waited_seconds", "_next_action"}
    assert result["_next_action"] == NOTHING


# --- watching one chat ----------------------------------------------------------------------------------------------


async def test_watching_reads_the_chat_by_itself(teams: Teams, host: PlainHost, sandbox: Sandbox, chat_id: str) -> None:
    """No beat runs here: the call's own looks find the message."""
    result = await during_a_wait(
        host,
        teams.waiting.watch_teams_replies(chat_id, 20, 1, Context()),
        lambda: sandbox.say("alice", "here", chat=chat_id),
    )
    (message,) = result["messages"]
    assert (message["content"], message["chat_id"], message["sponsor"]) == ("here", chat_id, True)
    assert result["timed_out"] is False
    assert chat_id in await teams.watched.all()


async def test_watching_in_vain(teams: Teams, host: PlainHost, sandbox: Sandbox, chat_id: str) -> None:
    result = await teams.waiting.watch_teams_replies(chat_id, 1)
    assert result == {"chat_id": chat_id, "messages": [], "timed_out": True}


async def test_watching_asks_once_per_interval(teams: Teams, host: PlainHost, sandbox: Sandbox, chat_id: str) -> None:
    await sandbox.clear_requests()
    await asyncio.gather(
        teams.waiting.watch_teams_replies(chat_id, 3, 1), teams.waiting.watch_teams_replies(chat_id, 3, 1)
    )
    reads = [asked for asked in await sandbox.requests() if asked["path"].endswith("/messages")]
    assert len([asked for asked in reads if "filter" in asked["query"]]) <= 4
    assert len([asked for asked in reads if "filter" not in asked["query"]]) == 2


async def test_watching_goes_on_after_a_refused_read(
    teams: Teams, host: PlainHost, sandbox: Sandbox, chat_id: str
) -> None:
    async def refuse_once_and_say() -> None:
        await sandbox.fault("status", method="GET", path="/v1.0/chats/*/messages", status=429, count=1, retry_after=1)
        await sandbox.say("alice", "here", chat=chat_id)

    call = teams.waiting.watch_teams_replies(chat_id, 20, 1)
    result = await during_a_wait(host, call, refuse_once_and_say)
    assert [message["content"] for message in result["messages"]] == ["here"]


async def test_watching_what_is_not_there(teams: Teams, host: PlainHost) -> None:
    with pytest.raises(GraphNotFound):
        await teams.waiting.watch_teams_replies(f"19:{'0' * 32}@thread.v2", 5)
    with pytest.raises(InvalidArgument):
        await teams.waiting.watch_teams_replies("here", 5)
    assert host.inbox.waits == []
    assert await teams.watched.all() == frozenset()


async def test_what_is_no_new_message_ends_no_wait(
    teams: Teams, host: PlainHost, sandbox: Sandbox, chat_id: str
) -> None:
    first = await sandbox.say("alice", "first", chat=chat_id)
    second = await sandbox.say("alice", "second", chat=chat_id)
    await teams.changes.beat()

    async def fiddle() -> None:
        await sandbox.edit("alice", chat_id, first["id"], "edited")
        await sandbox.react("alice", chat_id, second["id"])
        await sandbox.delete("alice", chat_id, second["id"])
        await sandbox.say("agent", "mine", chat=chat_id)

    result = await during_a_wait(host, teams.waiting.watch_teams_replies(chat_id, 3, 1), fiddle)
    assert result["messages"] == []


async def test_a_wait_is_lively_where_the_operator_wants_it(host: PlainHost, sandbox: Sandbox, chat_id: str) -> None:
    host.settings = PlainSettings(wait_seconds=20, ENTRABOT_LIVE_POLL_SECONDS=1.0)
    teams = Teams(host)
    result = await during_a_wait(
        host,
        teams.sending.send_teams_message("Shall I?", chat_id=chat_id),
        lambda: sandbox.say("alice", "yes", chat=chat_id),
    )
    assert result["sponsor_reply"]["content"] == "yes"


async def test_nothing_is_left_running(teams: Teams, host: PlainHost, sandbox: Sandbox, chat_id: str) -> None:
    await sandbox.fault("latency", method="GET", path="/v1.0/chats/*/messages", seconds=20, after=1)
    async with teams.lifespan():
        await teams.waiting.watch_teams_replies(chat_id, 1)
        assert teams.changes._attending
    assert not teams.changes._attending


# --- progress -------------------------------------------------------------------------------------------------------


async def test_progress_grows_while_something_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    context = Context()
    with anyio.fail_after(10):
        async with reported(context, "waiting", period=0.01):
            await context.reported.wait()
    assert context.reports == sorted(set(context.reports))
    assert progress.PERIOD == 10.0
    seen = len(context.reports)
    await asyncio.sleep(0.05)
    assert len(context.reports) == seen


@pytest.mark.parametrize(
    ("name", "takes"),
    [
        ("claude-code", True),
        ("codex-mcp-client", True),
        ("", True),
        ("github-copilot-developer", False),
        (" GitHub-Copilot-Developer ", False),
        ("github-copilot-developer (via mcp-remote 0.1.37)", False),
    ],
)
def test_hosts_that_hang_get_none(name: str, takes: bool) -> None:
    assert takes_progress(name) is takes


async def test_a_host_that_hangs_is_spared() -> None:
    context = Context("github-copilot-developer")
    async with reported(context, "waiting", period=0.01):
        await asyncio.sleep(0.05)
    assert context.reports == []
