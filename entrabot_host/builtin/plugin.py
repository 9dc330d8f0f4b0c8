"""The host's own tools, offered through the same hooks as everybody's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from entrabot_host.builtin.audit_log import AuditLogTool
from entrabot_host.builtin.whoami import APPLICATION, Whoami
from entrabot_host.hookspecs import hookimpl
from entrabot_host.host import Host
from entrabot_host.tasks import HealthCheck
from entrabot_host.tools import Hints, Tool

if TYPE_CHECKING:
    from entrabot_host.application import Application


class HostPlugin:
    """``whoami`` and ``audit_log``, and checks of what every plugin stands on."""

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
        ]

    @hookimpl
    def health_checks(self, host: Host) -> Iterable[HealthCheck]:
        """Graph and storage."""
        return [
            HealthCheck("graph", self._application.runtime.check_graph),
            HealthCheck("storage", self._application.runtime.check_storage),
        ]
