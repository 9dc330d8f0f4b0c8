"""A Graph client against a local server, with time under control."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from entrabot_host.auth.provider import Token
from entrabot_host.graph.client import GraphClient
from entrabot_host.security.clouds import CLOUDS, Cloud
from tests.host.graph.server import Authority, Server, make_authority, running


class Time:
    """A clock that moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


class Tokens:
    """Tokens named ``user-1``, ``user-2``; a new one for each that is refused."""

    def __init__(self) -> None:
        self.count = 1
        self.calls: list[tuple[str, str, str]] = []

    async def token(self, audience: str, *, rejected: str = "", claims: str = "") -> Token:
        self.calls.append((audience, rejected, claims))
        self.count += bool(rejected)
        return Token(f"user-{self.count}", time.monotonic() + 3600)

    async def app_token(self, audience: str, *, rejected: str = "") -> Token:
        self.calls.append((audience, rejected, "app"))
        return Token("app-1", time.monotonic() + 3600)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
async def server(authority: Authority) -> AsyncIterator[Server]:
    async with running(authority) as found:
        yield found


@pytest.fixture
async def elsewhere(authority: Authority) -> AsyncIterator[Server]:
    """Another host, as a storage service would be."""
    async with running(authority) as found:
        yield found


@pytest.fixture
def cloud(server: Server) -> Cloud:
    return replace(CLOUDS["global"], login_url="https://localhost:9", graph_url=server.url)


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def tokens() -> Tokens:
    return Tokens()


@pytest.fixture
async def graph(cloud: Cloud, tokens: Tokens, clock: Time, authority: Authority) -> AsyncIterator[GraphClient]:
    client = GraphClient(cloud, tokens, ca_bundle=authority.ca_file, clock=clock, sleep=clock.sleep)
    yield client
    await client.aclose()
