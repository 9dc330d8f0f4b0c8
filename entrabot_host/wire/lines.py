"""Cutting a stream of bytes into lines of bounded length, without the SDK and without I/O."""

from __future__ import annotations

from enum import Enum
from io import BytesIO


class Overlong(Enum):
    """Stands in for a line that exceeded the limit and was skipped."""

    LINE = "overlong line"


Line = bytes | Overlong


class LineSplitter:
    """Splits chunks at newlines; every byte is searched once.

    ``limit`` is the longest line in bytes without its newline. What exceeds it is dropped as it arrives; the line's
    end yields `Overlong.LINE` in its place.

    A line in several chunks gathers in a `BytesIO`, which hands its buffer out as ``bytes`` without copying it: joining
    chunks would stall the event loop for a second copy of a huge line.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._begun = BytesIO()
        self._length = 0  # of the line that has begun, dropped bytes included

    def feed(self, chunk: bytes) -> list[Line]:
        """Take the next chunk and return the lines it completes, in order, without their newlines."""
        lines: list[Line] = []
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            lines.append(self._complete(chunk[start:end]))
            start = end + 1
        self._gather(chunk[start:] if start else chunk)
        return lines

    def end(self) -> list[Line]:
        """Return the last line if the stream ended without a newline."""
        return [self._complete(b"")] if self._length else []

    def _complete(self, piece: bytes) -> Line:
        if not self._length:
            return piece if len(piece) <= self._limit else Overlong.LINE
        self._gather(piece)
        line = self._begun.getvalue() if self._length <= self._limit else Overlong.LINE
        self._begun, self._length = BytesIO(), 0
        return line

    def _gather(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._length <= self._limit:
            self._begun.write(piece)
        elif self._begun.tell():
            self._begun = BytesIO()
