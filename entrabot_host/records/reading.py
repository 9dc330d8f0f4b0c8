"""Finding lines in a log of JSON lines, from the newest on: what cannot match is skipped before it is parsed."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

Line = dict[str, Any]
_PLAIN = re.compile(r"[A-Za-z0-9_.:@ -]{3,}")
_LATE = timedelta(minutes=10)
"""How far lines of several writers may be out of order: their clocks differ, and a line waits for its turn."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which lines of the interaction log. Empty fields take everything.

    chat_id: the chat that a message came from or went to. sender: whole and in any case. since, until: with zones.
    """

    since: datetime
    until: datetime | None = None
    chat_id: str = ""
    sender: str = ""
    action: str = ""
    direction: str = ""

    def needle(self) -> tuple[bytes, bool]:
        """Bytes that every matching line holds, however its writer escapes; and whether they are in lower case.

        Empty when there are none.
        """
        for text, folded in ((self.chat_id, False), (self.sender.lower(), True), (self.action, False)):
            if longest := max(_PLAIN.findall(text), key=len, default=""):
                return longest.encode(), folded
        return self.direction.encode(), False

    def matches(self, line: Line) -> bool:
        """Whether a parsed line is wanted."""
        return (
            self.direction in ("", line.get("direction"))
            and self.action in ("", line.get("action"))
            and self.chat_id in ("", chat_of(line))
            and (not self.sender or str(line.get("sender", "")).lower() == self.sender.lower())
            and self._in_time(line)
        )

    def _in_time(self, line: Line) -> bool:
        when = time_of(line)
        return when is not None and when >= self.since and (self.until is None or when < self.until)


def chat_of(line: Line) -> str:
    """The chat a line is about: what came in has it in its metadata, what went out as its recipient."""
    metadata = line.get("metadata")
    inbound = str(metadata.get("chat_id") or "") if isinstance(metadata, dict) else ""
    return inbound or str(line.get("recipient") or "")


def time_of(line: Line) -> datetime | None:
    """A line's time, with its zone; None when it has none that makes sense."""
    try:
        when = datetime.fromisoformat(str(line.get("ts")))
    except ValueError:
        return None
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when


class Search:
    """Collects the newest lines that match, block by block, until there are ``limit``."""

    def __init__(self, wanted: Wanted, limit: int) -> None:
        self._wanted = wanted
        self._needle = wanted.needle()
        self._limit = limit
        self.found: list[Line] = []

    @property
    def enough(self) -> bool:
        """Whether nothing more is needed."""
        return len(self.found) >= self._limit

    def look(self, block: bytes) -> bool:
        """Look through whole lines, the last one first. Return whether earlier ones are needed."""
        for text in _candidates(block, *self._needle):
            line = parse(text)
            if line is not None and self._wanted.matches(line):
                self.found.append(line)
                if self.enough:
                    return False
        first = parse(block[: block.find(b"\n") + 1])
        when = time_of(first) if first else None
        return when is None or when >= self._wanted.since - _LATE


def parse(text: bytes) -> Line | None:
    """Read a line; None for one that a crash cut off, or that is no object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _candidates(block: bytes, needle: bytes, folded: bool) -> Iterator[bytes]:
    """Return the lines that hold the needle, the last one first."""
    if not needle:
        yield from reversed(block.splitlines())
        return
    haystack = block.lower() if folded else block
    end = len(block) if needle in haystack else 0
    while (place := haystack.rfind(needle, 0, end)) >= 0:
        start = block.rfind(b"\n", 0, place) + 1
        stop = block.find(b"\n", place)
        yield block[start : stop if stop >= 0 else len(block)]
        end = start


async def whole_lines(blocks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Cut blocks that are read backwards at their line ends."""
    rest = b""
    async for block in blocks:
        cut = block.find(b"\n") + 1
        if not cut:
            rest = block + rest
            continue
        yield block[cut:] + rest
        rest = block[:cut]
    if rest:
        yield rest


async def each_block(blocks: AsyncIterator[bytes], look: Callable[[bytes], bool]) -> None:
    """Hand blocks of whole lines to ``look``, in a worker thread, until it needs no more."""
    async for lines in whole_lines(blocks):
        if not await asyncio.to_thread(look, lines):
            return
