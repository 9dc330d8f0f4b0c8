"""The interaction log: who talked with the agent, and what about."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

from entrabot_host.host import Interaction
from entrabot_host.records.audit import json_line
from entrabot_host.records.days import days_before
from entrabot_host.records.reading import Line, Search, Wanted, chat_of, each_block, parse, time_of
from entrabot_host.storage.facet import BackendSource

FOLDER = "interactions/"
OPTIONAL = ("recipient", "action", "content_ref", "metadata")


@dataclass
class Tally:
    """How much was said on one day. chats: lines per chat; last: each chat's newest time."""

    directions: Counter[str] = field(default_factory=Counter)
    channels: Counter[str] = field(default_factory=Counter)
    chats: Counter[str] = field(default_factory=Counter)
    last: dict[str, str] = field(default_factory=dict)

    def count(self, block: bytes) -> bool:
        """Count whole lines, given from the newest block to the oldest; all are needed."""
        for text in reversed(block.splitlines()):
            if (line := parse(text)) is not None:
                self._add(line)
        return True

    def _add(self, line: Line) -> None:
        self.directions[str(line.get("direction", ""))] += 1
        self.channels[str(line.get("channel", ""))] += 1
        if chat := chat_of(line):
            self.chats[chat] += 1
            self.last.setdefault(chat, str(line.get("ts", "")))


class InteractionLog:
    """``interactions/<UTC day>.jsonl`` in the configured storage."""

    def __init__(self, backend: BackendSource) -> None:
        self._backend = backend

    async def append(self, entry: Interaction) -> str:
        """Append one line and return its id. Raises `StorageError`."""
        now = datetime.now(UTC)
        identifier = str(uuid.uuid4())
        line: dict[str, Any] = {
            "id": identifier,
            "ts": now.isoformat(),
            "channel": entry.channel,
            "direction": str(entry.direction),
            "sender": entry.sender,
            "summary": entry.summary,
        }
        for name in OPTIONAL:
            if value := getattr(entry, name):
                line[name] = dict(value) if name == "metadata" else value
        backend = await self._backend()
        await backend.append(_key(now.date()), json_line(line))
        return identifier

    async def read(self, wanted: Wanted, limit: int) -> list[Line]:
        """Return the newest ``limit`` lines that match, newest first. Raises `StorageError`."""
        backend = await self._backend()
        search = Search(wanted, limit)
        for day in _days(wanted):
            async with aclosing(backend.read_backwards(_key(day))) as blocks:
                await each_block(blocks, search.look)
            if search.enough:
                break
        return sorted(search.found, key=lambda line: time_of(line) or wanted.since, reverse=True)

    async def tally(self, day: date) -> Tally:
        """Count the lines of a UTC day. Raises `StorageError`."""
        tally = Tally()
        backend = await self._backend()
        async with aclosing(backend.read_backwards(_key(day))) as blocks:
            await each_block(blocks, tally.count)
        return tally

    async def prune(self, first_kept: date) -> list[str]:
        """Delete the files of days before ``first_kept``; return their keys. Raises `StorageError`."""
        backend = await self._backend()
        old = days_before(await backend.list(FOLDER), first_kept)
        for key in old:
            await backend.delete(key)
        return old


def _key(day: date) -> str:
    return f"{FOLDER}{day:%Y-%m-%d}.jsonl"


def _days(wanted: Wanted) -> Iterator[date]:
    """The days that may hold what is wanted, newest first; one more, for a writer whose clock is ahead."""
    last = (wanted.until or datetime.now(UTC)).astimezone(UTC).date() + timedelta(days=1)
    first = wanted.since.astimezone(UTC).date()
    for number in range((last - first).days + 1):
        yield last - timedelta(days=number)
