"""Placeholders: their three stages, every way in which resolving can go wrong, and the discipline around them."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest
from entrabot_sandbox.client import Sandbox
from entrabot_teams import plugin
from entrabot_teams.discipline import WARNING, PlaceholderMissing, is_substantive
from entrabot_teams.domain import Teams
from entrabot_teams.placeholders import REMEMBERED, Placeholders

from entrabot_host import Attribution, Band, GraphError, GraphForbidden, GraphUnavailable, InvalidArgument, Tool
from tests.teams.parts import Clock, PlainHost, PlainSettings, principal

PATCH = {"method": "PATCH", "path": "/v1.0/chats/*/messages/*"}
POST = {"method": "POST", "path": "/v1.0/chats/*/messages"}
DELETE = {"method": "POST", "path": "/v1.0/me/chats/*/messages/*/softDelete"}


@pytest.fixture
async def chat_id(sandbox: Sandbox) -> str:
    return str((await sandbox.create_chat("alice", ["agent"]))["id"])


@pytest.fixture
async def placeholder(teams: Teams, chat_id: str) -> str:
    return str((await teams.thinking.post_thinking_placeholder(chat_id))["placeholder_id"])


async def shown(sandbox: Sandbox, chat_id: str) -> list[str]:
    """What people see of the agent's messages."""
    messages = await sandbox.messages(chat_id, sender="agent")
    return ["(deleted)" if message["deletedDateTime"] else message["body"]["content"] for message in messages]


# --- the three stages -----------------------------------------------------------------------------------------------


async def test_the_three_stages(teams: Teams, host: PlainHost, sandbox: Sandbox, chat_id: str) -> None:
    posted = await teams.thinking.post_thinking_placeholder(chat_id)
    (message,) = await sandbox.messages(chat_id, sender="agent")
    placeholder_id = message["id"]
    assert posted == {"placeholder_id": placeholder_id, "chat_id": chat_id, "sent_at": message["createdDateTime"]}
    assert await shown(sandbox, chat_id) == ["<p><em>thinking…</em></p>"]

    updated = await teams.thinking.update_placeholder(chat_id, placeholder_id, "reading <3 files>")
    assert updated == {"placeholder_id": placeholder_id, "chat_id": chat_id, "updated": True}
    assert await shown(sandbox, chat_id) == ["<p><em>reading &lt;3 files&gt;</em></p>"]

    alice = sandbox.people["alice"]
    mentions = [{"id": 0, "name": "Alice", "user_id": alice["id"]}]
    resolved = await teams.thinking.resolve_placeholder(
        chat_id, placeholder_id, '<at id="0">Alice</at>: **42**', "markdown", mentions
    )
    assert resolved == {
        "message_id": placeholder_id,
        "chat_id": chat_id,
        "sent_at": resolved["sent_at"],
        "mode": "edit",
    }
    (message,) = await sandbox.messages(chat_id, sender="agent")
    assert "<strong>42</strong>" in message["body"]["content"]
    assert message["mentions"][0]["mentioned"]["user"]["id"] == alice["id"], "mentions are sent again"
    assert [entry.action for entry in host.records.interactions] == [
        "post_thinking_placeholder",
        "resolve_placeholder",
    ]


async def test_nothing_but_the_first_stage_is_a_new_message(
    teams: Teams, sandbox: Sandbox, chat_id: str, placeholder: str
) -> None:
    await sandbox.clear_requests()
    await teams.thinking.update_placeholder(chat_id, placeholder, "half")
    await teams.thinking.resolve_placeholder(chat_id, placeholder, "done")
    assert [asked["method"] for asked in await sandbox.requests()] == ["PATCH", "PATCH"]


async def test_a_fresh_ping(teams: Teams, sandbox: Sandbox, chat_id: str, placeholder: str) -> None:
    resolved = await teams.thinking.resolve_placeholder(chat_id, placeholder, "done", mode="delete_repost")
    assert (resolved["mode"], resolved["placeholder_removed"]) == ("delete_repost", True)
    assert resolved["message_id"] != placeholder
    assert await shown(sandbox, chat_id) == ["(deleted)", "done"]


