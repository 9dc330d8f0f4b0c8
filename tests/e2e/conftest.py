"""One sandbox tenant for all these tests, started over before each; and a fresh installation for each test."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from entrabot_sandbox.client import Sandbox

_KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
async def running(anyio_backend: str) -> AsyncIterator[Sandbox]:
    async with Sandbox.start() as sandbox:
        yield sandbox


@pytest.fixture
async def sandbox(running: Sandbox) -> Sandbox:
    await running.reset()
    await running.clear_requests()
    await running.settings(throttling=False)
    return running


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """An environment without any setting of ours but folders, and a home folder of its own."""
    home = tmp_path / "home"
    home.mkdir()
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {
        **kept,
        "HOME": str(home),
        "ENTRABOT_DATA_DIR": str(tmp_path / "data"),
        "ENTRABOT_LOG_DIR": str(tmp_path / "log"),
        "ENTRABOT_AUDIT_DIR": str(tmp_path / "audit"),
    }


@pytest.fixture
def environment(sandbox: Sandbox, bare: dict[str, str]) -> dict[str, str]:
    """The sandbox tenant's settings, for an installation of its own that looks for messages often."""
    return {**sandbox.environment, **bare, "ENTRABOT_TEAMS_POLL_SECONDS": "2", "ENTRABOT_LIVE_POLL_SECONDS": "1"}
