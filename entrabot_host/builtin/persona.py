"""The persona and its heartbeat, offered through the hooks. Unless it is configured, nothing of it is imported."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from entrabot_host.clock import Clock
from entrabot_host.config import Config
from entrabot_host.errors import SettingsError
from entrabot_host.hookspecs import hookimpl
from entrabot_host.host import Host
from entrabot_host.persona.settings import TOKEN_COMMAND, URL, PersonaSettings
from entrabot_host.security.clouds import CloudSettings
from entrabot_host.tasks import BackgroundTask, Gate, Health, HealthCheck

if TYPE_CHECKING:
    from entrabot_host.lifecycle import Child
    from entrabot_host.persona.keeper import Persona

HEARTBEAT_SECONDS = 300.0
_BEAT_TIMEOUT = 150.0


class PersonaPlugin:
    """Owner of the `Persona`, where there is one. Wrong settings leave the body alone, and ``whoami`` says why."""

    NAME: ClassVar[str] = "persona"

    def __init__(self, config: Config, data: Callable[[], Path], clock: Clock) -> None:
        self._missing = [name for name in (URL, TOKEN_COMMAND) if not config.get(name)]
        self._problem: SettingsError | None = None
        self.persona: Persona | None = None
        if not self._missing:
            self.persona = self._made(config, data, clock)

    def _made(self, config: Config, data: Callable[[], Path], clock: Clock) -> Persona | None:
        from entrabot_host.persona.keeper import Persona

        try:
            settings, cloud = config.load(PersonaSettings), config.load(CloudSettings)
        except SettingsError as error:
            self._problem = error
            return None
        return Persona(settings, cloud.ca_bundle, data, clock)

    # --- for the server ---------------------------------------------------------------------------------------------

    async def for_client(self) -> str:
        """Return the text for a client that asks now, empty for the body alone."""
        return await self.persona.for_client() if self.persona else ""

    def adopt(self, children: set[Child]) -> None:
        """Say where child processes stand that end with this one."""
        if self.persona:
            self.persona.children = children

    async def aclose(self) -> None:
        """Stop what is under way. No network."""
        if self.persona:
            await self.persona.aclose()

    # --- hooks ------------------------------------------------------------------------------------------------------

    @hookimpl
    def background_tasks(self, host: Host) -> Iterable[BackgroundTask]:
        """The heartbeat, where there is a persona."""
        if self.persona is None:
            return []
        return [
            BackgroundTask(
                name="persona_heartbeat",
                run=self.persona.beat,
                interval=HEARTBEAT_SECONDS,
                description="Asks the persona's server, with a fresh token, whether it is there",
                gate=Gate.AGENT_USER,
                timeout=_BEAT_TIMEOUT,
            )
        ]

    @hookimpl
    def health_checks(self, host: Host) -> Iterable[HealthCheck]:
        """Which persona is in use."""
        return [HealthCheck(self.NAME, self.health)]

    @hookimpl
    def lifespan(self, host: Host) -> AbstractAsyncContextManager[None] | None:
        """Fetching the text for the next start."""
        return self.persona.running() if self.persona else None

    async def health(self) -> Health:
        """Say what is in use: the body only, or which text."""
        if self.persona:
            return await self.persona.health()
        if self._problem:
            return Health(False, f"body only: {self._problem.message}", self._problem.remedy)
        if len(self._missing) == 1:
            return Health(False, f"body only: {self._missing[0]} is not set", f"Set both {URL} and {TOKEN_COMMAND}.")
        return Health(True, "body only: no persona is configured; heartbeat: skipped")