async def test_what_people_write_after_the_answer_answers_it(
    teams: Teams, host: PlainHost, sandbox: Sandbox, chat_id: str, placeholder: str
) -> None:
    await sandbox.say("alice", "an old yes", chat=chat_id)
    await sandbox.set_clock(5)
    await teams.thinking.resolve_placeholder(chat_id, placeholder, "shall I?")
    host.settings = PlainSettings(wait_seconds=0)
    await teams.waiting.wait_for_sponsor_dm(timeout_seconds=1)
    ((waited_for, mark, _),) = host.inbox.waits
    (old, *_) = [m for m in await sandbox.messages(chat_id) if m["body"]["content"] == "<p>an old yes</p>"]
    assert waited_for == ""
    assert mark.isoformat() > old["createdDateTime"].replace("Z", "+00:00")


# --- updating is best effort ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [403, 404, 400, 429])
async def test_an_update_that_fails_is_no_failure(
    teams: Teams, sandbox: Sandbox, chat_id: str, placeholder: str, status: int
) -> None:
    await sandbox.fault("status", **PATCH, status=status, retry_after=600)
    result = await teams.thinking.update_placeholder(chat_id, placeholder, "half")
    assert result["updated"] is False
    assert result["reason"]
    assert "resolve_placeholder" in result["_next_action"]
    assert await shown(sandbox, chat_id) == ["<p><em>thinking…</em></p>"], "and never a new message"


async def test_a_late_update_does_not_overwrite_the_answer(
    teams: Teams, sandbox: Sandbox, chat_id: str, placeholder: str
) -> None:
    await sandbox.fault("latency", **PATCH, seconds=0.5, count=1)
    update = asyncio.create_task(teams.thinking.update_placeholder(chat_id, placeholder, "half"))
    with anyio.fail_after(10):
        while not teams.placeholders.of(chat_id, placeholder).lock.statistics().locked:
            await asyncio.sleep(0.01)
    await teams.thinking.resolve_placeholder(chat_id, placeholder, "done")
    assert (await update)["updated"] is True, "it came before"
    late = await teams.thinking.update_placeholder(chat_id, placeholder, "three quarters")
    assert (late["updated"], "resolved" in late["reason"]) == (False, True)
    assert await shown(sandbox, chat_id) == ["done"]


async def test_resolving_twice_is_refused(teams: Teams, chat_id: str, placeholder: str) -> None:
    await teams.thinking.resolve_placeholder(chat_id, placeholder, "done")
    with pytest.raises(InvalidArgument, match="resolved already"):
        await teams.thinking.resolve_placeholder(chat_id, placeholder, "done again")


# --- the answer is never lost ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [403, 404, 405, 429])
async def test_what_cannot_be_edited_is_sent_anew(
    teams: Teams, host: PlainHost, sandbox: Sandbox, chat_id: str, placeholder: str, status: int
) -> None:
    await sandbox.fault("status", **PATCH, status=status, retry_after=600)
    alice = sandbox.people["alice"]
    mentions = [{"id": 0, "name": "Alice", "user_id": alice["id"]}]
    result = await teams.thinking.resolve_placeholder(
        chat_id, placeholder, '<at id="0">Alice</at> done', mentions=mentions
    )
    assert (result["mode"], result["placeholder_removed"]) == ("new_message", True)
    assert result["reason"]
    answer = (await sandbox.messages(chat_id, sender="agent"))[-1]
    assert result["message_id"] == answer["id"]
    assert answer["mentions"][0]["mentioned"]["user"]["id"] == alice["id"], "mentions are sent again"
    assert (await shown(sandbox, chat_id))[0] == "(deleted)"
    assert host.inbox.spoken[-1] == (chat_id, answer["id"])


