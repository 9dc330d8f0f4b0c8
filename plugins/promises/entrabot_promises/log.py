"""The file of promises: one JSON object a line, the last line of an id counts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from entrabot_promises.due import deadline

OPEN = "open"
RESOLVED = "resolved"
_FIELDS = ("id", "created_at", "chat_id", "description", "due_by", "status", "resolved_at", "resolution")


@dataclass(frozen=True, kw_only=True)
class Promise:
    """A commitment to people of one conversation. Times are ISO 8601, in UTC; ``due_by`` may be a day, or empty.

    extra: keys of other versions, kept.
    """

    id: str
    created_at: str
    chat_id: str
    description: str
    due_by: str = ""
    status: str = OPEN
    resolved_at: str = ""
    resolution: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether it is still owed. Only what says that it is resolved is not."""
        return self.status != RESOLVED

    def is_overdue(self, now: datetime) -> bool:
        """Whether it is owed and its time is over."""
        due = deadline(self.due_by)
        return self.is_open and due is not None and due < now

    def resolved(self, resolution: str, at: str, mark: str) -> Promise:
        """Return it as kept. mark: what tells this line from one that another session writes at the same time."""
        return replace(self, status=RESOLVED, resolution=resolution, resolved_at=at, extra={**self.extra, "mark": mark})

    def show(self, now: datetime) -> dict[str, Any]:
        """Return all fields, and whether it is overdue."""
        return {name: getattr(self, name) for name in _FIELDS} | {"overdue": self.is_overdue(now)}

    def line(self) -> bytes:
        """Return the stored form; empty fields are left out."""
        fields = {name: value for name in _FIELDS if (value := getattr(self, name))}
        return json.dumps({**self.extra, **fields}).encode("ascii")


@dataclass(frozen=True)
class Log:
    """The whole file, line by line."""

    lines: tuple[bytes, ...] = ()

    @classmethod
    def parse(cls, data: bytes) -> Log:
        """Take a file apart. A line that makes no sense (one torn by a crash) stays as it is and says nothing."""
        return cls(tuple(line for line in data.split(b"\n") if line.strip()))

    def promises(self) -> dict[str, Promise]:
        """Return the promises by id, in the order in which they were made."""
        found: dict[str, Promise] = {}
        for line in self.lines:
            if (promise := _promise(line)) is not None:
                found[promise.id] = promise
        return found

    def unreadable(self) -> int:
        """Return how many lines make no sense."""
        return sum(_promise(line) is None for line in self.lines)

    def with_line(self, line: bytes) -> Log:
        """Return the file with one more line."""
        return Log((*self.lines, line))

    def compacted(self, now: datetime, keep_days: int) -> Log:
        """Return the file without lines that later ones replace, and without what was resolved long ago.

        Every open promise stays, and so does every line that makes no sense.
        """
        current = self.promises()
        last = {promise.id: number for number, line in enumerate(self.lines) if (promise := _promise(line))}
        kept_numbers = set(last.values())
        horizon = now - timedelta(days=keep_days)
        kept = []
        for number, line in enumerate(self.lines):
            promise = _promise(line)
            if promise is None or (number in kept_numbers and not _is_old(current[promise.id], horizon)):
                kept.append(line)
        return Log(tuple(kept))

    def dump(self) -> bytes:
        """Return the file's content."""
        return b"".join(line + b"\n" for line in self.lines)


def _is_old(promise: Promise, horizon: datetime) -> bool:
    if promise.is_open:
        return False
    try:
        at = datetime.fromisoformat(promise.resolved_at)
    except ValueError:
        return False
    return (at if at.tzinfo else at.replace(tzinfo=UTC)) < horizon


def _promise(line: bytes) -> Promise | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not isinstance(value.get("id"), str) or not value["id"]:
        return None
    known = {name: value.get(name) for name in _FIELDS}
    texts = {name: text if isinstance(text, str) else "" for name, text in known.items()}
    extra = {name: other for name, other in value.items() if name not in _FIELDS}
    return Promise(**{**texts, "status": texts["status"] or OPEN}, extra=extra)
