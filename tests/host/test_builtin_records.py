"""`read_interactions`, `bootstrap_body_state` and the retention of records, through a server."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
from pydantic import Field

from entrabot_host import Direction, Interaction, Tool, hookimpl
from entrabot_host.testing.agent import ToolFailed
from tests.host.plugin_parts import WRITING

pytestmark = pytest.mark.anyio
Text = Annotated[str, Field(description="Text")]
Flag = Annotated[bool, Field(description="Flag")]


def talker(**hooks: Any) -> SimpleNamespace:
    """A plugin that writes interactions, and has sections of its own."""

    def register_tools(host: Any) -> list[Tool]:
        async def note(sender: Text, text: Text, chat: Text, outbound: Flag) -> dict[str, Any]:
            """Note."""
            shown = {"recipient": chat, "action": "send"} if outbound else {"metadata": {"chat_id": chat}}
            direction = Direction.OUTBOUND if outbound else Direction.INBOUND
            await host.records.interaction(
                Interaction(channel="teams_dm", direction=direction, sender=sender, summary=text, **shown)
            )
            return {}

        return [Tool(note, title="Note", hints=WRITING, external=())]

    async def owed() -> dict[str, int]:
        return {"open": 2}

    async def broken() -> dict[str, int]:
        raise RuntimeError("a bug")

    defaults = {"register_tools": register_tools, "body_state": lambda host: {"promises": owed, "broken": broken}}
    return SimpleNamespace(__name__="talker", **{name: hookimpl(hook) for name, hook in {**defaults, **hooks}.items()})


async def test_interactions_are_read_newest_first_and_outside_text_is_in_the_envelope(entrabot: Any) -> None:
    async with entrabot(talker()) as agent:
        for number in range(4):
            await agent.call("note", sender="Ann", text=f"text {number}", chat=f"19:{number % 2}", outbound=number == 3)
        read = await agent.call("read_interactions")
        texts = [one["summary"] for one in read["interactions"]]
        assert [text.splitlines()[1] for text in texts] == ["text 3", "text 2", "text 1", "text 0"]
        assert all(text.startswith("<external-content-envelope") for text in texts)
        assert read["more"] is False
        newest = read["interactions"][0]
        assert (newest["direction"], newest["recipient"], newest["action"]) == ("outbound", "19:1", "send")
        assert read["interactions"][1]["chat_id"] == "19:0"
        some = await agent.call("read_interactions", chat_id="19:1", limit=1)
        assert (len(some["interactions"]), some["more"]) == (1, True)
        assert (await agent.call("read_interactions", sender="nobody"))["interactions"] == []
        future = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
        assert (await agent.call("read_interactions", since=future))["interactions"] == []


async def test_the_reach_is_seven_days_and_wrong_arguments_are_told(entrabot: Any) -> None:
    async with entrabot(talker()) as agent:
        read = await agent.call("read_interactions", since="2020-01-01")
        age = datetime.now(UTC) - datetime.fromisoformat(read["since"])
        assert timedelta(days=6, hours=23) < age < timedelta(days=7, minutes=5)
        for wrong in ({"since": "yesterday"}, {"direction": "sideways"}, {"limit": 0}, {"limit": 101}):
            with pytest.raises(ToolFailed, match=next(iter(wrong))):
                await agent.call("read_interactions", **wrong)


async def test_the_body_state_is_an_index_of_all_sections(entrabot: Any) -> None:
    async with entrabot(talker()) as agent:
        for number in range(5):
            await agent.call("note", sender="Ann", text="secret words", chat=f"19:{number % 2}", outbound=number == 3)
        state = await agent.call("bootstrap_body_state")
        today = state["today"]
        assert (today["inbound"], today["outbound"], today["by_channel"]) == (4, 1, {"teams_dm": 5})
        assert [(chat["chat_id"], chat["count"]) for chat in today["top_chats"]] == [("19:0", 3), ("19:1", 2)]
        assert state["promises"] == {"open": 2}
        assert state["broken"]["error"]["type"] == "InternalError"
        assert state["unseen"]["count"] == 0
        assert state["polling"] == []
        assert "secret words" not in json.dumps(state)


async def test_sections_of_the_host_are_reserved(entrabot: Any) -> None:
    async def mine() -> dict[str, int]:
        return {}

    with pytest.raises(Exception, match="today"):
        async with entrabot(talker(body_state=lambda host: {"today": mine})):
            pass


async def test_with_teams_the_watched_chats_and_cursors_are_there(entrabot: Any, entrabot_tenant: Any) -> None:
    await entrabot_tenant.reset()
    async with entrabot("teams", tenant=entrabot_tenant) as agent:
        await agent.call("whoami")
        said = await entrabot_tenant.say("alice", "Good morning")
        async with asyncio.timeout(30):
            while not (state := await agent.call("bootstrap_body_state"))["today"]["inbound"]:
                await asyncio.sleep(0.1)
        (chat,) = state["today"]["top_chats"]
        assert chat["chat_id"] == said["chatId"]
        assert chat["cursor"]["read_to"]
        assert chat["cursor"]["seconds_ago"] >= 0
        assert state["teams"]["watched_chats"] >= 1
        assert "teams-poll" in [task["name"] for task in state["polling"]]


@pytest.fixture
def old_files(tmp_path: Path) -> list[Path]:
    """Files of the last twenty days, in the folders that the kit uses."""
    today = datetime.now(UTC).date()
    paths = []
    for folder in (tmp_path / "audit", tmp_path / "data" / "interactions"):
        folder.mkdir(parents=True)
        for back in range(20):
            path = folder / f"{today - timedelta(days=back):%Y-%m-%d}.jsonl"
            path.write_text("{}\n", encoding="utf-8")
            paths.append(path)
    return paths


@pytest.mark.parametrize("kept", ["", "7"])
async def test_records_are_kept_as_long_as_the_settings_say(
    entrabot: Any, entrabot_tenant: Any, entrabot_audit: Any, old_files: list[Path], kept: str
) -> None:
    names = ("ENTRABOT_AUDIT_RETENTION_DAYS", "ENTRABOT_INTERACTIONS_RETENTION_DAYS")
    async with entrabot(tenant=entrabot_tenant, settings=dict.fromkeys(names, kept)) as agent:
        await agent.call("whoami")
        if kept:
            async with asyncio.timeout(30):
                while sum(path.exists() for path in old_files) > 16:
                    await asyncio.sleep(0.05)
    left = [path.exists() for path in old_files]
    assert left == ([True] * 8 + [False] * 12) * 2 if kept else all(left)
    if kept:
        lines = [line for line in entrabot_audit() if line.get("action") == "records.delete_old"]
        assert [line["outcome"] for line in lines[:2]] == ["pending", "success"]
        assert lines[1]["metadata"]["files"] == 12


async def test_a_retention_below_a_week_is_refused(entrabot: Any) -> None:
    with pytest.raises(Exception, match="ENTRABOT_AUDIT_RETENTION_DAYS"):
        async with entrabot(settings={"ENTRABOT_AUDIT_RETENTION_DAYS": "3"}):
            pass