async def test_neither_edited_nor_removed(teams: Teams, sandbox: Sandbox, chat_id: str, placeholder: str) -> None:
    await sandbox.fault("status", **PATCH, status=403)
    await sandbox.fault("status", **DELETE, status=403)
    result = await teams.thinking.resolve_placeholder(chat_id, placeholder, "done")
    assert (result["mode"], result["placeholder_removed"]) == ("new_message", False)
    assert await shown(sandbox, chat_id) == ["<p><em>thinking…</em></p>", "done"]


@pytest.mark.parametrize("kind", ["drop_before", "drop_after"])
async def test_a_broken_connection_is_tried_again(
    teams: Teams, sandbox: Sandbox, chat_id: str, placeholder: str, kind: str
) -> None:
    await sandbox.fault(kind, **PATCH, count=1)
    result = await teams.thinking.resolve_placeholder(chat_id, placeholder, "done")
    assert (result["mode"], result["message_id"]) == ("edit", placeholder)
    assert await shown(sandbox, chat_id) == ["done"]


async def test_an_edit_that_landed_though_no_answer_ever_came(
    teams: Teams, sandbox: Sandbox, chat_id: str, placeholder: str
) -> None:
    await sandbox.fault("drop_after", **PATCH)
    result = await teams.thinking.resolve_placeholder(chat_id, placeholder, "done")
    assert (result["mode"], result["message_id"]) == ("edit", placeholder)
    assert await shown(sandbox, chat_id) == ["done"], "and not a second time"


async def test_an_edit_that_never_lands(teams: Teams, sandbox: Sandbox, chat_id: str, placeholder: str) -> None:
    await sandbox.fault("drop_before", **PATCH)
    result = await teams.thinking.resolve_placeholder(chat_id, placeholder, "done")
    assert result["mode"] == "new_message"
    assert await shown(sandbox, chat_id) == ["(deleted)", "done"]


async def test_a_placeholder_that_is_not_there(teams: Teams, sandbox: Sandbox, chat_id: str) -> None:
    result = await teams.thinking.resolve_placeholder(chat_id, "1616964509832", "done")
    assert result["mode"] == "new_message"
    assert await shown(sandbox, chat_id) == ["done"]


async def test_somebody_else_s_message_is_no_placeholder(teams: Teams, sandbox: Sandbox, chat_id: str) -> None:
    theirs = await sandbox.say("alice", "mine", chat=chat_id)
    result = await teams.thinking.resolve_placeholder(chat_id, theirs["id"], "done")
    assert (result["mode"], result["placeholder_removed"]) == ("new_message", False)
    assert [m["body"]["content"] for m in await sandbox.messages(chat_id, sender="alice")] == ["<p>mine</p>"]


async def test_what_cannot_be_sent_at_all_is_an_error(
    teams: Teams, sandbox: Sandbox, chat_id: str, placeholder: str
) -> None:
    await sandbox.fault("status", **PATCH, status=403)
    await sandbox.fault("status", **POST, status=403)
    with pytest.raises(GraphForbidden):
        await teams.thinking.resolve_placeholder(chat_id, placeholder, "done")
    await sandbox.clear_faults()
    assert (await teams.thinking.resolve_placeholder(chat_id, placeholder, "done"))["mode"] == "edit", (
        "it can be retried"
    )


@pytest.mark.parametrize("status", [400, 413])
async def test_content_that_teams_refuses_is_not_tried_twice(
    teams: Teams, sandbox: Sandbox, chat_id: str, placeholder: str, status: int
) -> None:
    await sandbox.fault("status", **PATCH, status=status)
    with pytest.raises(GraphError) as caught:
        await teams.thinking.resolve_placeholder(chat_id, placeholder, "done")
    assert caught.value.status == status


async def test_a_repost_that_fails_leaves_the_answer_in_the_placeholder(
    teams: Teams, sandbox: Sandbox, chat_id: str, placeholder: str
) -> None:
    await sandbox.fault("status", **POST, status=403)
    result = await teams.thinking.resolve_placeholder(chat_id, placeholder, "done", mode="delete_repost")
    assert (result["mode"], result["message_id"]) == ("edit", placeholder)
    assert await shown(sandbox, chat_id) == ["done"]


