"""What the interaction log holds of a stretch of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, Protocol, runtime_checkable

from entrabot_host import Direction, EntrabotError


@runtime_checkable
class InteractionReader(Protocol):
    """The part of the host's records that reads the interaction log."""

    async def interactions(self, day: date) -> Sequence[Any]:
        """Return the lines of a UTC day, each with at least ``ts``, ``channel``, ``direction`` and ``sender``."""
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
    """Return the entries from ``start`` on and before ``end``, oldest first.

    Raises `EntrabotError` when this host cannot read its log, `StorageError` when it cannot be read now.
    """
    if not isinstance(records, InteractionReader):
        raise EntrabotError(
            "This version of the host cannot read its interaction log, of which a summary is made.",
            remedy="Update entrabot-host.",
        )
    found: list[Entry] = []
    day = start.astimezone(UTC).date()
    while day <= end.astimezone(UTC).date():
        lines = await records.interactions(day)
        found += [entry for line in lines if (entry := entry_of(line)) is not None and start <= entry.at < end]
        day += timedelta(days=1)
    return sorted(found, key=lambda entry: entry.at)


def entry_of(line: Any) -> Entry | None:
    """Read a line, a mapping or an object; None when it tells no time."""
    values = line if isinstance(line, Mapping) else _Attributes(line)
    at = _moment(values.get("ts"))
    if at is None:
        return None
    metadata = values.get("metadata")
    texts = {name: _text(values.get(name)) for name in ("channel", "sender", "summary", "recipient", "action")}
    return Entry(
        at=at,
        inbound=str(values.get("direction") or "") == str(Direction.INBOUND),
        content_ref=_text(values.get("content_ref")),
        metadata=metadata if isinstance(metadata, Mapping) else {},
        **texts,
    )


class _Attributes:
    def __init__(self, value: object) -> None:
        self._value = value

    def get(self, name: str) -> Any:
        return getattr(self._value, name, None)


def _moment(value: Any) -> datetime | None:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
