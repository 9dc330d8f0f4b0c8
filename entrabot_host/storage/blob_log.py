"""A log in append blobs: whole lines in order, each once, from any number of processes.

A line is appended at an exact position, so a request that is repeated, or that arrives late, cannot land twice; where
the outcome of a try is unknown, the bytes at its position tell. A blob takes 50,000 blocks: then, or when it is large,
the log goes on in a part of its own, which the folder ``.log/`` holds out of sight.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from entrabot_host.errors import ConcurrencyError
from entrabot_host.storage.backend import FIRST_BLOCK, LARGEST_BLOCK
from entrabot_host.storage.blob_connection import Connection
from entrabot_host.storage.blob_failures import code_of

if TYPE_CHECKING:
    from azure.storage.blob.aio import ContainerClient

PARTS = ".log"
BLOCKS = 50_000
ROLL_BYTES = 512 << 20
_CROWDED_SECONDS = 0.02
_FULL = frozenset({"BlockCountExceedsLimit", "MaxBlobSizeConditionNotMet"})
_MOVED = _FULL | {"AppendPositionConditionNotMet", "BlobNotFound", "InvalidBlobType"}


@dataclass(frozen=True)
class Limits:
    """When a log goes on in another part: Azure's number of blocks; bytes beyond which no more lines are added."""

    blocks: int = BLOCKS
    roll_bytes: int = ROLL_BYTES

    def is_full(self, properties: Any) -> bool:
        """Whether a blob takes no more lines. All processes agree, since it depends on nothing else."""
        if not is_log(properties):
            return False
        blocks = int(properties.append_blob_committed_block_count or 0)
        return blocks >= self.blocks or int(properties.size) > self.roll_bytes


def is_log(properties: Any) -> bool:
    """Whether a blob is an append blob."""
    return str(getattr(properties.blob_type, "value", properties.blob_type)) == "AppendBlob"


def part_name(key: str, first: Any, number: int) -> str:
    """The blob that holds a part; ``first`` are the properties of the log's first blob.

    The name depends on when the log began, so that what a deleted log may have left behind never comes back.
    """
    return key if number == 0 else f"{PARTS}/{key}/{first.creation_time:%Y%m%dT%H%M%S}/{number:06d}"


async def properties_of(client: ContainerClient, name: str) -> Any:
    """Return a blob's properties, None when there is none. A missing container is an error."""
    from azure.core.exceptions import ResourceNotFoundError

    try:
        return await client.get_blob_client(name).get_blob_properties()
    except ResourceNotFoundError as error:
        if code_of(error) == "ContainerNotFound":
            raise
        return None


async def later_parts(client: ContainerClient, key: str, first: Any, limits: Limits) -> list[tuple[str, int]]:
    """Return the names and sizes of a log's parts after its first blob."""
    parts: list[tuple[str, int]] = []
    last = first
    while limits.is_full(last):
        name = part_name(key, first, len(parts) + 1)
        last = await properties_of(client, name)
        if last is None:
            break
        parts.append((name, int(last.size)))
    return parts


class Tail:
    """The end of one log, as this process knows it. Its appends go one at a time."""

    def __init__(self, connection: Connection, key: str, limits: Limits) -> None:
        self._connection = connection
        self._key = key
        self._limits = limits
        self._lock = asyncio.Lock()
        self._name = key
        self._position: int | None = None

    @property
    def busy(self) -> bool:
        """Whether something is being appended."""
        return self._lock.locked()

    async def append(self, line: bytes) -> None:
        """Append a line, without its newline."""
        rewriting = _Rewriting(self._key, line + b"\n")
        async with self._lock:
            await self._connection.call(lambda client: self._try(client, line + b"\n", rewriting))

    async def _try(self, client: ContainerClient, data: bytes, rewriting: _Rewriting) -> None:
        while True:
            if self._position is None and not await self._locate(client):
                await rewriting.attempt(client)
                return
            if await self._append(client, data):
                return

    async def _append(self, client: ContainerClient, data: bytes) -> bool:
        """Append at the position known; where that is no longer the end, forget it.

        Return whether the line is there: it may be an earlier try of the same line that moved the end.
        """
        from azure.core.exceptions import HttpResponseError

        position = self._position
        assert position is not None
        try:
            await client.get_blob_client(self._name).append_block(
                data,
                length=len(data),
                appendpos_condition=position,
                maxsize_condition=self._limits.roll_bytes + len(data),
            )
        except HttpResponseError as error:
            if code_of(error) not in _MOVED:
                raise
            if not await self._is_there(client, data):
                self._position = None
                await asyncio.sleep(random.uniform(0, _CROWDED_SECONDS))  # noqa: S311 - spreads tries, no secret
                return False
        self._position = position + len(data)
        return True

    async def _locate(self, client: ContainerClient) -> bool:
        """Find the log's end, making the log or its next part where there is none.

        False when the key holds a value that was written whole.
        """
        first = last = await properties_of(client, self._key)
        number, name = 0, self._key
        while last is not None and self._limits.is_full(last):
            number += 1
            name = part_name(self._key, first, number)
            last = await properties_of(client, name)
        if last is None:
            await create(client, name)
        elif not is_log(last):
            return False
        self._name, self._position = name, int(last.size) if last is not None else 0
        return True

    async def _is_there(self, client: ContainerClient, data: bytes) -> bool:
        """Whether a try whose outcome is unknown was carried out. Where another line stands, it never will be."""
        properties = await properties_of(client, self._name)
        if properties is None or self._position is None or int(properties.size) <= self._position:
            return False
        stream = await client.get_blob_client(self._name).download_blob(offset=self._position, length=len(data))
        return bool(await stream.readall() == data)


