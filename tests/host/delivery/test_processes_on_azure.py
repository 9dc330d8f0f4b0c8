"""Several hosts on one installation whose records lie in Azure's emulator: real servers, real processes, SIGKILL."""

from __future__ import annotations

import random
import secrets
from collections import defaultdict
from pathlib import Path

import pytest
from entrabot_sandbox.client import Sandbox

from tests.e2e import swarm
from tests.e2e.conftest import anyio_backend, bare, environment, running, sandbox
from tests.e2e.swarm import Window
from tests.e2e.test_swarm import _check_repeats, _round, at_work
from tests.host.storage.azurite import Azurite

__all__ = ["anyio_backend", "bare", "environment", "running", "sandbox"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
ROUNDS = 4


@pytest.fixture
async def chats(sandbox: Sandbox) -> dict[str, tuple[str, ...]]:
    """Five chats, with the people in them."""
    return await swarm.found_chats(sandbox, 5)


@pytest.fixture
async def container(azurite: Azurite) -> str:
    return await azurite.make(f"c{secrets.token_hex(8)}")


@pytest.fixture
def shared(
    sandbox: Sandbox, environment: dict[str, str], azurite: Azurite, container: str, tmp_path: Path
) -> dict[str, str]:
    """Settings of hosts that show pushes, with a container for their records; no send waits for an answer."""
    storage = azurite.settings(container, sandbox.environment["ENTRABOT_CA_BUNDLE"], tmp_path)
    return {**environment, **storage, "ENTRABOT_PUSH": "on", "ENTRABOT_TEAMS_WAIT_SECONDS": "0"}


async def keys(azurite: Azurite, container: str) -> set[str]:
    """The folders in the container."""
    backend = azurite.backend(container)
    found = await backend.list()
    await backend.aclose()
    return {key.partition("/")[0] for key in found}


async def test_three_windows_share_the_messages(
    sandbox: Sandbox,
    chats: dict[str, tuple[str, ...]],
    shared: dict[str, str],
    azurite: Azurite,
    container: str,
    tmp_path: Path,
) -> None:
    async with Window("one", shared) as one, Window("two", shared) as two, Window("three", shared) as three:
        windows = (one, two, three)
        await at_work(sandbox, *windows)
        said = await swarm.speak(sandbox, chats, 60, 4.0)
        await swarm.all_handed(windows, said)
        await swarm.looks(sandbox, 20)
        for window in windows:
            window.take()
        swarm.handed_once(windows, said)
        takers = defaultdict(set)
        for window in windows:
            for handed in window.handed:
                takers[handed.chat_id].add(window.name)
        assert not {chat: names for chat, names in takers.items() if len(names) > 1}
    assert {"chats", "interactions"} <= await keys(azurite, container)
    assert not (tmp_path / "data" / "chats").exists()


async def test_a_window_that_is_killed_loses_nothing(
    sandbox: Sandbox, chats: dict[str, tuple[str, ...]], shared: dict[str, str]
) -> None:
    async with Window("one", shared) as one, Window("two", shared) as two:
        windows = (one, two)
        await at_work(sandbox, *windows)
        said: dict[str, str] = {}
        for number in range(ROUNDS):
            said |= await _round(sandbox, chats, windows, random.choice(windows), at_a_push=number % 2 == 1)
        await swarm.looks(sandbox, 20)
        for window in windows:
            window.take()
        _check_repeats(windows, said)
