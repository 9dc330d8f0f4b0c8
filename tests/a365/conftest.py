"""A scripted Work IQ server, and a sandbox tenant as at its start."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from entrabot_host.testing.tenant import Tenant
from tests.a365.parts import Host, Mcp
from tests.host.graph.server import Authority, make_authority, running


@pytest.fixture
def entrabot_era() -> str:
    """One era: what differs between them is the host's, and tested there."""
    return "2026-07-28"


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
async def mcp(authority: Authority) -> AsyncIterator[Mcp]:
    async with running(authority) as server:
        yield Mcp(server)


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
async def tenant(entrabot_tenant: Tenant) -> Tenant:
    await entrabot_tenant.reset()
    await entrabot_tenant.control("PUT", "/settings", json={"throttling": False})
    return entrabot_tenant
