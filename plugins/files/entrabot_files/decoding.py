"""Bytes to text, saying how."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from entrabot_files.errors import UnsupportedReadFormatError

FALLBACK = "windows-1252"

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
MOST_BYTES_FOR_ONE = 4
"""Bytes of UTF-32 for one byte of the text that is returned."""


@dataclass(frozen=True)
class Decoded:
    """A text. guessed: nothing in the file said that it is in this encoding."""

    text: str
    encoding: str
    truncated: bool
    guessed: bool = False


def decode(content: bytes, max_bytes: int, *, more: bool) -> Decoded:
    """Decode by the byte order mark, else as UTF-8, else as Windows-1252, which is then said to be a guess.

    more: ``content`` is only the beginning. The text is cut at ``max_bytes`` of UTF-8, between characters. Raises
    `UnsupportedReadFormatError` for bytes that are no text.
    """
    text, encoding, guessed = _text_of(content, more)
    if "\0" in text:
        raise UnsupportedReadFormatError("The file holds binary data, whatever its name says.")
    shown, cut = truncated(text, max_bytes)
    return Decoded(shown, encoding, cut or more, guessed)


def _text_of(content: bytes, more: bool) -> tuple[str, str, bool]:
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            decoder = codecs.getincrementaldecoder(encoding)("replace")
            return decoder.decode(content[len(mark) :], final=not more), encoding, False
    try:
        return codecs.getincrementaldecoder("utf-8")("strict").decode(content, final=not more), "utf-8", False
    except UnicodeDecodeError:
        return content.decode(FALLBACK, "replace"), FALLBACK, True


def truncated(text: str, max_bytes: int) -> tuple[str, bool]:
    """Return the text cut at so many bytes of UTF-8, between characters, and whether it was cut."""
    if len(text) * 4 <= max_bytes:
        return text, False
    encoded = text[: max_bytes + 1].encode("utf-8", "replace")
    if len(encoded) <= max_bytes and len(text) <= max_bytes:
        return text, False
    return encoded[:max_bytes].decode("utf-8", "ignore"), True
