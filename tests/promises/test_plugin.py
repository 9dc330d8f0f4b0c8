"""The plugin, served over the wire."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
from pydantic import Field

from entrabot_host import Hints, Host, Image, Outbound, Tool, ToolResult, hookimpl
from entrabot_host.testing.agent import ToolFailed

Serve = Callable[..., Any]
CHAT = "19:abc@thread.v2"


class talker:
    """A plugin that sends, to nobody."""

    __name__ = "talker"

    @staticmethod
    @hookimpl
    def register_tools(host: Host) -> Iterable[Tool]:
        async def send(
            text: Annotated[str, Field(description="What")], to: Annotated[str, Field(description="Where")]
        ) -> dict[str, Any]:
            """Send."""
            return {"sent": True, "_warnings": ["there before"]} if to == "warned" else {"sent": True}

        async def paint(
            text: Annotated[str, Field(description="What")], to: Annotated[str, Field(description="Where")]
        ) -> ToolResult:
            """Send a picture."""
            return ToolResult({"sent": True}, [Image(b"x", "image/png")])

        async def note(text: Annotated[str, Field(description="What")]) -> dict[str, Any]:
            """Write down."""
            return {"noted": True}

        hints = Hints(read_only=False, destructive=False, idempotent=False, open_world=False)
        outbound = Outbound(text="text", conversation="to")
        return [
            Tool(send, title="Send", hints=hints, outbound=outbound),
            Tool(paint, title="Paint", hints=hints, outbound=outbound),
            Tool(note, title="Note", hints=hints),
        ]


async def test_add_list_resolve(entrabot: Serve, entrabot_audit: Callable[[], list[dict[str, Any]]]) -> None:
    async with entrabot("promises") as agent:
        tomorrow = (datetime.now(UTC) + timedelta(days=1)).date().isoformat()
        late = await agent.call("add_promise", chat_id=CHAT, description="the plan")
        made = await agent.call("add_promise", chat_id=CHAT, description="the report", due_by=tomorrow)
        assert (made["status"], made["due_by"], made["overdue"]) == ("open", tomorrow, False)
        listed = await agent.call("list_promises")
        assert [promise["id"] for promise in listed] == [made["id"], late["id"]]
        assert set(listed[0]) >= {
            "id", "chat_id", "description", "created_at", "due_by", "status", "resolved_at", "resolution",
        }  # fmt: skip
        done = await agent.call("resolve_promise", promise_id=made["id"], resolution="sent it")
        assert (done["status"], done["resolution"]) == ("resolved", "sent it")
        assert done["resolved_at"]
        assert [promise["id"] for promise in await agent.call("list_promises")] == [late["id"]]
        assert len(await agent.call("list_promises", open_only=False)) == 2
        with pytest.raises(ToolFailed) as refused:
            await agent.call("resolve_promise", promise_id=made["id"], resolution="again")
        assert refused.value.error["resolution"] == "sent it"
    assert [(line["action"], line["resource"]) for line in entrabot_audit() if line["outcome"] == "success"] == [
        ("promise.add", CHAT),
        ("promise.add", CHAT),
        ("promise.resolve", made["id"]),
    ]


NONSENSE = [
    {"chat_id": " ", "description": "x"},
    {"chat_id": CHAT, "description": " "},
    {"chat_id": CHAT, "description": "x", "due_by": "soon"},
    {"chat_id": CHAT, "description": "x" * 3000},
]


async def test_nonsense_is_refused(entrabot: Serve) -> None:
    async with entrabot("promises") as agent:
        for arguments in NONSENSE:
            with pytest.raises(ToolFailed) as refused:
                await agent.call("add_promise", **arguments)
            assert refused.value.error["type"] == "InvalidArgument"
            assert refused.value.remedy
        assert await agent.call("list_promises", open_only=False) == []


async def test_an_unrecorded_commitment_is_pointed_out(entrabot: Serve) -> None:
    text = "The disk is full. I'll get back to you tomorrow."
    async with entrabot("promises", talker()) as agent:
        assert await agent.call("send", text="Done.", to=CHAT) == {"sent": True}
        assert await agent.call("note", text=text) == {"noted": True}
        warned = await agent.call("send", text=text, to=CHAT)
        (warning,) = warned["_warnings"]
        assert "I'll get back to you tomorrow." in warning
        assert "add_promise" in warning
        assert (await agent.call("send", text=text, to="warned"))["_warnings"] == ["there before", warning]
        picture = await agent.client.call_tool("paint", {"text": text, "to": CHAT})
        assert json.loads(picture.content[0].text)["_warnings"] == [warning]
        assert picture.content[1].type == "image"
        await agent.call("add_promise", chat_id=CHAT, description="the cause")
        assert await agent.call("send", text=text, to=CHAT) == {"sent": True}
        assert "_warnings" in await agent.call("send", text=text, to="19:other@thread.v2")


async def test_one_address_in_common_is_the_same_conversation(entrabot: Serve) -> None:
    async with entrabot("promises", talker()) as agent:
        await agent.call("add_promise", chat_id="bob@contoso.example", description="the cause")
        to = "Alice <alice@contoso.example>, Bob <Bob@contoso.example>"
        assert await agent.call("send", text="I'll report back.", to=to) == {"sent": True}
        assert await agent.call("send", text="I'll report back.", to="") == {"sent": True}, "may be any of them"


async def test_an_old_promise_covers_nothing_new(entrabot: Serve, tmp_path: Path) -> None:
    old = {"id": "a", "created_at": "2020-01-01T00:00:00Z", "chat_id": CHAT, "description": "d", "due_by": "2020-02-01"}
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "promises.jsonl").write_text(json.dumps(old) + "\n", encoding="utf-8")
    async with entrabot("promises", talker()) as agent:
        assert "_warnings" in await agent.call("send", text="I'll report back.", to=CHAT)
        (promise,) = await agent.call("list_promises")
        assert promise["overdue"]


async def test_it_can_be_switched_off(entrabot: Serve) -> None:
    async with entrabot("promises", talker(), settings={"ENTRABOT_PROMISES_WARN": "off"}) as agent:
        assert await agent.call("send", text="I'll report back.", to=CHAT) == {"sent": True}


async def test_a_store_that_fails_does_not_touch_the_send(entrabot: Serve, tmp_path: Path) -> None:
    async with entrabot("promises", talker()) as agent:
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data" / "promises.jsonl").symlink_to(tmp_path / "elsewhere")
        assert await agent.call("send", text="I'll report back.", to=CHAT) == {"sent": True}
        with pytest.raises(ToolFailed, match="symbolic link"):
            await agent.call("list_promises")


async def test_the_sandbox_and_teams_together(entrabot: Serve, entrabot_tenant: Any) -> None:
    await entrabot_tenant.reset()
    said = await entrabot_tenant.say("alice", "Why is it slow?")
    await entrabot_tenant.control("DELETE", "/requests")
    async with entrabot("promises", "teams", tenant=entrabot_tenant) as agent:
        chat = said["chatId"]
        sent = await agent.call("send_teams_message", message="<p>I'll look into it.</p>", chat_id=chat)
        assert len(sent["_warnings"]) == 1
        await agent.call("add_promise", chat_id=chat, description="why it is slow")
        sent = await agent.call("send_teams_message", message="<p>I'll look into it.</p>", chat_id=chat)
        assert "_warnings" not in sent
        async with asyncio.timeout(20):
            while not await looks(entrabot_tenant) >= 2:  # one for news and one for new chats, then it rests
                await asyncio.sleep(0.05)


async def looks(tenant: Any) -> int:
    """How often chats were looked at."""
    counts = (await tenant.control("GET", "/requests", params={"since": 2**60}))["counts"]
    return int(counts.get("GET /v1.0/me/chats", 0))


async def test_state_and_health() -> None:
    from entrabot_promises import plugin
    from entrabot_promises.domain import Promises
    from entrabot_promises.log import Log, Promise
    from entrabot_promises.settings import PromisesSettings

    now = datetime.now(UTC)
    tomorrow = (now + timedelta(days=1)).date().isoformat()
    content = b"".join(
        Promise(id=key, created_at="", chat_id="c", description="d", due_by=due).line() + b"\n"
        for key, due in (("a", "2020-01-01"), ("b", tomorrow), ("c", ""), ("d", "9999-01-01"))
    )
    log = Log.parse(content + b"torn")

    host = SimpleNamespace(
        store=SimpleNamespace(own=lambda key: None),
        settings=SimpleNamespace(load=lambda model: PromisesSettings()),
        log=None,
    )
    promises = Promises(host)  # type: ignore[arg-type]

    async def stored() -> Log:
        return log

    promises.book.log = stored  # type: ignore[method-assign]
    host.shared = lambda make: promises
    state = await plugin.body_state(host)["promises"]()  # type: ignore[arg-type]
    assert (state["open"], state["overdue"], state["next_due"]["id"]) == (4, 1, "b")
    (check,) = plugin.health_checks(host)  # type: ignore[arg-type]
    health = await check.run()
    assert (health.ok, health.summary) == (False, "4 open; 1 lines of promises.jsonl make no sense")


def test_loading_it_stays_light() -> None:
    script = """
import sys
import entrabot_promises.plugin
print([name for name in ("httpx", "msal", "mcp", "azure", "justhtml") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
