"""The host's own tools, offered through the same hooks as everybody's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from entrabot_host.builtin.audit_log import AuditLogTool
from entrabot_host.builtin.body_state import BodyState
from entrabot_host.builtin.health import HostHealth
from entrabot_host.builtin.read_interactions import EXTERNAL, ReadInteractions
from entrabot_host.builtin.retention import INTERVAL, Retention
from entrabot_host.builtin.whoami import APPLICATION, Whoami
from entrabot_host.hookspecs import hookimpl
from entrabot_host.host import Host
from entrabot_host.records.days import RetentionSettings
from entrabot_host.tasks import BackgroundTask, HealthCheck
from entrabot_host.tools import Hints, Tool

if TYPE_CHECKING:
    from entrabot_host.application import Application

_LOOKS = Hints(read_only=True, destructive=False, idempotent=True, open_world=False)


class HostPlugin:
    """The host's four tools, and checks of what every plugin stands on."""

    def __init__(self, application: Application) -> None:
        self._application = application

    @hookimpl
    def register_tools(self, host: Host) -> Iterable[Tool]:
        """The host's tools."""
        return [
            Tool(
                Whoami(self._application).whoami,
                title="Who am I",
                hints=Hints(read_only=True, destructive=False, idempotent=True, open_world=True),
                permissions=("User.Read", "User.Read.All", f"AgentIdentity.ReadWrite.All{APPLICATION}"),
                external=("identity.display_name", "sponsors[].display_name"),
            ),
            Tool(
                AuditLogTool(host).audit_log,
                title="Record a deed",
                hints=Hints(read_only=False, destructive=False, idempotent=False, open_world=False),
                audit=False,
            ),
            Tool(
                ReadInteractions(self._application).read_interactions,
                title="Read the interaction log",
                hints=_LOOKS,
                external=EXTERNAL,
            ),
            Tool(BodyState(self._application).bootstrap_body_state, title="Get your bearings", hints=_LOOKS),
        ]

    @hookimpl
    def background_tasks(self, host: Host) -> Iterable[BackgroundTask]:
        """Deleting old records, where the operator wants that."""
        settings = self._application.config.load(RetentionSettings)
        retention = Retention(self._application.parts, settings)
        if not retention.wanted:
            return []
        return [
            BackgroundTask(
                name="retention",
                run=retention.run,
                interval=INTERVAL,
                description="Deletes records that are older than the retention settings say",
            )
        ]

    @hookimpl
    def body_state(self, host: Host) -> Mapping[str, Callable[[], Awaitable[Any]]]:
        """Today's counts, what is unseen, and how polling goes."""
        return BodyState(self._application).sections()

    @hookimpl
    def health_checks(self, host: Host) -> Iterable[HealthCheck]:
        """Graph, storage and the audit log."""
        health = HostHealth(self._application.parts)
        checks = {"graph": health.graph, "storage": health.storage, "audit": health.audit}
        return [HealthCheck(name, check) for name, check in checks.items()]