async def test_a_repost_of_unknown_outcome_is_said_so(
    teams: Teams, sandbox: Sandbox, chat_id: str, placeholder: str
) -> None:
    await sandbox.fault("drop_before", **POST)
    with anyio.fail_after(30), pytest.raises(GraphUnavailable) as caught:
        await teams.thinking.resolve_placeholder(chat_id, placeholder, "done", mode="delete_repost")
    assert caught.value.outcome_unknown
    assert await shown(sandbox, chat_id) == ["<p><em>thinking…</em></p>"]


# --- in a person's name ---------------------------------------------------------------------------------------------


async def test_in_a_person_s_name_his_own_words_are_out_of_reach(
    host: PlainHost, sandbox: Sandbox, chat_id: str
) -> None:
    host.identity.principal = principal(sandbox.environment, Attribution.DELEGATED_HUMAN)
    teams = Teams(host)
    typed = await sandbox.say("agent", "his own words", chat=chat_id)
    with pytest.raises(InvalidArgument, match="not one that the agent wrote"):
        await teams.sending.delete_teams_message(typed["id"], chat_id)
    with pytest.raises(InvalidArgument, match="not one that the agent wrote"):
        await teams.thinking.update_placeholder(chat_id, typed["id"], "half")
    result = await teams.thinking.resolve_placeholder(chat_id, typed["id"], "done")
    assert (result["mode"], result["placeholder_removed"]) == ("new_message", False)
    assert await shown(sandbox, chat_id) == ["<p>his own words</p>", "[EntraBot] done"]

    posted = await teams.thinking.post_thinking_placeholder(chat_id)
    await teams.thinking.update_placeholder(chat_id, posted["placeholder_id"], "half")
    assert (await shown(sandbox, chat_id))[-1] == "[EntraBot] <p><em>half</em></p>"
    await teams.thinking.resolve_placeholder(chat_id, posted["placeholder_id"], "done")
    assert (await shown(sandbox, chat_id))[-1] == "[EntraBot] done"
    await teams.sending.delete_teams_message(posted["placeholder_id"], chat_id)
    assert (await shown(sandbox, chat_id))[-1] == "(deleted)"


# --- deleting -------------------------------------------------------------------------------------------------------


async def test_deleting_goes_through_the_user(teams: Teams, sandbox: Sandbox, chat_id: str) -> None:
    sent = await teams.sending.send_teams_message("oops", chat_id=chat_id)
    await sandbox.clear_requests()
    result = await teams.sending.delete_teams_message(sent["message_id"], chat_id)
    assert result == {"message_id": sent["message_id"], "chat_id": chat_id, "deleted": True}
    assert await shown(sandbox, chat_id) == ["(deleted)"]
    (asked,) = await sandbox.requests()
    assert asked["path"].startswith("/v1.0/me/chats/")


async def test_below_the_chat_it_is_not_allowed(host: PlainHost, teams: Teams, chat_id: str) -> None:
    """The trap that the path below the user avoids."""
    sent = await teams.sending.send_teams_message("oops", chat_id=chat_id)
    with pytest.raises(GraphError) as caught:
        await host.graph.request("POST", f"/chats/{chat_id}/messages/{sent['message_id']}/softDelete")
    assert caught.value.status == 405


@pytest.mark.parametrize("kind", ["drop_before", "drop_after"])
async def test_a_deletion_is_repeated_after_a_broken_connection(
    teams: Teams, sandbox: Sandbox, chat_id: str, kind: str
) -> None:
    sent = await teams.sending.send_teams_message("oops", chat_id=chat_id)
    await sandbox.fault(kind, **DELETE, count=1)
    assert (await teams.sending.delete_teams_message(sent["message_id"], chat_id))["deleted"] is True
    assert await shown(sandbox, chat_id) == ["(deleted)"]


# --- discipline -----------------------------------------------------------------------------------------------------

LONG = "x" * 201


