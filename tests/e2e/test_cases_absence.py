"""Nobody was there: a laptop asleep overnight, which all its processes sleep through."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from entrabot_sandbox.client import Sandbox

from entrabot_host.delivery.sleep import STALL_SECONDS
from tests.e2e import swarm
from tests.e2e.cases import ASKING, Json, fresh, frozen, installation, taken, words
from tests.e2e.wire import Server, served

_HOURS = 8
_ALICE = "alice@contoso.example"
_A_DAY = "86400"
"""For so long a binding may live: when it is gone after a night, it was not because it grew old."""


@pytest.fixture
async def tenant(running: Sandbox) -> Sandbox:
    await fresh(running)
    await running.settings(token_lifetime=86_400)  # Entra's clock goes with Graph's, and this machine's does not
    return running


@pytest.fixture
def settings(tenant: Sandbox, tmp_path: Path) -> dict[str, str]:
    return installation(
        tenant,
        tmp_path,
        ENTRABOT_PUSH="on",
        ENTRABOT_TEAMS_WAIT_SECONDS="0",
        ENTRABOT_SPONSOR_BINDING_SECONDS=_A_DAY,
    )


@pytest.fixture
def asking(tmp_path: Path) -> str:
    file = tmp_path / "asking.py"
    file.write_text(ASKING, encoding="utf-8")
    return str(file)


async def _night(sandbox: Sandbox, busy: str, quiet: str) -> tuple[list[Json], Json]:
    """Let a night pass in the tenant, with eight messages in one chat and one in another; return them."""
    said = []
    for hour in range(1, _HOURS + 1):
        await sandbox.set_clock(3600.0 * hour)
        said.append(await sandbox.say("alice" if hour % 2 else "bob", f"hour {hour}", chat=busy))
    alone = await sandbox.say("alice", "a word at night", chat=quiet)
    await sandbox.set_clock(3600.0 * _HOURS + 900)
    return said, alone


async def _may(server: Server, chat: str) -> Json:
    answer: Json = await server.call("ask", requester=_ALICE, chat_id=chat)
    return answer


def _is_digest_of(push: Json, said: list[Json]) -> None:
    meta = push["meta"]
    assert (meta["chat_id"], meta["message_id"]) == (said[-1]["chatId"], said[-1]["id"])
    assert (meta["messages"], meta["sponsor"]) == (str(len(said)), "no")
    assert "read_teams_messages" in push["content"]
    assert f"hour {_HOURS}" in push["content"]


@pytest.mark.timeout(180)
async def test_a_laptop_asleep_overnight(tenant: Sandbox, settings: dict[str, str], asking: str) -> None:
    """Both servers really stand still, longer than any look may be late; the night itself passes in the tenant."""
    async with served(settings, "--plugin", asking) as one, served(settings, "--plugin", asking) as two:
        await asyncio.gather(one.call("whoami"), two.call("whoami"))
        busy, quiet = [
            str((await tenant.create_chat("alice", ["agent", "bob"], topic=topic))["id"]) for topic in ("busy", "quiet")
        ]
        await one.call("send_teams_message", message="Good night.", chat_id=busy)
        await two.call("send_teams_message", message="Sleep well.", chat_id=quiet)
        for server, chat in ((one, busy), (two, quiet)):
            await tenant.say("alice", "Go ahead.", chat=chat)
            assert words(await server.next_push()) == "Go ahead."
        granted = {"granted": tenant.people["alice"]["id"]}
        assert await _may(two, quiet) == granted
        await swarm.looks(tenant, 3)

        with frozen(one, two):
            said, alone = await _night(tenant, busy, quiet)
            await asyncio.sleep(STALL_SECONDS + 1)

        push = await two.next_push()
        assert (words(push), push["meta"]["message_id"]) == ("a word at night", alone["id"])
        assert await _may(two, quiet) == {"refused": "NoActiveSponsorChannelError"}
        _is_digest_of(await one.next_push(), said)
        assert await _may(one, busy) == {"refused": "NoActiveSponsorChannelError"}
        await swarm.looks(tenant, 4)
        assert [*taken(one), *taken(two)] == []

        await tenant.say("alice", "Good morning.", chat=quiet)
        assert words(await two.next_push()) == "Good morning."
        assert await _may(two, quiet) == granted
