"""A sandbox tenant as at its start for each test, and the files plugin served against it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from entrabot_host.testing.agent import Agent
from entrabot_host.testing.tenant import Tenant
from tests.files.parts import People


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
async def agent(
    entrabot: Callable[..., AbstractAsyncContextManager[Agent]], tenant: Tenant, tmp_path: Any
) -> AsyncIterator[Agent]:
    """An agent with the files plugin and one local folder, ``tmp_path/shared``."""
    (tmp_path / "shared").mkdir()
    settings = {
        "ENTRABOT_FILES_LOCAL_ROOTS": str(tmp_path / "shared"),
        "ENTRABOT_FILES_MAX_TEXT_BYTES": "5000",
        "ENTRABOT_FILES_MAX_PDF_BYTES": "1000000",
    }
    async with entrabot("files", tenant=tenant, settings=settings) as connected:
        yield connected
