"""What was asked of the services: method, path, status, time; never a token or a body."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import asdict, dataclass
from typing import Any

from entrabot_sandbox.clock import Clock, iso

KEPT = 20_000


@dataclass(frozen=True)
class Entry:
    """One request. ``status`` 0 means that the connection was cut."""

    seq: int
    method: str
    path: str
    query: str
    status: int
    time: str | None
    batch: bool
    detail: dict[str, str]


class Recorder:
    """The last requests, and counts of all since the last clearing."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: deque[Entry] = deque(maxlen=KEPT)
        self._counts: Counter[str] = Counter()
        self._last = 0

    def add(self, method: str, path: str, query: str, status: int, *, batch: bool, detail: dict[str, str]) -> None:
        """Note a request that has been answered."""
        self._last += 1
        moment = iso(self._clock.now())
        self._entries.append(Entry(self._last, method, path, query, status, moment, batch, detail))
        self._counts[f"{method} {path}"] += 1

    def clear(self) -> None:
        """Forget what was noted; numbering goes on."""
        self._entries.clear()
        self._counts.clear()

    def describe(self, since: int) -> dict[str, Any]:
        """The requests after that number, oldest first, and the counts."""
        entries = [asdict(entry) for entry in self._entries if entry.seq > since]
        return {"requests": entries, "counts": dict(self._counts)}
