"""One upload session: fragments in order, resumed from what Microsoft says it has, cancelled when given up.

The address is pre-authorised: it goes without a token, and into no error.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from entrabot_files.errors import UploadFailedError, typed
from entrabot_files.sources import Source
from entrabot_host import Graph, GraphError, GraphResponse, GraphUnavailable

FRAGMENT = 5 * 1024 * 1024
"""Bytes: a multiple of 320 KiB, as Microsoft asks."""

TRIES = 3
LONGEST_WAIT = 60.0
_FRAGMENT_SECONDS = 120.0
_PIECE = 1024 * 1024
_STATUS_BYTES = 64 * 1024
_MOST_ROUNDS = 10_000

Report = Callable[[int, int], Awaitable[None]]


class Gone(Exception):
    """Microsoft knows the session no more. may_be_complete: all bytes were sent, so it may have become a file."""

    def __init__(self, *, may_be_complete: bool) -> None:
        super().__init__("the upload session is gone")
        self.may_be_complete = may_be_complete


class SessionUpload:
    """Sends one source to one session."""

    def __init__(self, graph: Graph, url: str, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._graph = graph
        self._url = url
        self._sleep = sleep
        self._sent_all = False

    async def run(self, source: Source, report: Report) -> GraphResponse:
        """Return Microsoft's last answer, 200 or 201 with the item. Raises `Gone`; else cancels what it gives up."""
        ahead = _Ahead(source)
        try:
            return await self._fragments(ahead, source.size, report)
        except Gone:
            raise
        except BaseException:
            await self._graph.discard(self._url)  # Microsoft would keep the bytes for days
            raise
        finally:
            await ahead.aclose()

    async def _fragments(self, ahead: _Ahead, total: int, report: Report) -> GraphResponse:
        offset = 0
        for _ in range(_MOST_ROUNDS):
            chunk = await ahead.take(offset)
            answer = await self._fragment(offset, chunk, total)
            if isinstance(answer, GraphResponse):
                return answer
            if not 0 <= answer < total:
                raise _failed("Microsoft asks for bytes that do not exist")
            offset = answer
            await report(offset, total)
        raise _failed("it made no headway")

    async def _fragment(self, offset: int, chunk: bytes, total: int) -> GraphResponse | int:
        """Send one fragment, at most three times; return the offset to go on from, or the last answer."""
        last = offset + len(chunk) - 1
        headers = {"Content-Range": f"bytes {offset}-{last}/{total}", "Content-Length": str(len(chunk))}
        self._sent_all = self._sent_all or last + 1 == total
        problem = ""
        for tried in range(1, TRIES + 1):
            wait = 2.0 ** (tried - 1)
            try:
                answer = await self._graph.upload(self._url, _pieces(chunk), headers=headers, timeout=_FRAGMENT_SECONDS)
            except GraphUnavailable as error:
                problem, known = error.message, False
            else:
                if answer.status in (200, 201):
                    return answer
                if answer.status == 202:
                    return _expected(answer.body, last + 1)
                if answer.status == 404:
                    raise Gone(may_be_complete=self._sent_all)
                if not _worth_repeating(answer.status):
                    raise _refused(answer)
                problem, known = f"Microsoft answered {answer.status}", answer.status == 429
                wait = _asked_wait(answer.headers, wait)
            if tried == TRIES or wait > LONGEST_WAIT:
                break
            await self._sleep(wait)
            if not known and (position := await self._position(offset)) != offset:
                return position
        raise _failed(problem.rstrip("."))

    async def _position(self, otherwise: int) -> int:
        """Ask how far Microsoft has got; ``otherwise`` when no byte is missing.

        Raises `Gone`, and `UploadFailedError` when it cannot be asked.
        """
        found = bytearray()
        try:
            async for part in self._graph.download(self._url, max_bytes=_STATUS_BYTES):
                found += part
        except GraphError as error:
            if error.status == 404:
                raise Gone(may_be_complete=self._sent_all) from None
            raise _failed("it cannot be asked how far the upload got") from None
        try:
            return _expected(json.loads(found), otherwise)
        except ValueError:
            raise _failed("its word on how far the upload got could not be read") from None


async def _pieces(chunk: bytes) -> AsyncIterator[bytes]:
    """Hand a fragment over in pieces: as a whole it would be copied several times on its way to the socket."""
    for at in range(0, len(chunk), _PIECE):
        yield chunk[at : at + _PIECE]


class _Ahead:
    """Reads the next fragment while the present one is under way."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._offset = -1
        self._task: asyncio.Task[bytes] | None = None

    async def take(self, offset: int) -> bytes:
        """Return the fragment at ``offset`` and begin to read the one after it."""
        task, self._task = self._task, None
        if task is not None and self._offset != offset:
            await _ended(task)
            task = None
        chunk = await task if task is not None else await self._source.read(offset, FRAGMENT)
        self._offset = offset + len(chunk)
        if self._offset < self._source.size:
            self._task = asyncio.create_task(self._source.read(self._offset, FRAGMENT), name="files: read ahead")
        return chunk

    async def aclose(self) -> None:
        """Leave nothing running."""
        task, self._task = self._task, None
        if task is not None:
            await _ended(task)


async def _ended(task: asyncio.Task[bytes]) -> None:
    task.cancel()
    await asyncio.wait([task], timeout=5.0)
    if task.done() and not task.cancelled():
        task.exception()  # looked at, so that nobody is told that it was not


def _expected(body: Any, otherwise: int) -> int:
    """Return the first byte that is missing, ``otherwise`` when the answer names none."""
    ranges = body.get("nextExpectedRanges") if isinstance(body, Mapping) else None
    starts = [str(one).partition("-")[0] for one in ranges] if isinstance(ranges, list) else []
    numbers = [int(start) for start in starts if start.isascii() and start.isdigit()]
    return min(numbers, default=otherwise)


def _worth_repeating(status: int) -> bool:
    return status in (416, 429) or (status >= 500 and status not in (501, 505, 507))


def _asked_wait(headers: Mapping[str, str], otherwise: float) -> float:
    text = headers.get("retry-after", "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 6 else otherwise


def _refused(answer: GraphResponse) -> GraphError:
    error = answer.body.get("error") if isinstance(answer.body, Mapping) else None
    code = str(error.get("code") or "") if isinstance(error, Mapping) else ""
    code = "".join(char for char in code if char.isascii() and char.isalnum())[:60]
    message = (
        f"Microsoft refused the upload with {answer.status}{f' {code}' if code else ''}. Nothing of it is visible."
    )
    return typed(answer.status, message, code, answer.headers.get("request-id", ""))


def _failed(why: str) -> UploadFailedError:
    return UploadFailedError(f"The upload was given up: {why}. Nothing of it is visible.")
