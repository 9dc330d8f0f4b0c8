"""Checks of what every plugin stands on."""

from __future__ import annotations

from entrabot_host.parts import Parts
from entrabot_host.tasks import Health

_GRAPH_SECONDS = 15.0


class HostHealth:
    """Each check returns `Health`, or raises the `EntrabotError` that says what is wrong."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def graph(self) -> Health:
        """Whether Graph answers for this identity."""
        await self._parts.graph.request("GET", "/me", params={"$select": "id"}, timeout=_GRAPH_SECONDS)
        return Health(True, f"Graph answers at {self._parts.cloud.graph_url}")

    async def storage(self) -> Health:
        """Whether state can be stored."""
        backend = await self._parts.backend()
        await backend.check()
        return Health(True, f"{backend.name}: {backend.location}")

    async def audit(self) -> Health:
        """Whether deeds can be recorded: those that cannot be are not done."""
        audit_log = self._parts.audit_log
        await audit_log.check()
        return Health(True, f"local: {audit_log.location}")
