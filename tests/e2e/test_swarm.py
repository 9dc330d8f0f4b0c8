"""Many messages at once for several hosts on one installation: none lost, none twice, and what is repeated says so."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from contextlib import suppress
from typing import Any

import pytest
from entrabot_sandbox.client import Sandbox

from tests.e2e import swarm
from tests.e2e.swarm import Window

ROUNDS = 20

pytestmark = [pytest.mark.slow]


@pytest.fixture
async def crowd(sandbox: Sandbox) -> dict[str, tuple[str, ...]]:
    """Ten chats, in a tenant that limits requests as Graph does."""
    await sandbox.settings(throttling=True)
    return await swarm.found_chats(sandbox)


@pytest.fixture
def quiet(environment: dict[str, str]) -> dict[str, str]:
    """Looks often, and no send waits for an answer."""
    return {**environment, "ENTRABOT_TEAMS_WAIT_SECONDS": "0"}


@pytest.fixture
def channels(quiet: dict[str, str]) -> dict[str, str]:
    """Hosts that show pushes."""
    return {**quiet, "ENTRABOT_PUSH": "on"}


async def at_work(sandbox: Sandbox, *windows: Window) -> None:
    """Wait until all are signed in and look at the chats."""
    await asyncio.gather(*(window.server.call("whoami") for window in windows))
    await swarm.looks(sandbox, 2 * len(windows))


@pytest.mark.timeout(180)
async def test_two_windows_share_two_hundred_messages(
    sandbox: Sandbox, crowd: dict[str, tuple[str, ...]], channels: dict[str, str]
) -> None:
    async with Window("one", channels) as one, Window("two", channels) as two:
        windows = (one, two)
        await at_work(sandbox, *windows)
        said = await swarm.speak(sandbox, crowd, 200, 8.0)
        await swarm.all_handed(windows, said)
        await swarm.looks(sandbox, 20)
        for window in windows:
            window.take()
        swarm.handed_once(windows, said)
        takers = defaultdict(set)
        for window in windows:
            for handed in window.handed:
                takers[handed.chat_id].add(window.name)
        assert takers.keys() == crowd.keys()
        assert not {chat: names for chat, names in takers.items() if len(names) > 1}


@pytest.mark.timeout(300)
async def test_a_window_that_is_killed_loses_nothing(
    sandbox: Sandbox, crowd: dict[str, tuple[str, ...]], channels: dict[str, str]
) -> None:
    async with Window("one", channels) as one, Window("two", channels) as two:
        windows = (one, two)
        await at_work(sandbox, *windows)
        said: dict[str, str] = {}
        for number in range(ROUNDS):
            victim = random.choice(windows)
            said |= await _round(sandbox, crowd, windows, victim, at_a_push=number % 2 == 1)
        await swarm.looks(sandbox, 20)
        for window in windows:
            window.take()
        _check_repeats(windows, said)


async def _round(
    sandbox: Sandbox,
    crowd: dict[str, tuple[str, ...]],
    windows: tuple[Window, ...],
    victim: Window,
    *,
    at_a_push: bool,
) -> dict[str, str]:
    """Let people write while one server is killed and started anew; wait until all is handed over.

    at_a_push: it is killed as soon as it has pushed something, which is hardly ever recorded by then.
    """

    async def die() -> None:
        if at_a_push:
            with suppress(TimeoutError):  # the other one may take all of them
                await victim.pushed(3.0)
        else:
            await asyncio.sleep(random.uniform(0, 2.5))
        await victim.kill()
        await victim.start()

    said, _ = await asyncio.gather(swarm.speak(sandbox, crowd, 20, 1.5), die())
    await swarm.all_handed(windows, said)
    return said


def _check_repeats(windows: tuple[Window, ...], said: dict[str, str]) -> None:
    """What came more than once had been handed to one that was killed then, and says that it is a repeat."""
    killed = set().union(*(window.killed for window in windows))
    found = swarm.by_message(windows, said)
    assert found.keys() == said.keys()
    for handed in found.values():
        unmarked = [one for one in handed if not one.redelivered]
        by_the_living = [one for one in handed if one.process not in killed]
        assert len(unmarked) <= 1, f"a repeat that does not say so: {handed}"
        assert len(by_the_living) <= 1, f"repeated though nobody died: {handed}"


@pytest.mark.timeout(180)
async def test_a_window_and_two_hosts_without_pushes(
    sandbox: Sandbox, crowd: dict[str, tuple[str, ...]], quiet: dict[str, str], channels: dict[str, str]
) -> None:
    claude = Window("claude", channels)
    codex = [Window(f"codex-{number}", quiet, "codex-mcp-client", shows=False) for number in (1, 2)]
    async with claude, codex[0], codex[1]:
        windows = (claude, *codex)
        await at_work(sandbox, *windows)
        for window, chat in zip((claude, *codex), crowd, strict=False):
            await window.server.call("send_teams_message", message="I am here.", chat_id=chat)
        done = asyncio.Event()
        async with asyncio.TaskGroup() as calling:
            for window in codex:
                calling.create_task(window.call_now_and_then(done, 0.5))
            said = await swarm.speak(sandbox, crowd, 200, 8.0)
            await swarm.all_handed(windows, said, 90.0)
            await swarm.looks(sandbox, 30)
            done.set()
        claude.take()
        swarm.handed_once(windows, said)
        chats: dict[str, Any] = {window.name: {one.chat_id for one in window.handed} for window in windows}
        for window, chat in zip(windows, crowd, strict=False):
            assert [name for name, taken in chats.items() if chat in taken] == [window.name]
