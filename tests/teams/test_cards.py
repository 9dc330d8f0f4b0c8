"""Cards: valid Adaptive Cards 1.4 whatever they say, plain text, trimmed honestly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from entrabot_sandbox.client import Sandbox
from entrabot_sandbox.compose import new_draft
from entrabot_teams.card_layout import MAX_BYTES, Card, build_result, task_status, tool_activity
from entrabot_teams.cards import CARD, _draft
from entrabot_teams.domain import Teams
from entrabot_teams.markup import tidy
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from entrabot_host import Attribution, InvalidArgument
from tests.teams.parts import PlainHost, principal

SCHEMA = json.loads((Path(__file__).parents[1] / "data" / "adaptive-card.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft6Validator(SCHEMA)
WORDS = st.text(max_size=40) | st.sampled_from(["\ud800", "😀" * 800, '"\\' * 1500, "[x](https://x.example)", "\x00"])
LINES = st.lists(WORDS, max_size=100).map("\n".join)


def check(card: Card) -> dict[str, Any]:
    """The card is valid, of elements that 1.4 knows, and Graph takes it."""
    found = json.loads(card.to_json())
    VALIDATOR.validate(found)
    assert found["version"] == "1.4"
    for element in found["body"]:
        assert element["type"] == "RichTextBlock"
        assert element["inlines"]
        assert all(run["type"] == "TextRun" and run["text"] for run in element["inlines"])
    new_draft(_draft(card).to_graph())
    return dict(found)


def texts(card: Card) -> list[str]:
    return ["".join(run["text"] for run in element["inlines"]) for element in json.loads(card.to_json())["body"]]


def test_the_schema_knows_what_is_wrong() -> None:
    good = json.loads(tool_activity("", "pytest", "running", "").to_json())
    VALIDATOR.validate(good)
    for wrong in ({"type": "RichTextBlock"}, {"type": "TextBlock"}, {"type": "Nothing"}):
        with pytest.raises(jsonschema.ValidationError):
            VALIDATOR.validate({**good, "body": [wrong]})


@settings(deadline=None, max_examples=40, phases=(Phase.explicit, Phase.generate))
@given(WORDS, WORDS, WORDS, WORDS, LINES)
def test_every_card_is_valid(title: str, status: str, detail: str, duration: str, lines: str) -> None:
    for make in (
        lambda: tool_activity("", title, status, detail),
        lambda: task_status("[EntraBot] ", title, status, detail, duration, lines),
        lambda: task_status("", title, status, detail, duration, json.dumps({title: lines, "n": [1, {"x": None}]})),
        lambda: build_result("", title, True, detail, lines, duration),
        lambda: build_result("", "", False, detail, lines, duration),
    ):
        try:
            card = make()
        except InvalidArgument:
            assert not tidy(title).strip() or not tidy(detail).strip()
            continue
        check(card)


def test_what_a_tool_does() -> None:
    card = tool_activity("", "pytest", "running", "tests/teams")
    assert texts(card) == ["pytest", "running", "tests/teams"]
    assert check(card)["body"][1]["inlines"][0]["color"] == "Accent"
    assert (card.trimmed, card.fallback) == ([], "pytest: running")


def test_how_a_task_goes() -> None:
    card = task_status(
        "", "Migration", "complete", "done", "3 min", "files: 12\nnothing else\n\nurl: https://x.example"
    )
    assert texts(card)[2:] == ["done", "Duration: 3 min", "files: 12", "Note: nothing else", "url: https://x.example"]
    card = task_status("", "Migration", "failed", "", "", '{"files": 12, "who": "Jane"}')
    assert texts(card)[2:] == ["files: 12", "who: Jane"]


def test_how_a_build_ended() -> None:
    card = build_result("", "", False, "2 of 90 failed", "E   assert 1 == 2\n\nE   boom", "40 s")
    shown = texts(card)
    assert shown == ["Build", "failed", "2 of 90 failed", "Duration: 40 s", "E   assert 1 == 2", " ", "E   boom"]
    assert check(card)["body"][1]["inlines"][0]["color"] == "Attention"
    assert card.trimmed == []


def test_a_long_log_keeps_both_ends_and_says_what_is_left_out() -> None:
    card = build_result("", "CI", True, "", "\n".join(f"line {number}" for number in range(1000)), "")
    check(card)
    shown = texts(card)[2:]
    (gap,) = (number for number, line in enumerate(shown) if "left out" in line)
    assert shown[0] == "line 0"
    assert shown[-1] == "line 999"
    assert shown[gap] == f"[… {1000 - (len(shown) - 1)} lines left out …]"
    assert gap < len(shown) - gap, "the end says more"
    assert card.trimmed == ["details_text"]


def test_long_lines_fill_no_more_than_allowed() -> None:
    card = build_result("", "CI", True, "", "\n".join("y" * 5000 for _ in range(50)), "")
    check(card)
    assert len(card.to_json().encode()) <= MAX_BYTES + 300
    assert "[… 3000 more characters]" in texts(card)[2]
    assert card.trimmed == ["details_text"]


def test_a_long_detail_says_so() -> None:
    card = tool_activity("", "t" * 400, "done", "é" * 2000)
    assert texts(card)[0].endswith("[… 100 more characters]")
    assert texts(card)[2].endswith("[… 1000 more characters]")
    assert card.trimmed == ["title", "detail"]


def test_too_many_values() -> None:
    card = task_status("", "T", "done", "", "", "\n".join(f"k{number}: v" for number in range(25)))
    assert texts(card)[-1] == "[… 5 more]"
    assert card.trimmed == ["extra"]


@pytest.mark.parametrize("title", ["", "  ", "\x00"])
def test_a_card_is_about_something(title: str) -> None:
    with pytest.raises(InvalidArgument, match="title is required"):
        tool_activity("", title, "done", "x")
    with pytest.raises(InvalidArgument, match="title is required"):
        task_status("", title, "done", "x", "", "")
    with pytest.raises(InvalidArgument, match="title or summary is required"):
        build_result("", title, True, "", "x", "")


# --- on the wire ----------------------------------------------------------------------------------------------------


@pytest.fixture
async def chat_id(sandbox: Sandbox) -> str:
    return str((await sandbox.create_chat("alice", ["agent"]))["id"])


@pytest.mark.parametrize("attribution", [Attribution.AGENT, Attribution.DELEGATED_HUMAN])
async def test_a_card_needs_no_prefix(
    host: PlainHost, sandbox: Sandbox, chat_id: str, attribution: Attribution
) -> None:
    host.identity.principal = principal(sandbox.environment, attribution)
    result = await Teams(host).cards.send_card("tool_activity", chat_id, "pytest")
    (message,) = await sandbox.messages(chat_id, sender="agent")
    (attachment,) = message["attachments"]
    card = json.loads(attachment["content"])
    VALIDATOR.validate(card)
    assert result == {"message_id": message["id"], "chat_id": chat_id, "sent_at": message["createdDateTime"]}
    assert attachment["contentType"] == CARD
    assert message["body"]["content"] == f'<attachment id="{attachment["id"]}"></attachment>'
    assert "EntraBot" not in json.dumps(card["body"])
    assert host.records.interactions[-1].action == "send_card"


async def test_a_card_that_landed_though_the_answer_was_lost(teams: Teams, sandbox: Sandbox, chat_id: str) -> None:
    await teams.cards.send_card("build_result", chat_id, summary="all green")
    await sandbox.fault("drop_after", method="POST", path="/v1.0/chats/*/messages", count=1)
    result = await teams.cards.send_card("build_result", chat_id, summary="all green")
    messages = await sandbox.messages(chat_id, sender="agent")
    assert len(messages) == 2
    assert result["message_id"] == messages[-1]["id"]


async def test_what_was_trimmed_is_said(teams: Teams, chat_id: str) -> None:
    result = await teams.cards.send_card("build_result", chat_id, summary="s" * 3000, details_text="x\n" * 500)
    assert result["trimmed"] == ["summary", "details_text"]
