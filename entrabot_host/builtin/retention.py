"""Deleting records that are older than the operator wants to keep them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import date, timedelta
from typing import TYPE_CHECKING

from entrabot_host.discovery import HOST
from entrabot_host.host import Outcome
from entrabot_host.records.days import RetentionSettings

if TYPE_CHECKING:
    from entrabot_host.parts import Parts

log = logging.getLogger(__name__)
INTERVAL = 6 * 3600.0

Prune = Callable[[date], Awaitable[list[str]]]


class Retention:
    """One round deletes what is too old; each deletion is audited before it is done, or not done."""

    def __init__(self, parts: Parts, settings: RetentionSettings) -> None:
        self._parts = parts
        self._settings = settings

    @property
    def wanted(self) -> bool:
        """Whether anything is ever to be deleted."""
        return bool(self._settings.audit_days or self._settings.interaction_days)

    async def run(self) -> None:
        """Delete. Raises `StorageError`, or `AttributionError` when it can be recorded in nobody's name."""
        if self._settings.interaction_days:
            await self._prune("interactions", self._settings.interaction_days, self._parts.interactions.prune)
        if self._settings.audit_days:
            await self._prune("audit", self._settings.audit_days, self._parts.audit_log.prune)

    async def _prune(self, what: str, days: int, prune: Prune) -> None:
        first_kept = self._parts.now().date() - timedelta(days=days)
        resource = f"{what} before {first_kept:%Y-%m-%d}"
        await self._parts.recorder.audit(HOST, "records.delete_old", resource, Outcome.PENDING, {"days": days})
        deleted = await prune(first_kept)
        await self._parts.recorder.audit(HOST, "records.delete_old", resource, Outcome.SUCCESS, {"files": len(deleted)})
        if deleted:
            log.info("%d files of %s were deleted: older than %d days", len(deleted), what, days)
