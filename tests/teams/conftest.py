"""One sandbox tenant for all tests of the Teams plugin, as at its start for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from entrabot_sandbox.client import Sandbox
from entrabot_teams.domain import Teams

from entrabot_host.auth.agent_user import AgentUserProvider
from entrabot_host.graph.client import GraphClient
from entrabot_host.identity.session import Session
from entrabot_host.identity.settings import AgentUserSettings
from entrabot_host.security.clouds import CloudSettings, resolve_cloud
from tests.teams.parts import KnownIdentity, PlainHost, principal, sponsor_of


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
async def one_sandbox(anyio_backend: str) -> AsyncIterator[Sandbox]:
    async with Sandbox.start() as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
async def graph(one_sandbox: Sandbox) -> AsyncIterator[GraphClient]:
    environment = one_sandbox.environment
    cloud = resolve_cloud(CloudSettings.model_validate(environment))
    ca_bundle = environment["ENTRABOT_CA_BUNDLE"]
    session = Session([AgentUserProvider(AgentUserSettings.model_validate(environment), cloud, ca_bundle)])
    await session.start()
    client = GraphClient(cloud, session, ca_bundle=ca_bundle)
    yield client
    await client.aclose()
    await session.aclose()


@pytest.fixture
async def sandbox(one_sandbox: Sandbox) -> Sandbox:
    await one_sandbox.reset()
    await one_sandbox.settings(throttling=False)
    await one_sandbox.clear_requests()
    return one_sandbox


@pytest.fixture
def host(sandbox: Sandbox, graph: GraphClient) -> PlainHost:
    people, environment = sandbox.people, sandbox.environment
    sponsors = [sponsor_of(person) for person in people.values() if person["sponsor"]]
    identity = KnownIdentity(
        principal(environment), environment["ENTRABOT_LOGIN_URL"], environment["ENTRABOT_CA_BUNDLE"], sponsors
    )
    return PlainHost(graph, identity)


@pytest.fixture
def teams(host: PlainHost) -> Teams:
    return Teams(host)
