"""What the interaction log holds of a stretch of time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, runtime_checkable

from entrabot_host import Direction, EntrabotError

MOST = 20_000
"""Lines of which a summary is made at most; on a busier day the oldest are left out."""
TOOL = "run_daily_summary"
"""The action of a summary's own line: it answers nobody, so the next summary leaves it out."""


@runtime_checkable
class InteractionReader(Protocol):
    """The part of the host's records that reads the interaction log."""

    async def interactions(
        self, since: datetime, until: datetime | None = None, *, limit: int = 1000
    ) -> list[dict[str, Any]]:
        """Return the newest ``limit`` lines from ``since`` on and before ``until``, as they are stored."""
        ...


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the log."""

    at: datetime
    channel: str
    inbound: bool
    sender: str
    summary: str = ""
    recipient: str = ""
    action: str = ""
    content_ref: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


async def entries_between(records: object, start: datetime, end: datetime) -> list[Entry]:
    """Return the entries from ``start`` on and before ``end``, oldest first, without those of summaries.

    Raises `EntrabotError` when this host cannot read its log, `StorageError` when it cannot be read now.
    """
    if not isinstance(records, InteractionReader):
        raise EntrabotError(
            "This version of the host cannot read its interaction log, of which a summary is made.",
            remedy="Update entrabot-host.",
        )
    lines = await records.interactions(start, end, limit=MOST)
    found = [entry for line in lines if (entry := entry_of(line)) is not None and entry.action != TOOL]
    return sorted((entry for entry in found if start <= entry.at < end), key=lambda entry: entry.at)


def entry_of(line: Any) -> Entry | None:
    """Read a line; None when it is none, or tells no time."""
    at = _moment(line.get("ts")) if isinstance(line, Mapping) else None
    if at is None:
        return None
    metadata = line.get("metadata")
    texts = {name: _text(line.get(name)) for name in ("channel", "sender", "summary", "recipient", "action")}
    return Entry(
        at=at,
        inbound=line.get("direction") == str(Direction.INBOUND),
        content_ref=_text(line.get("content_ref")),
        metadata=metadata if isinstance(metadata, Mapping) else {},
        **texts,
    )


def _moment(value: Any) -> datetime | None:
    try:
        found = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
