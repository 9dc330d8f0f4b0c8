"""Comments: refused before any call where Microsoft is known to refuse."""

from __future__ import annotations

from typing import Any

import pytest

from entrabot_host.testing.agent import Agent
from tests.files.parts import People, ids, refused


@pytest.mark.parametrize(
    "change",
    [
        {"name": "a.pptx"},
        {"name": "a"},
        {"kind": "onedrive_business"},
        {"kind": "onedrive_personal"},
        {"mime_type": ""},
    ],
)
async def test_what_is_said_to_be_unsuitable_is_refused_before_any_call(
    agent: Agent, people: People, change: dict[str, Any]
) -> None:
    said = {"drive_id": "b!x", "item_id": "1", "name": "a.docx", "content": "Nice"} | change
    async with refused("UnsupportedCommentFormatError"):
        await agent.call("add_file_comment", **said)
    assert not await people.requests("/drives/b!x")


async def test_what_is_unsuitable_is_refused_whatever_is_said(agent: Agent, people: People) -> None:
    own = await people.put("agent-onedrive", "/a.docx", docx="x")
    text = await people.put("marketing", "/a.txt", text="x")
    folder = await people.put("marketing", "/b.docx", folder=True)
    for item in (own, text, folder):
        async with refused("UnsupportedCommentFormatError"):
            await agent.call("add_file_comment", content="Nice", **{**ids(item), "name": "a.docx"})
    assert not await people.requests("/comments")


async def test_a_comment_where_microsoft_has_none_and_where_it_has(
    agent: Agent, people: People, entrabot_audit: Any
) -> None:
    item = await people.put("marketing", "/a.docx", docx="x")
    async with refused("FileNotFoundError") as error:
        await agent.call("add_file_comment", content="Nice", **ids(item))
    assert "Word" in error["remedy"]
    await people.tenant.control("PATCH", "/drives/marketing", json={"comments": True})
    made = await agent.call("add_file_comment", content="Nice", **ids(item))
    assert made["comment_id"]
    assert [line["outcome"] for line in entrabot_audit()] == ["pending", "failure", "pending", "success"]
    assert entrabot_audit()[0]["action"] == "files.comment"
    async with refused("InvalidArgument"):
        await agent.call("add_file_comment", content="  ", **ids(item))