@pytest.mark.parametrize(
    ("text", "substantive"),
    [
        ("", False),
        ("x" * 200, False),
        (LONG, True),
        ("One. Two.", False),
        ("One. Two. Three", True),
        ("One! Two? Three…", True),
        ("version 1.2.3.4 at x.example.com is out", False),
        ("Wait... what?!", False),
        ("一。二。三。", True),
    ],
)
def test_what_is_substantive(text: str, substantive: bool) -> None:
    assert is_substantive(text) is substantive


class Disciplined:
    """`send_teams_message` as the wrapper makes it."""

    def __init__(self, host: PlainHost, **settings: Any) -> None:
        host.settings = PlainSettings(wait_seconds=0, **settings)
        self.teams = host.shared(Teams)
        self.clock = Clock()
        self.teams.placeholders._now = self.clock
        tools = {tool.tool_name: tool for tool in plugin.register_tools(host)}
        wrappers = {name: plugin.wrap_tool(tool, host) for name, tool in tools.items()}
        self.wrapped = {name for name, wrapper in wrappers.items() if wrapper}
        self.call: Any = self.teams.sending.send_teams_message
        for wrapper in filter(None, wrappers.values()):
            assert wrapper.band is Band.ENRICH
            self.call = wrapper.decorator(self.call)

    async def send(self, chat_id: str, message: str, content_type: str = "html") -> dict[str, Any]:
        return dict(await self.call(chat_id=chat_id, message=message, content_type=content_type))


async def test_a_long_message_without_a_placeholder_is_sent_with_a_warning(host: PlainHost, chat_id: str) -> None:
    tools = Disciplined(host)
    assert tools.wrapped == {"send_teams_message"}
    result = await tools.send(chat_id, LONG)
    assert result["message_id"]
    assert result["_warnings"] == [WARNING]
    assert "_warnings" not in await tools.send(chat_id, "short")
    assert "_warnings" not in await tools.send(chat_id, f"<p title='{LONG}'>short</p>"), "markup is no text"
    assert "_warnings" in await tools.send(chat_id, "a. b. c.", "markdown")


async def test_a_placeholder_counts_for_five_minutes_in_its_chat(
    host: PlainHost, sandbox: Sandbox, chat_id: str
) -> None:
    tools = Disciplined(host)
    other = (await sandbox.create_chat("bob", ["agent"]))["id"]
    await tools.teams.thinking.post_thinking_placeholder(chat_id)
    tools.clock.offset = 300
    assert "_warnings" not in await tools.send(chat_id, LONG)
    assert "_warnings" in await tools.send(other, LONG)
    tools.clock.offset = 301
    assert "_warnings" in await tools.send(chat_id, LONG)


async def test_the_operator_may_want_it_refused(host: PlainHost, sandbox: Sandbox, chat_id: str) -> None:
    tools = Disciplined(host, placeholders="refuse")
    with pytest.raises(PlaceholderMissing) as caught:
        await tools.send(chat_id, LONG)
    assert "post_thinking_placeholder" in caught.value.remedy
    assert await shown(sandbox, chat_id) == []
    await tools.teams.thinking.post_thinking_placeholder(chat_id)
    assert (await tools.send(chat_id, LONG))["message_id"]


async def test_or_not_at_all(host: PlainHost, chat_id: str) -> None:
    tools = Disciplined(host, placeholders="off")
    assert tools.wrapped == set()
    assert "_warnings" not in await tools.send(chat_id, LONG)


def test_another_plugin_s_tool_of_that_name_is_left_alone(host: PlainHost) -> None:
    async def send_teams_message() -> None:
        return None

    (own, *_) = plugin.register_tools(host)
    assert plugin.wrap_tool(Tool(send_teams_message, title="x", hints=own.hints), host) is None


def test_memory_is_bounded() -> None:
    placeholders = Placeholders(Clock())
    for number in range(REMEMBERED + 10):
        placeholders.of("chat", str(number))
        placeholders.posted(str(number))
    assert len(placeholders._known) == len(placeholders._last) == REMEMBERED
    assert placeholders.since("0") == float("inf")
