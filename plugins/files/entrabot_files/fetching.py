"""Content to a temporary file, streamed, with its size bounded and without the token on its way."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import IO
from urllib.parse import urljoin

import anyio.to_thread

from entrabot_files.errors import FileTooLargeError, explained, typed
from entrabot_host import GraphResponse, GraphUnavailable, Host

TRIES = 3
_PIECE = 1024 * 1024
_ANYTHING = 1 << 62


class Fetching:
    """Fetches what ``/content`` leads to."""

    def __init__(self, host: Host) -> None:
        self._host = host

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[IO[bytes]]:
        """Give an open file without a name, to fetch something into."""
        file = await anyio.to_thread.run_sync(tempfile.TemporaryFile)
        try:
            yield file
        finally:
            file.close()

    async def into(self, descriptor: int, path: str, params: dict[str, str] | None, max_bytes: int) -> int:
        """Write the content to a descriptor from its start; return its size. A broken transfer is begun anew.

        Raises `FileTooLargeError` and what `explained` raises.
        """
        for tried in range(1, TRIES + 1):
            await anyio.to_thread.run_sync(_rewind, descriptor)
            try:
                size = 0
                async with aclosing(self._parts(path, params)) as parts:
                    async for part in parts:
                        size += len(part)
                        if size > max_bytes:
                            raise too_large(max_bytes)
                        await anyio.to_thread.run_sync(_write_all, descriptor, part)
                await anyio.to_thread.run_sync(_to_start, descriptor)
                return size
            except GraphUnavailable:
                if tried == TRIES:
                    raise
        raise AssertionError("unreachable")

    async def head(self, path: str, max_bytes: int) -> tuple[bytes, bool]:
        """Return the first bytes and whether there are more."""
        found = bytearray()
        async with aclosing(self._parts(path, None)) as parts:
            async for part in parts:
                found += part
                if len(found) > max_bytes:
                    return bytes(found[:max_bytes]), True
        return bytes(found), False

    async def _parts(self, path: str, params: dict[str, str] | None) -> AsyncGenerator[bytes, None]:
        """Yield the content in pieces of about a mebibyte."""
        with explained():
            answer = await self._host.graph.request("GET", path, params=params)
            if answer.status < 300:
                yield answer.content
                return
            buffer = bytearray()
            async with aclosing(self._host.graph.download(self._location(answer), max_bytes=_ANYTHING)) as chunks:  # type: ignore[type-var]
                async for chunk in chunks:
                    buffer += chunk
                    if len(buffer) >= _PIECE:
                        yield bytes(buffer)
                        buffer.clear()
            if buffer:
                yield bytes(buffer)

    def _location(self, answer: GraphResponse) -> str:
        """Where the content is: a secret, for a few minutes, on a host that must not see the token."""
        location = answer.headers.get("location", "")
        if not location:
            raise typed(answer.status, "Microsoft Graph did not say where the file's content is.")
        return urljoin(self._host.graph.root, location)


def too_large(max_bytes: int) -> FileTooLargeError:
    """Return the error for content beyond the limit."""
    return FileTooLargeError(f"The file is larger than the {max_bytes} bytes that are allowed.")


def _rewind(descriptor: int) -> None:
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)


def _to_start(descriptor: int) -> None:
    os.lseek(descriptor, 0, os.SEEK_SET)


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
