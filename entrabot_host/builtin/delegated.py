"""The built-in auth provider for a person's own sign-in, and how the person hears what is to be done."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import ClassVar

from entrabot_host.assembly import Assembly
from entrabot_host.auth.delegated import NAME, DelegatedProvider
from entrabot_host.auth.delegated_settings import DelegatedSettings
from entrabot_host.auth.provider import AuthProvider, SignInPrompt
from entrabot_host.auth.scopes import delegated_permissions
from entrabot_host.auth.token_store import TokenStore
from entrabot_host.auth.unusable import UnusableProvider
from entrabot_host.config import Config
from entrabot_host.errors import SettingsError
from entrabot_host.folders import Folders
from entrabot_host.hookspecs import hookimpl
from entrabot_host.host import Host
from entrabot_host.identity.settings import AgentUserSettings
from entrabot_host.security.clouds import CloudSettings, resolve_cloud

PRIORITY = DelegatedProvider.priority


class DelegatedPlugin:
    """Offers `DelegatedProvider`. It learns from the assembly what to ask for, once that is done.

    tell: how the client is told what a person has to do; the server sets it.
    """

    NAME: ClassVar[str] = NAME

    def __init__(self, config: Config, assembly: Callable[[], Assembly]) -> None:
        self._config = config
        self._assembly = assembly
        self.provider: DelegatedProvider | None = None
        self.tell: Callable[[str], None] = lambda text: None

    @hookimpl
    def auth_provider(self, host: Host) -> AuthProvider:
        """Sign a person in through MSAL. Wrong settings make it unusable, not absent."""
        try:
            self.provider = self._make()
        except SettingsError as error:
            return UnusableProvider(self.NAME, PRIORITY, error)
        self.provider.on_prompt(self._prompted)
        return self.provider

    @hookimpl
    def lifespan(self, host: Host) -> AbstractAsyncContextManager[None]:
        """A lifespan begins when the client has really begun: only then is anybody asked to sign in."""
        return self._asking()

    @asynccontextmanager
    async def _asking(self) -> AsyncIterator[None]:
        if self.provider is not None:
            self.provider.begin()
        yield

    def _make(self) -> DelegatedProvider:
        settings, clouds = self._config.load(DelegatedSettings), self._config.load(CloudSettings)
        return DelegatedProvider(
            settings,
            resolve_cloud(clouds),
            TokenStore(self._config.load(Folders).data, settings.token_cache),
            tenant_id=self._config.load(AgentUserSettings).tenant_id,
            ca_bundle=clouds.ca_bundle,
            permissions=lambda: delegated_permissions(self._assembly()),
        )

    def _prompted(self, prompt: SignInPrompt | None) -> None:
        if prompt is not None:
            self.tell(prompt.sentence)
