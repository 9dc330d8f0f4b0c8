"""`Host` bound to one plugin, and what it needs from the running server."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from entrabot_host.errors import NotStarted
from entrabot_host.host import Graph, Host, Identity, Inbox, Records, Settings, SettingsT, SharedT, Store

if TYPE_CHECKING:
    from entrabot_host.config import Config


class Services(Protocol):
    """Makes the facets of one plugin. Properties raise the reason when a part is misconfigured."""

    @property
    def started(self) -> bool:
        """False while plugins are being assembled."""
        ...

    @property
    def identity(self) -> Identity:
        """Shared by all plugins."""
        ...

    @property
    def graph(self) -> Graph:
        """Shared by all plugins."""
        ...

    def store(self, plugin: str) -> Store:
        """The store under the plugin's own prefix."""
        ...

    def records(self, plugin: str) -> Records:
        """Records stamped with the plugin."""
        ...

    def inbox(self, plugin: str) -> Inbox:
        """Delivery."""
        ...


class BoundSettings(Settings):
    """Settings of one plugin."""

    def __init__(self, plugin: str, config: Config) -> None:
        self._plugin = plugin
        self._config = config

    def load(self, model: type[SettingsT]) -> SettingsT:
        """See `entrabot_host.host.Settings`."""
        return self._config.load(model, self._plugin)


class BoundHost:
    """Implements `entrabot_host.Host`."""

    def __init__(self, plugin: str, config: Config, services: Services) -> None:
        self.plugin = plugin
        self.settings = BoundSettings(plugin, config)
        self.log = logging.getLogger(f"entrabot.{plugin}")
        self._services = services
        self._shared: dict[Callable[..., Any], Any] = {}
        self.store = services.store(plugin)

    def shared(self, make: Callable[[Host], SharedT]) -> SharedT:
        """Return what ``make(host)`` made the first time."""
        if make not in self._shared:
            self._shared[make] = make(self)
        made: SharedT = self._shared[make]
        return made

    @property
    def identity(self) -> Identity:
        """Identity, sponsors and authorization."""
        self._check("identity")
        return self._services.identity

    @property
    def graph(self) -> Graph:
        """Microsoft Graph."""
        self._check("graph")
        return self._services.graph

    @property
    def records(self) -> Records:
        """Audit and interaction log."""
        self._check("records")
        return self._services.records(self.plugin)

    @property
    def inbox(self) -> Inbox:
        """Delivery of people's messages."""
        self._check("inbox")
        return self._services.inbox(self.plugin)

    def _check(self, facet: str) -> None:
        if not self._services.started:
            raise NotStarted(f"host.{facet} of plugin {self.plugin!r} was used while plugins are being assembled.")
