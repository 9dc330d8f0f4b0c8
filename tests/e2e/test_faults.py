"""A service that fails one request in five: every message is heard, no send goes out twice or is lost silently."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from entrabot_sandbox.client import Sandbox

from tests.e2e import swarm
from tests.e2e.swarm import Window
from tests.e2e.wire import Refused

SENDS = 30
MESSAGES = 100
EXPIRIES = 4
_SHARE = 1 - 0.8 ** (1 / 5)  # five kinds of failure, one request in five altogether

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

FAILURES: tuple[dict[str, Any], ...] = (
    {"kind": "status", "status": 429, "retry_after": 1},
    {"kind": "status", "status": 429},
    {"kind": "status", "status": 503},
    {"kind": "drop_before"},
    {"kind": "drop_after"},
)


async def test_one_request_in_five_fails(sandbox: Sandbox, environment: dict[str, str]) -> None:
    await sandbox.settings(throttling=True)
    chats = await swarm.found_chats(sandbox)
    settings = {**environment, "ENTRABOT_PUSH": "on", "ENTRABOT_TEAMS_WAIT_SECONDS": "0"}
    async with Window("one", settings) as window:
        await window.server.call("whoami")
        await swarm.looks(sandbox, 2)
        for failure in FAILURES:
            await sandbox.fault(path="/v1.0/**", probability=_SHARE, **failure)
        said, outcomes, _ = await asyncio.gather(
            swarm.speak(sandbox, chats, MESSAGES, 15.0), _send(window, list(chats)), _expire(sandbox)
        )
        await swarm.all_handed([window], said, 120.0)
        share = await _failed_share(sandbox)
        hits = [fault["hits"] for fault in await sandbox.faults()]
        await sandbox.clear_faults()
        await swarm.looks(sandbox, 10)
        window.take()
        swarm.handed_once([window], said)
        assert sum(map(bool, hits)) >= len(FAILURES) - 1, f"too few kinds of failure came up: {hits}"
        assert 0.1 < share < 0.4, f"{share:.0%} of the requests failed"
        await _check_sends(sandbox, chats, outcomes)


async def _send(window: Window, chats: list[str]) -> dict[str, dict[str, Any]]:
    """Send one after another; return each text's result, or its error."""
    outcomes: dict[str, dict[str, Any]] = {}
    for number in range(SENDS):
        text = f"report number {number}"
        try:
            outcomes[text] = await window.server.call("send_teams_message", message=text, chat_id=random.choice(chats))
        except Refused as refused:
            outcomes[text] = refused.error
    return outcomes


async def _expire(sandbox: Sandbox) -> None:
    for number in range(EXPIRIES):
        await asyncio.sleep(3)  # spread over the run
        await sandbox.expire_tokens(all=number % 2 == 1)


async def _failed_share(sandbox: Sandbox) -> float:
    """How many of Graph's answers, or of what should have been one, were a fault of ours."""
    asked = [one for one in await sandbox.requests() if one["path"].startswith("/v1.0/") and not one.get("batch")]
    failed = [one for one in asked if one["status"] in (0, 429, 503)]
    return len(failed) / len(asked)


async def _check_sends(sandbox: Sandbox, chats: dict[str, Any], outcomes: dict[str, dict[str, Any]]) -> None:
    """What succeeded is there once; what is of unknown outcome at most once; what failed is not there."""
    there: list[str] = []
    for chat in chats:
        there += [one["body"]["content"] for one in await sandbox.messages(chat, sender="agent")]
    assert len(outcomes) == SENDS
    for text, outcome in outcomes.items():
        number = sum(content in (text, f"<p>{text}</p>") for content in there)
        if "message_id" in outcome:
            assert number == 1, f"{text!r} was sent {number} times: {outcome}"
        elif outcome.get("outcome_unknown"):
            assert number <= 1, f"{text!r} was sent {number} times: {outcome}"
        else:
            assert number == 0, f"{text!r} failed without a doubt, and is there {number} times: {outcome}"
    assert len(there) <= SENDS
    assert sum("message_id" in outcome for outcome in outcomes.values()) > SENDS / 2, outcomes
