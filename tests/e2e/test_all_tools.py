"""Every tool: its documented signature, its main form and its main failure, over stdio against the sandbox tenant."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from entrabot_sandbox.client import Sandbox

from entrabot_host.security.envelope import MARKER
from tests.e2e.wire import Json, Server, served, until

DOCUMENTED: dict[str, list[Json]] = json.loads(
    (Path(__file__).parents[1] / "data" / "tools.json").read_text(encoding="utf-8")
)
"""The tools' parameters in order, without the injected context; a parameter without a default is required."""
TYPES = {"str": ["string"], "int": ["integer"], "bool": ["boolean"], "list[dict] | None": ["array", "null"]}
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def types(schema: Json) -> list[str]:
    """Name the JSON types that a parameter may have."""
    if "anyOf" in schema:
        return [kind for choice in schema["anyOf"] for kind in types(choice)]
    return [schema["type"]]


# --- signatures -------------------------------------------------------------------------------------------------------


async def test_names_parameters_order_types_and_defaults(bare: dict[str, str]) -> None:
    async with served(bare) as server:
        tools = await server.tools()
    assert set(DOCUMENTED) <= set(tools)
    assert len(DOCUMENTED) == 37
    for name, parameters in DOCUMENTED.items():
        schema = tools[name]["inputSchema"]
        shown = list(schema["properties"].items())
        assert [key for key, _ in shown[: len(parameters)]] == [one["name"] for one in parameters], name
        required = [one["name"] for one in parameters if "default" not in one]
        assert schema.get("required", []) == required, f"{name}: further parameters are optional"
        for one, (_, field) in zip(parameters, shown, strict=False):
            assert types(field) == TYPES[one["type"]], (name, one["name"])
            assert field.get("default", ...) == one.get("default", ...), (name, one["name"])
            assert field["description"], (name, one["name"])
        assert set(tools[name]["annotations"]) >= {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
        assert "outputSchema" not in tools[name]


# --- main forms -------------------------------------------------------------------------------------------------------


class Story:
    """A session in which every tool is used as it is meant to be. ``used`` are the tools that answered."""

    def __init__(self, server: Server, sandbox: Sandbox) -> None:
        self.server = server
        self.sandbox = sandbox
        self.used: set[str] = set()

    async def call(self, tool: str, **arguments: Any) -> Any:
        answer = await self.server.call(tool, **arguments)
        self.used.add(tool)
        return answer

    async def host(self) -> None:
        me = await self.call("whoami")
        assert me["identity"]["attribution"] == "agent"
        assert me["permissions"]["not_in_the_users_token"] == {}
        assert (await self.call("audit_log", action="build.run", resource="entrabot"))["recorded"] is True
        assert "today" in await self.call("bootstrap_body_state")

    async def teams(self) -> str:
        chat = str((await self.call("create_chat", target_email="alice@contoso.example"))["chat_id"])
        sent = await self.call("send_teams_message", message="<p>Good morning.</p>", chat_id=chat)
        seen = await self.sandbox.wait_for_message(chat, sender="agent")
        assert seen["id"] == sent["message_id"]
        await self.call("delete_teams_message", message_id=sent["message_id"], chat_id=chat)
        placeholder = (await self.call("post_thinking_placeholder", chat_id=chat))["placeholder_id"]
        await self.call("update_placeholder", chat_id=chat, placeholder_id=placeholder, progress_text="reading")
        await self.call("resolve_placeholder", chat_id=chat, placeholder_id=placeholder, final_message="Done.")
        await self.call("send_card", card_type="tool_activity", chat_id=chat, title="Build")
        members = (await self.call("list_chat_members", chat_id=chat))["members"]
        assert {member["user_id"] for member in members} == {
            self.sandbox.people[key]["id"] for key in ("agent", "alice")
        }
        await self.waiting(chat)
        image = await self.sandbox.say("alice", html="<p>Look:</p>", chat=chat, image=PIXEL)
        address = image["body"]["content"].split('src="')[1].split('"')[0]
        shown = await self.server.call_raw("view_image", url=address)
        self.used.add("view_image")
        assert base64.b64decode(next(part["data"] for part in shown["content"] if part["type"] == "image")) == PIXEL
        return chat

    async def waiting(self, chat: str) -> None:
        watching = asyncio.create_task(self.call("watch_teams_replies", chat_id=chat, timeout=20, interval=1))
        await asyncio.sleep(0)
        await self.sandbox.say("alice", "first", chat=chat)
        assert any("first" in one["content"] for one in (await watching)["messages"])
        read = (await self.call("read_teams_messages", chat_id=chat, count=3))["messages"]
        assert any("first" in one["content"] for one in read)
        asking = asyncio.create_task(self.call("wait_for_sponsor_dm", timeout_seconds=20))
        await asyncio.sleep(0)
        await self.sandbox.say("alice", "second", chat=chat)
        assert "second" in json.dumps(await asking)

    async def group(self) -> str:
        """A sponsor's word in a group, on which a colleague is added to it."""
        group = str((await self.sandbox.create_chat("alice", ["agent"], topic="Release", type="group"))["id"])
        await self.sandbox.say("alice", "Please add Bob.", chat=group)
        await self.pushed("Please add Bob.")
        await self.call(
            "add_teams_member", email="bob@contoso.example", chat_id=group, requester_email="alice@contoso.example"
        )
        members = (await self.call("list_chat_members", chat_id=group))["members"]
        assert self.sandbox.people["bob"]["id"] in {member["user_id"] for member in members}
        return group

    async def pushed(self, text: str) -> None:
        async def next_one() -> bool:
            return text in (await self.server.next_push())["content"]

        await until(next_one, f"a push with {text!r}")

    async def mail(self) -> None:
        sent = await self.call("send_email", to="alice@contoso.example", subject="Report", body="<p>All green.</p>")
        assert sent
        letter = {"as": "bob", "subject": "Question", "text": "Is it green?"}
        arrived = await self.sandbox.call("POST", "/mail", letter)
        read = await self.call("read_email", message_id=arrived["id"])
        assert read["body"].count(MARKER) == 2
        assert {"needs_you", "handled", "heads_up"} <= set(await self.call("run_daily_summary", send=False))

    async def files(self, group: str) -> None:
        """Find, read, write and upload; comment on a file of a team's site; share on the sponsor's word."""
        written = await self.call("write_text_file", target_type="onedrive", file_name="notes.md", content="# Notes")
        handle = {"drive_id": written["drive_id"], "item_id": written["item_id"], "name": "notes.md"}
        assert "# Notes" in (await self.call("read_file", **handle))["text"]
        content = base64.b64encode(PIXEL).decode()
        await self.call("upload_file", target_type="onedrive", file_name="dot.png", content_base64=content)
        await self.call(
            "share_file",
            **handle,
            recipient_email="bob@contoso.example",
            requester_email="alice@contoso.example",
            chat_id=group,
        )
        document = await self.sandbox.create_document("alice", "Plan.docx", text="The plan.", share_with=["agent"])
        found = await self.call("resolve_file_url", url=document["web_url"])
        assert (found["drive_id"], found["item_id"]) == (document["drive_id"], document["item_id"])
        assert "files" in await self.call("list_recent_files")
        kept = {key: found[key] for key in ("drive_id", "item_id", "kind", "site_id")}
        await self.sandbox.call("PATCH", "/drives/marketing", {"comments": True})
        assert await self.call("add_file_comment", **kept, name="Plan.docx", content="Read it.")

    async def word(self) -> None:
        """Documents, comments and small files by way of Work IQ."""
        document = await self.sandbox.create_document("alice", "Draft.docx", text="A draft.", share_with=["agent"])
        comment = await self.sandbox.comment("alice", document, "Is this right?")
        read = await self.call("read_word_document", url=document["url"])
        assert "A draft." in read["content_html"]
        place = {"drive_id": document["drive_id"], "document_id": document["item_id"]}
        await self.call("reply_to_word_comment", **place, comment_id=comment["id"], content="It is.")
        (thread,) = await self.sandbox.comments(document)
        assert [reply["text"] for reply in thread["replies"]] == ["It is."]
        await self.call("add_word_comment", **place, content="One more thing.")
        assert len(await self.sandbox.comments(document)) == 2
        await self.call("create_word_document", file_name="New.docx", content_html="<p>Text</p>")
        found = await self.call("get_a365_file_metadata_by_url", url=document["web_url"])
        assert found["item_id"] == document["item_id"]
        notes = await self.call("write_text_file", target_type="onedrive", file_name="small.txt", content="small")
        ids = {"document_library_id": notes["drive_id"], "file_id": notes["item_id"]}
        assert "small" in (await self.call("read_a365_text_file", **ids))["content"]
        binary = await self.call("read_a365_binary_file", **ids)
        assert base64.b64decode(binary["content"]) == b"small"

    async def promises(self, chat: str) -> None:
        made = await self.call("add_promise", chat_id=chat, description="report when the build is done")
        assert made["id"] in {one["id"] for one in await self.call("list_promises")}
        await self.call("resolve_promise", promise_id=made["id"], resolution="told them")
        assert (await self.call("read_interactions", direction="inbound"))["interactions"]


async def test_every_tool_in_its_main_form(sandbox: Sandbox, environment: dict[str, str]) -> None:
    async with served({**environment, "ENTRABOT_PUSH": "on"}) as server:
        story = Story(server, sandbox)
        await story.host()
        chat = await story.teams()
        await story.files(await story.group())
        await story.word()
        await story.mail()
        await story.promises(chat)
    assert sorted(set(DOCUMENTED) - story.used) == []


# --- main failures ----------------------------------------------------------------------------------------------------

GONE = "19:00000000000000000000000000000000@thread.v2"
FILE = {"drive_id": "none", "item_id": "none"}
WORD = {"drive_id": "none", "document_id": "none"}
LIBRARY = {"document_library_id": "none", "file_id": "none"}
FAILURES: dict[str, tuple[Json, str]] = {
    "send_teams_message": ({"message": "x", "chat_id": GONE}, "GraphNotFound"),
    "post_thinking_placeholder": ({"chat_id": GONE}, "GraphNotFound"),
    "update_placeholder": ({"chat_id": GONE, "placeholder_id": "1", "progress_text": ""}, "InvalidArgument"),
    "resolve_placeholder": ({"chat_id": GONE, "placeholder_id": "1", "final_message": "x"}, "GraphNotFound"),
    "delete_teams_message": ({"message_id": "1", "chat_id": GONE}, "GraphNotFound"),
    "send_card": ({"card_type": "party", "chat_id": GONE}, "InvalidArgument"),
    "list_chat_members": ({"chat_id": GONE}, "GraphNotFound"),
    "add_teams_member": (
        {"email": "bob@contoso.example", "chat_id": GONE, "requester_email": "mallory@fabrikam.example"},
        "RequesterNotSponsorError",
    ),
    "create_chat": ({"target_email": "nobody@contoso.example"}, "GraphNotFound"),
    "read_teams_messages": ({"chat_id": GONE}, "GraphNotFound"),
    "watch_teams_replies": ({"chat_id": GONE, "timeout": 1}, "GraphNotFound"),
    "wait_for_sponsor_dm": ({"timeout_seconds": -1}, "InvalidArgument"),
    "view_image": ({"url": "https://elsewhere.example/x.png"}, "InvalidArgument"),
    "send_email": ({"to": "nobody", "subject": "s", "body": "b"}, "InvalidArgument"),
    "read_email": ({"message_id": "none"}, "GraphError"),
    "run_daily_summary": ({"day": "yesterday"}, "InvalidArgument"),
    "resolve_file_url": ({"url": "not an address"}, "UrlNotResolvableError"),
    "list_recent_files": ({"limit": 0}, "InvalidArgument"),
    "read_file": ({**FILE, "name": "x.md"}, "FileNotFoundError"),
    "add_file_comment": ({**FILE, "name": "x.pptx", "content": "x"}, "UnsupportedCommentFormatError"),
    "write_text_file": ({"target_type": "dropbox", "file_name": "x.md", "content": "x"}, "InvalidArgument"),
    "upload_file": ({"target_type": "onedrive", "file_name": "x", "content_base64": "%%%"}, "InvalidArgument"),
    "share_file": (
        {
            **FILE,
            "name": "x",
            "recipient_email": "bob@contoso.example",
            "requester_email": "bob@contoso.example",
            "chat_id": GONE,
        },
        "RequesterNotSponsorError",
    ),
    "read_word_document": ({"url": "not an address"}, "InvalidArgument"),
    "create_word_document": ({"file_name": "a/b.docx", "content_html": "x"}, "InvalidArgument"),
    "add_word_comment": ({**WORD, "content": "x"}, "A365CallError"),
    "reply_to_word_comment": ({**WORD, "comment_id": "1", "content": "x"}, "A365CallError"),
    "get_a365_file_metadata_by_url": ({"url": "not an address"}, "InvalidArgument"),
    "read_a365_text_file": (LIBRARY, "A365CallError"),
    "read_a365_binary_file": (LIBRARY, "A365CallError"),
    "add_promise": ({"chat_id": GONE, "description": "x", "due_by": "soon"}, "InvalidArgument"),
    "list_promises": ({"open_only": "perhaps"}, "InvalidArgument"),
    "resolve_promise": ({"promise_id": "none", "resolution": "x"}, "EntrabotError"),
    "whoami": ({"more": 1}, "InvalidArgument"),
    "audit_log": ({"action": "x", "resource": "y", "metadata": "[]"}, "InvalidArgument"),
    "read_interactions": ({"since": "yesterday"}, "InvalidArgument"),
    "bootstrap_body_state": ({"more": 1}, "InvalidArgument"),
}


@pytest.fixture(scope="module")
async def server(running: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """One server for all failures: none of them may disturb the next."""
    folder = tmp_path_factory.mktemp("failures")
    folders = {f"ENTRABOT_{name}_DIR": str(folder / name) for name in ("DATA", "LOG", "AUDIT")}
    async with served({**running.environment, "PATH": os.environ["PATH"], "HOME": str(folder), **folders}) as server:
        yield server


@pytest.mark.parametrize("tool", DOCUMENTED)
async def test_every_tool_in_its_main_failure(server: Server, sandbox: Sandbox, tool: str) -> None:
    arguments, expected = FAILURES[tool]
    error = await server.failing(tool, **arguments)
    assert error["type"] == expected
    assert error["message"].endswith(".")
    assert error["remedy"], "an error says what to do"
