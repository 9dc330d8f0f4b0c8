"""The real server as a process: uploads that its end interrupts, and a server with chats and files only."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from entrabot_host.testing.agent import Agent
from entrabot_host.testing.process import launched
from entrabot_host.testing.tenant import Tenant
from tests.files.parts import People, opened, upload

CONTENT = os.urandom(1000) * 12_000


@pytest.fixture
def environment(tenant: Tenant, tmp_path: Path) -> dict[str, str]:
    folders = {f"ENTRABOT_{name.upper()}_DIR": str(tmp_path / name) for name in ("data", "log", "audit")}
    return {**tenant.environment, **folders, "PATH": os.environ["PATH"], "ENTRABOT_TEAMS_POLL_SECONDS": "2"}


def server() -> psutil.Process:
    """The one child that is a server."""
    return next(child for child in psutil.Process().children() if "entrabot_host.main" in " ".join(child.cmdline()))


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(30):
        while not await condition():
            await asyncio.sleep(0.02)


async def test_a_killed_server_leaves_nothing_half_visible(people: People, environment: dict[str, str]) -> None:
    await people.fault("latency", method="PUT", path="/transfers/upload", after=1, seconds=3)

    async def under_way() -> bool:
        return any(one["received"] for one in (await people.drives())["uploads"])

    async with launched(environment, arguments=("--plugins", "files")) as agent:
        calling = asyncio.create_task(upload(agent, CONTENT))
        await until(under_way)
        server().kill()
        await asyncio.gather(calling, return_exceptions=True)
    assert (await people.drive("agent-onedrive"))["paths"] == []
    await people.tenant.control("DELETE", "/faults")
    async with launched(environment, arguments=("--plugins", "files")) as agent:
        assert (await upload(agent, CONTENT))["size_bytes"] == len(CONTENT)
    assert await people.content("agent-onedrive", "/a.bin") == CONTENT


async def test_chats_and_files_only(people: People, environment: dict[str, str]) -> None:
    """Resolve, read, write, upload and share on a sponsor's word; nothing on offer speaks of anything else."""
    item = await people.put("marketing", "/Plan.docx", docx="Buy more tea")
    group = await people.tenant.create_group("alice", ["agent", "bob"], "Tea")
    async with launched(environment, arguments=("--plugins", "teams,files")) as agent:
        listed = (await agent.client.list_tools()).tools
        words = json.dumps([tool.model_dump(mode="json") for tool in listed])
        for other in ("mailbox", "promise", "Work IQ", "read_email", "add_word_comment"):
            assert other not in words
        await agent.call("whoami")
        await people.tenant.say(
            "alice", "Read the plan, sum it up in a file, and share that with Carol.", chat=group["id"]
        )
        push = await agent.next_push()
        assert push.meta["sponsor"] == "yes"
        found = await agent.call("resolve_file_url", url=item["webUrl"])
        read = await agent.call("read_file", drive_id=found["drive_id"], item_id=found["item_id"], name="Plan.docx")
        assert opened(read["text"]).strip() == "Buy more tea"
        made = await agent.call("write_text_file", target_type="onedrive", file_name="Sum.md", content="Tea")
        await upload(agent, CONTENT, "Picture.bin")
        shared = await shared_with(agent, "carol@fabrikam.example", {**made, "chat_id": group["id"]})
    assert shared["shared"]
    permissions = (await people.show("agent-onedrive", "/Sum.md"))["permissions"]
    assert [one["invitation"]["email"] for one in permissions] == ["carol@fabrikam.example"]


async def shared_with(agent: Agent, address: str, made: dict[str, Any]) -> dict[str, Any]:
    wish = {name: made[name] for name in ("drive_id", "item_id", "name", "chat_id")}
    found: dict[str, Any] = {}

    async def heard() -> bool:
        result = await agent.client.call_tool(
            "share_file", {**wish, "recipient_email": address, "requester_email": "alice@contoso.example"}
        )
        data = json.loads(result.content[0].text)
        assert data.get("error", {}).get("type") in (None, "NoActiveSponsorChannelError"), data
        found.update(data)
        return not result.is_error

    await until(heard)
    return found
