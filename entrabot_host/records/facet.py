"""Records as one plugin sees them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any

from entrabot_host.host import Interaction, Outcome
from entrabot_host.records.deeds import record_success
from entrabot_host.records.interactions import InteractionLog
from entrabot_host.records.reading import Wanted

WriteAudit = Callable[[str, str, str, Outcome, Mapping[str, Any]], Awaitable[str]]
"""From plugin, action, resource, outcome and metadata to the event id."""


class RecordsFacet:
    """Implements `entrabot_host.host.Records` for one plugin."""

    def __init__(self, plugin: str, write_audit: WriteAudit, interactions: InteractionLog) -> None:
        self._plugin = plugin
        self._write_audit = write_audit
        self._interactions = interactions

    async def audit(
        self, action: str, resource: str, outcome: Outcome, metadata: Mapping[str, Any] | None = None
    ) -> str:
        """Write an audit line stamped with this plugin; return its event id. Raises `AttributionError`."""
        event_id = await self._write_audit(self._plugin, action, resource, outcome, metadata or {})
        if outcome is Outcome.SUCCESS:
            record_success(action)
        return event_id

    async def interaction(self, entry: Interaction) -> None:
        """Append to the interaction log."""
        await self._interactions.append(entry)

    async def interactions(
        self, since: datetime, until: datetime | None = None, *, limit: int = 1000
    ) -> list[dict[str, Any]]:
        """Return lines of the interaction log from ``since`` on and before ``until``, newest first.

        They are as stored: their texts come from outside, so put what a model is to read into the envelope.
        """
        return await self._interactions.read(Wanted(since=since, until=until), limit)
