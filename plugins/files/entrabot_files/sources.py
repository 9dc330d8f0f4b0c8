"""Where the bytes of an upload come from: any part of them, any number of times, so that an upload can go on."""

from __future__ import annotations

import binascii
import os
from typing import Protocol

import anyio.to_thread

from entrabot_host import InvalidArgument

_PIECE = 1024 * 1024
"""Characters handled at once: the decoder holds the interpreter meanwhile."""

_BLANKS = (" ", "\n", "\r", "\t")
_REMEDY = "Encode the file in standard base64 (A-Z a-z 0-9 + /) with padding, without a data: prefix."


class Source(Protocol):
    """The bytes of one upload."""

    @property
    def size(self) -> int:
        """How many there are."""
        ...

    async def read(self, start: int, length: int) -> bytes:
        """Return ``length`` bytes from ``start``, fewer at the end."""
        ...


class Held:
    """Bytes in memory."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    @property
    def size(self) -> int:
        """See `Source`."""
        return len(self._content)

    async def read(self, start: int, length: int) -> bytes:
        """See `Source`."""
        return self._content[start : start + length]


class Base64:
    """Bytes in base64, decoded when they are needed, in a worker thread. Make it with `opened`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.size = len(text) // 4 * 3 - (2 if text.endswith("==") else 1 if text.endswith("=") else 0)

    @classmethod
    async def opened(cls, text: str) -> Base64:
        """Take a text; blanks and line breaks in it do not count. Raises `InvalidArgument` for a wrong length."""
        text = await anyio.to_thread.run_sync(_without_blanks, text)
        if len(text) % 4:
            raise _not_base64("its length is no multiple of four")
        return cls(text)

    async def read(self, start: int, length: int) -> bytes:
        """See `Source`. Raises `InvalidArgument` when this part is not base64."""
        end = min(start + length, self.size)
        return await anyio.to_thread.run_sync(self._decoded, start, end) if end > start else b""

    def _decoded(self, start: int, end: int) -> bytes:
        first, last = start // 3 * 4, -(-end // 3) * 4
        found = bytearray()
        for at in range(first, last, _PIECE):
            piece = self._text[at : min(at + _PIECE, last)]
            found += _decode(piece, is_last=at + len(piece) == len(self._text))
        skipped = start - first // 4 * 3
        return bytes(memoryview(found)[skipped : skipped + end - start])


def _decode(text: str, *, is_last: bool) -> bytes:
    try:
        if is_last or not text.endswith("="):
            return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:  # also for characters beyond ASCII
        pass
    raise _not_base64("it holds other characters, or padding before its end") from None


def _without_blanks(text: str) -> str:
    for blank in _BLANKS:
        if blank in text:
            text = text.replace(blank, "")
    return text


def _not_base64(why: str) -> InvalidArgument:
    return InvalidArgument(
        f"content_base64 is not base64: {why}. Nothing was stored.",
        remedy=_REMEDY,
        details={"parameter": "content_base64"},
    )


class OpenFile:
    """A file of this machine, read in a worker thread. ``descriptor`` stays the caller's."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor = descriptor
        self.size = size

    async def read(self, start: int, length: int) -> bytes:
        """See `Source`. Raises `InvalidArgument` when the file has become shorter."""
        wanted = min(length, self.size - start)
        found = await anyio.to_thread.run_sync(_read_all, self._descriptor, start, wanted)
        if len(found) != wanted:
            raise InvalidArgument("The local file changed while it was read.", remedy="Try again when it is at rest.")
        return found


def _read_all(descriptor: int, start: int, length: int) -> bytes:
    found = os.pread(descriptor, length, start)
    while 0 < len(found) < length and (more := os.pread(descriptor, length - len(found), start + len(found))):
        found += more
    return found
