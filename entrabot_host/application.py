"""From settings to a server that is ready to be served: the one place where all parts meet."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib import metadata

from entrabot_host.assembly import Assembly, assemble
from entrabot_host.bound import BoundHost
from entrabot_host.builtin.agent_user import AgentUserPlugin
from entrabot_host.builtin.delegated import DelegatedPlugin
from entrabot_host.builtin.persona import PersonaPlugin
from entrabot_host.builtin.plugin import HostPlugin
from entrabot_host.calls import Calls
from entrabot_host.clock import Clock
from entrabot_host.config import Config
from entrabot_host.delivery.settings import DeliverySettings
from entrabot_host.discovery import (
    HOST,
    Installed,
    Loaded,
    Problem,
    installed_plugins,
    load_plugins,
    selection,
    unknown_names,
)
from entrabot_host.errors import PluginError
from entrabot_host.identity.settings import BehaviourSettings
from entrabot_host.parts import Parts
from entrabot_host.prompt.body import Instructions, compose
from entrabot_host.records.days import RetentionSettings
from entrabot_host.runtime import Runtime
from entrabot_host.security.settings import EnvelopeSettings

log = logging.getLogger(__name__)
DISTRIBUTION = "entrabot-host"


class Application:
    """An assembled server: what it offers, and the runtime that stands behind it."""

    def __init__(
        self, config: Config, *, plugins: Sequence[Installed] | None = None, clock: Clock | None = None
    ) -> None:
        self.version = version()
        self.config = config
        for model in (BehaviourSettings, DeliverySettings, RetentionSettings):
            config.load(model)  # a wrong setting of the host fails here, loudly, and not where it is first needed
        self.selection = selection(config)
        self.installed = installed_plugins(self.selection.files) if plugins is None else list(plugins)
        self.parts = Parts(config, clock)
        self.runtime = Runtime(self.parts)
        self.delegated = DelegatedPlugin(config, lambda: self.assembly)
        self.persona = PersonaPlugin(config, lambda: self.parts.folders.data, self.parts.clock)
        self._hosts: dict[str, BoundHost] = {}
        self.calls = Calls(
            write_audit=self.parts.write_audit, ready=self.runtime.plugin_started, envelope=self._envelope()
        )
        self.assembly = self._assemble()
        self.tools = self.assembly.tools
        self.instructions = self._instructions()
        self.parts.adopt(self.assembly)

    def _envelope(self) -> bool:
        return self.config.load(EnvelopeSettings).enabled

    def _assemble(self) -> Assembly:
        loaded, problems = load_plugins(self.installed, self.selection)
        assembly = assemble(
            [*self._own_plugins(), *loaded],
            self._host_of,
            self.selection,
            innermost=self.calls.innermost,
            problems=problems,
        )
        missing = tuple(unknown_names(self.selection, self.installed))
        assembly = replace(assembly, notes=(*missing, *assembly.notes))
        self._report(assembly.problems, assembly.notes)
        return assembly

    def _host_of(self, plugin: str) -> BoundHost:
        """Return the one host object of a plugin."""
        return self._hosts.setdefault(plugin, BoundHost(plugin, self.config, self.parts))

    def _own_plugins(self) -> list[Loaded]:
        """The host's own contributions come in through the same hooks."""
        own = {HOST: HostPlugin(self), AgentUserPlugin.NAME: AgentUserPlugin(self.config)}
        own[DelegatedPlugin.NAME] = self.delegated
        own[PersonaPlugin.NAME] = self.persona
        return [
            Loaded(Installed(name, DISTRIBUTION, self.version, lambda: None), plugin) for name, plugin in own.items()
        ]

    async def current_instructions(self) -> Instructions:
        """The instructions for a client that asks now: with the persona's text, where there is one."""
        return self.instructions.with_persona(await self.persona.for_client())

    def _instructions(self) -> Instructions:
        fragments = [part.fragment for part in self.assembly.contributions if part.fragment is not None]
        return compose(fragments)

    def _report(self, problems: Iterable[Problem], notes: Iterable[str]) -> None:
        for problem in problems:
            log.error("%s", problem)
            log.debug("%s", problem.trace)
        for note in notes:
            log.warning("%s", note)
        if self.selection.strict and (first := next(iter(problems), None)) is not None:
            raise PluginError(f"{first}.", remedy="Mend or remove the plugin, or unset ENTRABOT_STRICT_PLUGINS.")


def version() -> str:
    """The version of the installed host."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "0"
