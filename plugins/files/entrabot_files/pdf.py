"""Taking the text out of PDFs in worker processes, a few at a time, each bounded in time and memory."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

import anyio

from entrabot_files.errors import DamagedFileError, EncryptedFileError, ScannedFileError, TooComplexFileError
from entrabot_host import EntrabotError

WORKERS = 2
SECONDS = 60
GRACE_SECONDS = 5.0
MEMORY = 1024 * 1024 * 1024
_PASSED_ON = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TMPDIR")


@dataclass(frozen=True)
class PdfText:
    """What was read. ``stopped``: why not all of it was, ``limit``, ``time`` or ``memory``; empty when all was."""

    text: str
    page_count: int
    pages_read: int
    unreadable: int
    stopped: str


class PdfReading:
    """Reads PDFs, at most two at once; others wait their turn."""

    def __init__(self, *, seconds: int = SECONDS, memory: int = MEMORY) -> None:
        self._seconds = seconds
        self._memory = memory
        self._turns = asyncio.Semaphore(WORKERS)

    async def text(self, file: IO[bytes], max_bytes: int) -> PdfText:
        """Return the text of an open PDF, at most ``max_bytes`` of UTF-8.

        Raises `EncryptedFileError`, `DamagedFileError`, `ScannedFileError` or `TooComplexFileError`.
        """
        async with self._turns:
            answer = await self._ask(file.fileno(), max_bytes)
        if "error" in answer:
            raise _error(str(answer["error"]))
        if answer["pictures"]:
            raise ScannedFileError("The document holds pictures of its pages and no text.")
        return PdfText(
            answer["text"], answer["page_count"], answer["pages_read"], answer["unreadable"], answer["stopped"]
        )

    async def _ask(self, descriptor: int, max_bytes: int) -> dict[str, Any]:
        numbers = (descriptor, max_bytes, self._seconds, self._memory)
        worker = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # nothing of the working directory may be imported
            "-m",
            "entrabot_files.pdf_worker",
            *map(str, numbers),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            pass_fds=(descriptor,),
            env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
        )
        try:
            async with asyncio.timeout(self._seconds + GRACE_SECONDS):
                output = await _all_of(worker)
        except TimeoutError:
            return {"error": "complex"}
        finally:
            await _end(worker)
        try:
            answer = json.loads(output)
        except ValueError:
            return {"error": "complex"}  # killed by its own limits
        return answer if isinstance(answer, dict) else {"error": "complex"}


async def _all_of(worker: asyncio.subprocess.Process) -> bytes:
    assert worker.stdout is not None
    output = await worker.stdout.read()
    await worker.wait()
    return output


async def _end(worker: asyncio.subprocess.Process) -> None:
    """Leave no process behind, whatever happened."""
    with anyio.CancelScope(shield=True):
        if worker.returncode is None:
            with suppress(ProcessLookupError):
                worker.kill()
        await worker.wait()
        if worker.stdin is not None:
            worker.stdin.close()


def _error(kind: str) -> EntrabotError:
    if kind == "encrypted":
        return EncryptedFileError("The PDF is protected by a password.")
    if kind == "damaged":
        return DamagedFileError("The file is not a PDF that can be read: it is damaged, or no PDF at all.")
    return TooComplexFileError("Reading the PDF took more time or memory than allowed, so it was stopped.")
