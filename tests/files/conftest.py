"""A sandbox tenant as at its start for each test, and the files plugin served against it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from entrabot_host.testing.agent import Agent
from entrabot_host.testing.memory import served
from entrabot_host.testing.tenant import Tenant
from tests.files.parts import People

Serve = Callable[..., AbstractAsyncContextManager[Agent]]


@pytest.fixture
def entrabot_era() -> str:
    """One era: what differs between them is the host's, and tested there."""
    return "2026-07-28"


@pytest.fixture
async def tenant(entrabot_tenant: Tenant) -> Tenant:
    await entrabot_tenant.reset()
    await entrabot_tenant.control("PUT", "/settings", json={"throttling": False})
    return entrabot_tenant


@pytest.fixture
def people(tenant: Tenant) -> People:
    return People(tenant)


@pytest.fixture
def serve(tenant: Tenant, tmp_path: Path) -> Serve:
    """Serve the files plugin, and others, against the tenant; no child process may be left behind.

    Unlike `entrabot` it may be entered by a fixture, which runs in another task than the test.
    """

    @asynccontextmanager
    async def serving(*plugins: Any, **settings: str) -> AsyncIterator[Agent]:
        folders = {f"ENTRABOT_{name.upper()}_DIR": str(tmp_path / name) for name in ("data", "log", "audit")}
        environment = {**tenant.environment, **folders, "ENTRABOT_STRICT_PLUGINS": "1", **settings}
        before = set(psutil.Process().children(recursive=True))
        async with served(["files", *plugins], environment, mode="2026-07-28") as connected:
            yield connected
        assert set(psutil.Process().children(recursive=True)) <= before

    return serving


@pytest.fixture
async def agent(serve: Serve, tenant: Tenant, tmp_path: Path) -> AsyncIterator[Agent]:
    """An agent with the files plugin, small limits and one local folder, ``tmp_path/shared``."""
    (tmp_path / "shared").mkdir()
    settings = {
        "ENTRABOT_FILES_LOCAL_ROOTS": str(tmp_path / "shared"),
        "ENTRABOT_FILES_MAX_TEXT_BYTES": "5000",
        "ENTRABOT_FILES_MAX_PDF_BYTES": "1000000",
    }
    async with serve(**settings) as connected:
        await connected.call("whoami")  # warmed up: what a test sees on the wire is its own
        await tenant.control("DELETE", "/requests")
        yield connected
