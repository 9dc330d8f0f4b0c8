"""Taking the text out of PDFs in worker processes, a few at a time, each bounded in time and memory.

A worker is started while its file is still being fetched: importing the parser takes as long as reading a short file.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
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
    """Reads PDFs, at most two at once; others wait their turn. As many workers more may stand by for their file."""

    def __init__(self, *, seconds: int = SECONDS, memory: int = MEMORY) -> None:
        self._seconds = seconds
        self._memory = memory
        self._turns = asyncio.Semaphore(WORKERS)
        self._waiting = 0

    @asynccontextmanager
    async def prepared(self, file: IO[bytes], max_bytes: int) -> AsyncIterator[PdfJob]:
        """Prepare to read an open file whose content is yet to come, at most ``max_bytes`` of UTF-8."""
        job = PdfJob(self._turns, (file.fileno(), max_bytes, self._seconds, self._memory))
        early = self._waiting < WORKERS
        self._waiting += early
        try:
            if early:
                await job.start()
            yield job
        finally:
            self._waiting -= early
            await job.end()

    async def text(self, file: IO[bytes], max_bytes: int) -> PdfText:
        """Return the text of an open PDF; see `PdfJob.text`."""
        async with self.prepared(file, max_bytes) as job:
            return await job.text()


class PdfJob:
    """One file and its worker."""

    def __init__(self, turns: asyncio.Semaphore, numbers: tuple[int, int, int, int]) -> None:
        self._turns = turns
        self._numbers = numbers
        self._seconds = numbers[2]
        self._worker: asyncio.subprocess.Process | None = None

    async def start(self) -> asyncio.subprocess.Process:
        """Start the worker; it waits for the word to begin."""
        if self._worker is None:
            self._worker = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # nothing of the working directory may be imported
                "-m",
                "entrabot_files.pdf_worker",
                *map(str, self._numbers),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                pass_fds=self._numbers[:1],
                env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
            )
        return self._worker

    async def text(self) -> PdfText:
        """Return the text of the file, whose content is there.

        Raises `EncryptedFileError`, `DamagedFileError`, `ScannedFileError` or `TooComplexFileError`.
        """
        async with self._turns:
            answer = await self._answer()
        if "error" in answer:
            raise _error(str(answer["error"]))
        if answer["pictures"]:
            raise ScannedFileError("The document holds pictures of its pages and no text.")
        return PdfText(
            answer["text"], answer["page_count"], answer["pages_read"], answer["unreadable"], answer["stopped"]
        )

    async def _answer(self) -> dict[str, Any]:
        try:
            async with asyncio.timeout(self._seconds + GRACE_SECONDS):
                output = await _all_of(await self.start())
        except TimeoutError:
            return {"error": "complex"}
        finally:
            await self.end()
        try:
            answer = json.loads(output)
        except ValueError:
            return {"error": "complex"}  # killed by its own limits
        return answer if isinstance(answer, dict) else {"error": "complex"}

    async def end(self) -> None:
        """Leave no process behind, whatever happened."""
        worker = self._worker
        if worker is None:
            return
        with anyio.CancelScope(shield=True):
            if worker.returncode is None:
                with suppress(ProcessLookupError):
                    worker.kill()
            await worker.wait()
            if worker.stdin is not None:
                worker.stdin.close()


async def _all_of(worker: asyncio.subprocess.Process) -> bytes:
    """Say that it may begin, and return what it answers."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(b"\n")
    output = await worker.stdout.read()
    await worker.wait()
    return output


def _error(kind: str) -> EntrabotError:
    if kind == "encrypted":
        return EncryptedFileError("The PDF is protected by a password.")
    if kind == "damaged":
        return DamagedFileError("The file is not a PDF that can be read: it is damaged, or no PDF at all.")
    return TooComplexFileError("Reading the PDF took more time or memory than allowed, so it was stopped.")
