"""The built-in auth provider for an agent's own user, offered through the hook like any other."""

from __future__ import annotations

from typing import ClassVar

from entrabot_host.auth.agent_user import AgentUserProvider
from entrabot_host.auth.provider import AuthProvider
from entrabot_host.auth.unusable import UnusableProvider
from entrabot_host.config import Config
from entrabot_host.errors import SettingsError
from entrabot_host.hookspecs import hookimpl
from entrabot_host.host import Host
from entrabot_host.identity.settings import AgentUserSettings
from entrabot_host.security.clouds import CloudSettings, resolve_cloud


class AgentUserPlugin:
    """Offers `AgentUserProvider`. Wrong settings make it unusable, not absent, so that ``whoami`` can say why."""

    NAME: ClassVar[str] = "agent-user"

    def __init__(self, config: Config) -> None:
        self._config = config

    @hookimpl
    def auth_provider(self, host: Host) -> AuthProvider:
        """Sign in with the blueprint's certificate, in three hops."""
        try:
            cloud_settings = self._config.load(CloudSettings)
            settings = self._config.load(AgentUserSettings)
            return AgentUserProvider(settings, resolve_cloud(cloud_settings), cloud_settings.ca_bundle)
        except SettingsError as error:
            return UnusableProvider(self.NAME, 100, error)
