"""A person's own chats, three thousand of them: only those that were asked for are heard, at the cost of those."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from entrabot_sandbox.client import Sandbox

from tests.e2e.cases import Json, fresh, installation, reads, taken, words
from tests.e2e.wire import served, until

CHATS = 3_000
_AT_ONCE = 8
_AGENTS_OWN = ("ENTRABOT_BLUEPRINT_APP_ID", "ENTRABOT_AGENT_ID", "ENTRABOT_AGENT_OBJECT_ID", "ENTRABOT_AGENT_USER_ID")
_BATCH = "POST /v1.0/$batch"
_LIST = "GET /v1.0/me/chats"


@pytest.fixture(scope="module")
async def crowd(running: Sandbox) -> list[str]:
    """Alice's chats with bob; every one has a message."""
    sandbox = await fresh(running)
    await sandbox.settings(device_interval=1)
    gate, chats = asyncio.Semaphore(_AT_ONCE), []

    async def found(number: int) -> None:
        async with gate:
            chat = await sandbox.create_chat("bob", ["alice"], topic=f"Chat {number}", type="group")
            chats.append(str(chat["id"]))

    await asyncio.gather(*(found(number) for number in range(CHATS)))
    return chats


async def _log_in(sandbox: Sandbox, settings: dict[str, str]) -> None:
    """Let alice sign in with a code, as she would on a machine without a browser."""
    pipes: dict[str, Any] = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.PIPE}
    command = (sys.executable, "-m", "entrabot_host.cli.main", "login", "--device-code", "--json")
    process = await asyncio.create_subprocess_exec(*command, env=settings, **pipes)
    async with asyncio.timeout(40):
        assert process.stdout
        asked = json.loads(await process.stdout.readline())
        await sandbox.enter_code(asked["sign_in"]["code"], "alice")
        _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
async def test_only_watched_chats_are_heard(running: Sandbox, crowd: list[str], tmp_path: Path, ordered: bool) -> None:
    await running.settings(ordering_taken=ordered)
    watched, others = (crowd[10], crowd[-1]), (crowd[0], crowd[1_500])
    whole = installation(
        running,
        tmp_path,
        ENTRABOT_CLIENT_ID=running.delegated["client_id"],
        ENTRABOT_HEADLESS="true",
        ENTRABOT_HUMAN_USER_IDS=str(running.people["alice"]["id"]),
        ENTRABOT_PUSH="on",
    )
    settings = {name: value for name, value in whole.items() if name not in _AGENTS_OWN}
    await _log_in(running, settings)
    async with served(settings) as server:
        for chat in watched:
            await server.call("watch_teams_replies", chat_id=chat, timeout=0)
        before = await running.counts()
        chats: list[Json] = []
        for chat in (*others, *watched):
            chats.append(await running.say("bob", f"bob in {chat}", chat=chat))
            chats.append(await running.say("alice", f"alice in {chat}", chat=chat))
        pushes = [await server.next_push() for _ in range(4)]
        assert {words(push): push["meta"]["sponsor"] for push in pushes} == {
            f"{person} in {chat}": "yes" if person == "alice" else "no"
            for chat in watched
            for person in ("alice", "bob")
        }
        sent = await server.call("send_teams_message", message="Noted.", chat_id=watched[0])
        assert "[EntraBot]" in (await running.messages(watched[0]))[-1]["body"]["content"]
        look = _LIST if ordered else _BATCH
        begun = (await running.counts()).get(look, 0)

        async def looked() -> bool:
            return (await running.counts()).get(look, 0) >= begun + 4

        await until(looked, "four more looks")
        assert taken(server) == []
        again = await running.say("alice", "and this", chat=watched[0])
        push = await server.next_push()
        assert (push["meta"]["message_id"], push["meta"]["sponsor"]) == (again["id"], "yes")
        assert again["id"] != sent["message_id"]

        after = await running.counts()
        assert [await reads(running, chat) for chat in others] == [0, 0]
        assert all([await reads(running, chat) for chat in watched])
        looks = after.get(look, 0) - before.get(look, 0)
        listed = after.get(_LIST, 0) - before.get(_LIST, 0)
        assert listed <= (looks if ordered else 2), "three thousand chats are listed"
