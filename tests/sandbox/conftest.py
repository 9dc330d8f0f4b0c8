"""One sandbox for all these tests, started over before each; and a client that is the agent."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator

import httpx
import pytest
from entrabot_sandbox.client import Sandbox

from tests.sandbox.wire import Bindings, Entra


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
    await running.settings(throttling=False)
    return running


@pytest.fixture
def context(sandbox: Sandbox) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=sandbox.environment["ENTRABOT_CA_BUNDLE"])


@pytest.fixture
async def entra(sandbox: Sandbox, context: ssl.SSLContext) -> AsyncIterator[Entra]:
    async with httpx.AsyncClient(verify=context, trust_env=False) as http:
        yield Entra(sandbox, http)


@pytest.fixture
async def graph(sandbox: Sandbox, context: ssl.SSLContext, entra: Entra) -> AsyncIterator[httpx.AsyncClient]:
    """Graph, with the agent user's token; paths start with ``v1.0/`` left out."""
    headers = {"Authorization": f"Bearer {await entra.user_token()}"}
    base = sandbox.environment["ENTRABOT_GRAPH_URL"] + "/v1.0"
    async with httpx.AsyncClient(base_url=base, headers=headers, verify=context, trust_env=False) as http:
        yield http


@pytest.fixture
def bind(sandbox: Sandbox) -> Bindings:
    return Bindings(sandbox)
