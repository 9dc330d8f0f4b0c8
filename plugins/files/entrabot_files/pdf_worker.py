"""The text of a PDF, taken out in a process of its own that may be stopped at any time.

``python -m entrabot_files.pdf_worker FD MAX_BYTES SECONDS MEMORY`` waits for a byte on its standard input, reads the
PDF from the descriptor and writes one JSON object. It ends when its standard input closes, so it never outlives who
started it. A hostile file costs it at most so many bytes of memory and so many seconds.
"""

from __future__ import annotations

import gc
import io
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

IMAGE_LOOKS = 50
"""Pages in which pictures are looked for when there is no text."""


def main() -> None:
    """Do it, and say what came of it."""
    descriptor, max_bytes, seconds, memory = (int(argument) for argument in sys.argv[1:5])
    gc.disable()  # the process is short-lived and its memory bounded
    _import_parser()
    if not os.read(0, 1):
        os._exit(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _limit(memory, seconds)
    answer = _answer(descriptor, max_bytes, time.monotonic() + seconds)
    with os.fdopen(1, "wb") as output:
        output.write(json.dumps(answer).encode("ascii"))
    os._exit(0)  # taking millions of objects apart would only cost time


def _import_parser() -> None:
    """While the file is still on its way. What fails here fails again, and is reported, when the file is read."""
    with suppress(Exception):
        import pypdf  # noqa: F401


def _end_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os._exit(1)


def _limit(memory: int, seconds: int) -> None:
    try:
        import resource
    except ImportError:  # Windows: the parent's own limit on time remains
        return
    for kind, value in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, seconds + 5), (resource.RLIMIT_CORE, 0)):
        try:
            resource.setrlimit(kind, (value, value))
        except (ValueError, OSError):
            continue


def _answer(descriptor: int, max_bytes: int, deadline: float) -> dict[str, Any]:
    """Return the text and what belongs to it, or the kind of error. What a parser may raise is without bounds."""
    try:
        from pypdf import PdfReader
        from pypdf.errors import LimitReachedError

        try:
            os.lseek(descriptor, 0, os.SEEK_SET)
            with os.fdopen(descriptor, "rb") as file:
                content = io.BytesIO(file.read())  # the parser takes it in very small pieces
            reader = PdfReader(content, strict=False)
            if reader.is_encrypted and not reader.decrypt(""):
                return {"error": "encrypted"}
            return _Extraction(reader, max_bytes, deadline).run()
        except LimitReachedError:
            return {"error": "complex"}
    except MemoryError:
        return {"error": "complex"}
    except Exception as error:
        return {"error": "encrypted" if type(error).__name__ in _ENCRYPTED else "damaged"}


_ENCRYPTED = ("FileNotDecryptedError", "WrongPasswordError", "DependencyError")


class _Extraction:
    """Page by page, until the limit."""

    def __init__(self, reader: Any, max_bytes: int, deadline: float) -> None:
        self._pages = reader.pages
        self._count = len(reader.pages)
        self._max_bytes = max_bytes
        self._deadline = deadline
        self._texts: list[str] = []
        self._unreadable: dict[str, int] = {}

    def run(self) -> dict[str, Any]:
        if not self._count:
            return {"error": "damaged"}
        read, stopped = self._read()
        if self._unreadable and sum(self._unreadable.values()) == read:
            return {"error": max(self._unreadable, key=lambda kind: self._unreadable[kind])}
        text = "\n\n".join(self._texts).encode("utf-8", "replace")
        return {
            "text": text[: self._max_bytes].decode("utf-8", "ignore"),
            "page_count": self._count,
            "pages_read": read,
            "unreadable": sum(self._unreadable.values()),
            "stopped": "" if not stopped and len(text) <= self._max_bytes else stopped or "limit",
            "pictures": not text.strip() and any(self._has_picture(number) for number in self._some(read)),
        }

    def _read(self) -> tuple[int, str]:
        """Return how many pages were read, and why no more: ``limit``, ``time``, ``memory`` or nothing."""
        size = 0
        for number in range(self._count):
            if number and time.monotonic() > self._deadline:
                return number, "time"
            try:
                text = self._pages[number].extract_text()
            except MemoryError:
                self._fail("complex")
                return number + 1, "memory"
            except Exception as error:  # one broken page leaves the others
                self._fail("complex" if type(error).__name__ == "LimitReachedError" else "damaged")
                continue
            self._texts.append(text)
            size += len(text.encode("utf-8", "replace")) + 2
            if size > self._max_bytes:
                return number + 1, "" if number + 1 == self._count else "limit"
        return self._count, ""

    def _fail(self, kind: str) -> None:
        self._unreadable[kind] = self._unreadable.get(kind, 0) + 1

    def _some(self, read: int) -> Iterator[int]:
        return iter(range(min(read, IMAGE_LOOKS)))

    def _has_picture(self, number: int) -> bool:
        try:
            objects = self._pages[number]["/Resources"]["/XObject"].get_object()
            return any(entry.get_object().get("/Subtype") == "/Image" for entry in objects.values())
        except Exception:
            return False


if __name__ == "__main__":
    main()