class _Rewriting:
    """Appends to a value that was written whole (by a compaction, or another product): replaces it if unchanged."""

    def __init__(self, key: str, data: bytes) -> None:
        self._key = key
        self._data = data
        self._hoped = b""

    async def attempt(self, client: ContainerClient) -> None:
        """Try until it succeeds, or turns out to have succeeded before."""
        from azure.core import MatchConditions
        from azure.core.exceptions import ResourceModifiedError

        blob = client.get_blob_client(self._key)
        while True:
            stream = await blob.download_blob()
            content = await stream.readall()
            if self._hoped and content.startswith(self._hoped):
                return
            ended = content if not content or content.endswith(b"\n") else content + b"\n"
            self._hoped = ended + self._data
            try:
                await blob.upload_blob(
                    self._hoped,
                    overwrite=True,
                    etag=stream.properties.etag,
                    match_condition=MatchConditions.IfNotModified,
                )
            except ResourceModifiedError:
                await asyncio.sleep(random.uniform(0, _CROWDED_SECONDS))  # noqa: S311 - spreads tries, no secret
                continue
            return


async def create(client: ContainerClient, name: str) -> None:
    """Make an empty append blob, unless there is a blob already."""
    from azure.core import MatchConditions
    from azure.core.exceptions import ResourceExistsError, ResourceModifiedError

    try:
        await client.get_blob_client(name).create_append_blob(match_condition=MatchConditions.IfMissing)
    except (ResourceExistsError, ResourceModifiedError) as error:
        if code_of(error) not in ("BlobAlreadyExists", "ConditionNotMet"):
            raise


async def extend(client: ContainerClient, key: str, data: bytes, at: int) -> None:
    """Append ``data`` to the first blob of a log, which must be ``at`` bytes long. Raises `ConcurrencyError`."""
    from azure.core.exceptions import HttpResponseError

    if at == 0:
        await create(client, key)
    try:
        await client.get_blob_client(key).append_block(data, length=len(data), appendpos_condition=at)
    except HttpResponseError as error:
        if code_of(error) in ("AppendPositionConditionNotMet", "InvalidBlobType", "BlobNotFound"):
            raise ConcurrencyError(f"The log {key!r} is not {at} bytes long.") from None
        raise


async def blocks_backwards(connection: Connection, key: str, limits: Limits) -> AsyncGenerator[bytes, None]:
    """Iterate over a log from its end to its beginning."""

    async def layout(client: ContainerClient) -> list[tuple[str, int]]:
        first = await properties_of(client, key)
        if first is None:
            return []
        return [(key, int(first.size)), *await later_parts(client, key, first, limits)]

    size = FIRST_BLOCK
    for name, end in reversed(await connection.call(layout)):
        while end > 0:
            start = max(0, end - size)
            block = await connection.call(_range(name, start, end - start))
            if block is None:
                return
            yield block
            end, size = start, min(2 * size, LARGEST_BLOCK)


def _range(name: str, offset: int, length: int) -> Any:
    async def read(client: ContainerClient) -> bytes | None:
        from azure.core.exceptions import ResourceNotFoundError

        try:
            stream = await client.get_blob_client(name).download_blob(offset=offset, length=length)
            return bytes(await stream.readall())
        except ResourceNotFoundError as error:
            if code_of(error) == "ContainerNotFound":
                raise
            return None

    return read
