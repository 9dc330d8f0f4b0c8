"""Sharing on a sponsor's word, with the Teams plugin vouching for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from entrabot_host.testing.agent import Agent, ToolFailed
from entrabot_host.testing.tenant import Tenant
from tests.files.conftest import Serve
from tests.files.parts import Json, People, ids, opened, refused

BOB, ALICE = "bob@contoso.example", "alice@contoso.example"


@pytest.fixture
async def heard(serve: Serve, tenant: Tenant, people: People) -> AsyncIterator[tuple[Agent, Json]]:
    """An agent that has just heard Alice in a group, and what it is to share."""
    item = await people.put("agent-onedrive", "/Plan.docx", docx="x")
    group = await tenant.create_group("alice", ["agent", "bob"], "Plans")
    settings = {"ENTRABOT_TEAMS_POLL_SECONDS": "2"}
    async with serve("teams", **settings) as agent:
        await agent.call("whoami")
        await tenant.say("alice", "Share the plan with Carol.", chat=group["id"])
        await agent.next_push()
        yield agent, {**ids(item), "chat_id": group["id"], "requester_email": ALICE}


async def share(agent: Agent, **arguments: Any) -> Json:
    """The push leaves a moment before the sponsor's word counts."""
    async with asyncio.timeout(15):
        while True:
            try:
                return dict(await agent.call("share_file", **arguments))
            except ToolFailed as failed:
                if failed.error["type"] != "NoActiveSponsorChannelError":
                    raise
            await asyncio.sleep(0.05)


async def invitations(people: People) -> int:
    return len(await people.requests("/invite"))


async def test_a_sponsor_may_share_with_anybody(heard: tuple[Agent, Json], people: People, entrabot_audit: Any) -> None:
    agent, wish = heard
    done = await share(agent, recipient_email="carol@fabrikam.example", role="write", **wish)
    assert done["shared"]
    assert done["role"] == "write"
    assert opened(done["name"]) == "Plan.docx"
    assert opened(done["on_behalf_of"]) == "Alice Example"
    (permission,) = (await people.show("agent-onedrive", "/Plan.docx"))["permissions"]
    assert permission["id"] == done["permission_ids"][0]
    assert permission["roles"] == ["write"]
    assert permission["invitation"]["email"] == "carol@fabrikam.example"
    lines = [line for line in entrabot_audit() if line["action"] == "files.share"]
    assert [line["outcome"] for line in lines][-2:] == ["pending", "success"]
    assert "carol@fabrikam.example (write)" in lines[-1]["resource"]


async def test_others_may_not_and_every_attempt_is_audited(
    heard: tuple[Agent, Json], people: People, entrabot_audit: Any
) -> None:
    agent, wish = heard
    elsewhere = await people.tenant.create_group("bob", ["agent", "alice"], "Elsewhere")
    for change, kind in (
        ({"requester_email": BOB}, "RequesterNotSponsorError"),
        ({"requester_email": "carol@fabrikam.example"}, "NoActiveSponsorChannelError"),
        ({"recipient_email": "Mallory <m@x.example>"}, "InvalidArgument"),
        ({"recipient_email": "a@b.example, c@d.example"}, "InvalidArgument"),
        ({"recipient_email": BOB.replace("o", "o\u200b", 1)}, "InvalidArgument"),
        ({"recipient_email": BOB.replace("o", "o\u3164", 1)}, "InvalidArgument"),
        ({"requester_email": "al\u200bice@contoso.example"}, "RequesterNotSponsorError"),
        ({"role": "owner"}, "InvalidArgument"),
    ):
        async with refused(kind):
            await agent.call("share_file", **{"recipient_email": BOB, **wish, **change})
    async with asyncio.timeout(15):
        while True:
            with pytest.raises(ToolFailed) as failed:
                await agent.call("share_file", recipient_email=BOB, **{**wish, "chat_id": elsewhere["id"]})
            if failed.value.error["type"] == "SponsorChannelMismatchError":
                break
            await asyncio.sleep(0.05)
    assert await invitations(people) == 0
    lines = [line["outcome"] for line in entrabot_audit() if line["action"] == "files.share"]
    assert lines[:14] == ["pending", "failure"] * 7  # the role never got as far
    assert (await people.show("agent-onedrive", "/Plan.docx"))["permissions"] == []


async def test_who_gains_and_spoke_himself_gets_nothing(heard: tuple[Agent, Json], people: People) -> None:
    """Bob writes after Alice: her earlier words are no consent to what he asks for."""
    agent, wish = heard
    await share(agent, recipient_email="carol@fabrikam.example", **wish)
    await people.tenant.say("bob", "And give it to me, too!", chat=wish["chat_id"])
    async with refused("NoActiveSponsorChannelError"):
        await agent.call("share_file", recipient_email=BOB, **wish)
    assert await invitations(people) == 1


async def test_a_failure_inside_a_success_is_told(heard: tuple[Agent, Json], people: People) -> None:
    agent, wish = heard
    await people.tenant.control("PUT", "/transfers", json={"blocked_domains": ["evil.example"]})
    with pytest.raises(ToolFailed) as failed:
        await share(agent, recipient_email="x@evil.example", **wish)
    assert failed.value.error["type"] == "ShareFailedError"
    assert (failed.value.error["code"], failed.value.error["failed"]) == ("accessDenied", 1)


async def test_graphs_refusals(heard: tuple[Agent, Json], people: People) -> None:
    agent, wish = heard
    foreign = await people.put("alice-onedrive", "/a.txt", text="x")
    await people.share("alice-onedrive", "/a.txt")
    with pytest.raises(ToolFailed) as failed:
        await share(agent, recipient_email=BOB, **{**wish, **ids(foreign)})
    assert failed.value.error["type"] == "MissingPermissionError"
    with pytest.raises(ToolFailed) as failed:
        await share(agent, recipient_email=BOB, **{**wish, "item_id": "01NOTHING"})
    assert failed.value.error["type"] == "FileNotFoundError"
    for item_id in ("", "..", "x" * 500):
        with pytest.raises(ToolFailed) as failed:
            await share(agent, recipient_email=BOB, **{**wish, "item_id": item_id})
        assert failed.value.error["type"] == "InvalidArgument"
