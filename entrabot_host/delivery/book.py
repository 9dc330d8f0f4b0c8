"""All records as this session last saw them, so that a quiet beat touches no storage."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from entrabot_host.delivery.record import Record, dump, parse, record_key
from entrabot_host.errors import ConcurrencyError
from entrabot_host.host import Conversation
from entrabot_host.storage.backend import MemoryBackend
from entrabot_host.storage.facet import BackendSource

First = Callable[[MemoryBackend], Awaitable[Record]]


@dataclass(frozen=True)
class Known:
    """A record, its etag, its age in seconds when it was read or written, and when that was on the boot clock."""

    record: Record
    etag: str
    age_then: float
    at: float

    @property
    def age(self) -> float:
        """Seconds since the record was written."""
        return self.age_then + boot_clock() - self.at


class Book:
    """Reads on first use and after every conflict or failure; writes with compare-and-swap only."""

    def __init__(self, backend: BackendSource) -> None:
        self._backend = backend
        self._known: dict[Conversation, Known] = {}

    async def find(self, conversation: Conversation, *, fresh: bool = False) -> Known | None:
        """Return the record, from memory unless ``fresh``; None when there is none. Raises `StorageError`."""
        if not fresh and (known := self._known.get(conversation)):
            return known
        self._known.pop(conversation, None)
        key, at = record_key(conversation), boot_clock()
        entry = await (await self._backend()).read(key)
        if entry is None:
            return None
        known = Known(parse(entry.data, key), entry.etag, entry.age, at)
        self._known[conversation] = known
        return known

    async def open(self, conversation: Conversation, first: First, *, fresh: bool = False) -> Known:
        """Return the record; ``first`` makes the one of a conversation that has none. Raises `StorageError`."""
        if known := await self.find(conversation, fresh=fresh):
            return known
        record = await first(await self._backend())
        try:
            return await self._write(conversation, record, if_absent=True)
        except ConcurrencyError:
            if known := await self.find(conversation):
                return known
            raise

    async def swap(self, conversation: Conversation, known: Known, record: Record) -> Known:
        """Replace ``known`` by ``record``. Raises `ConcurrencyError` when it is not the newest, or `StorageError`.

        After either, the next look reads again: a write that failed may have landed.
        """
        return await self._write(conversation, record, if_match=known.etag)

    def forget(self) -> None:
        """Read everything again when it is next needed; for after sleep and clock jumps."""
        self._known.clear()

    async def _write(
        self, conversation: Conversation, record: Record, *, if_match: str = "", if_absent: bool = False
    ) -> Known:
        self._known.pop(conversation, None)
        at = boot_clock()
        backend = await self._backend()
        etag = await backend.write(record_key(conversation), dump(record), if_match=if_match, if_absent=if_absent)
        known = self._known[conversation] = Known(record, etag, 0.0, at)
        return known


def boot_clock() -> float:
    """Seconds on a clock that goes on while the machine sleeps and knows no jumps."""
    clock = getattr(time, "CLOCK_BOOTTIME", None) or getattr(time, "CLOCK_MONOTONIC", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)
