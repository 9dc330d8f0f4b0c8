"""A sandbox tenant for the tests of identity and sign-in, and the objects of the host that use it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

from entrabot_sandbox.client import Sandbox

from entrabot_host.auth.agent_user import AgentUserProvider
from entrabot_host.config import Config, Layer
from entrabot_host.identity.settings import AgentUserSettings, SponsorSettings
from entrabot_host.security.clouds import Cloud, CloudSettings, resolve_cloud

GRAPH = "https://graph.microsoft.com"
STORAGE = "https://storage.azure.com"
TOKEN_PATH = "/oauth2/v2.0/token"


@dataclass
class Tenant:
    """The sandbox with the settings that an operator would have."""

    sandbox: Sandbox

    def config(self, **changes: str) -> Config:
        return Config([Layer("the test", {**self.sandbox.environment, **changes})])

    def cloud(self, **changes: str) -> Cloud:
        return resolve_cloud(self.config(**changes).load(CloudSettings))

    def settings(self, **changes: str) -> AgentUserSettings:
        return self.config(**changes).load(AgentUserSettings)

    def sponsor_settings(self, **changes: str) -> SponsorSettings:
        return self.config(**changes).load(SponsorSettings)

    @property
    def ca_bundle(self) -> str:
        return self.sandbox.environment["ENTRABOT_CA_BUNDLE"]

    def id_of(self, person: str) -> str:
        return str(self.sandbox.people[person]["id"])

    def tenant_of(self, person: str) -> str:
        return str(self.sandbox.people[person]["tenant_id"])

    @asynccontextmanager
    async def provider(self, *, timeout: float = 30.0, **changes: str) -> AsyncIterator[AgentUserProvider]:
        provider = AgentUserProvider(self.settings(**changes), self.cloud(), self.ca_bundle, timeout=timeout)
        try:
            yield provider
        finally:
            await provider.aclose()

    async def token_requests(self) -> int:
        counts = await self.sandbox.counts()
        return sum(count for name, count in counts.items() if name.endswith(TOKEN_PATH))


def moment(message: dict[str, str]) -> datetime:
    return datetime.fromisoformat(message["createdDateTime"])
