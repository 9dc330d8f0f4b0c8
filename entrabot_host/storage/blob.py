"""State in an Azure Blob container, shared by several machines."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from entrabot_host.errors import ConcurrencyError, StorageError
from entrabot_host.host import Entry
from entrabot_host.storage import blob_log
from entrabot_host.storage.blob_connection import Connection
from entrabot_host.storage.blob_failures import code_of
from entrabot_host.storage.keys import check_key, check_line, check_prefix, is_key

if TYPE_CHECKING:
    from azure.storage.blob.aio import ContainerClient

PROBE = ".check"
_MARK = "write"
_AND = "+"
_KNOWN_TAILS = 64


class BlobBackend:
    """Implements `MemoryBackend` on a container: values are block blobs, logs are append blobs.

    Conditions are Azure's own, by etag. An age is the difference of two times of the service, to the second. A write
    carries a mark of its own, so that one that was repeated because no answer came, and had been carried out, is told
    from somebody else's.
    """

    name = "blob"

    def __init__(self, connection: Connection, limits: blob_log.Limits | None = None) -> None:
        self._connection = connection
        self._limits = limits or blob_log.Limits()
        self._tails: dict[str, blob_log.Tail] = {}

    @property
    def location(self) -> str:
        """The container's address."""
        return f"{self._connection.endpoint}/{self._connection.container}"

    async def check(self) -> None:
        """Prove that the container is there and can be written. Raises `StorageConfigError` when it is not there."""
        await self._connection.call(lambda client: client.get_blob_client(PROBE).upload_blob(b"", overwrite=True))

    async def read(self, key: str) -> Entry | None:
        """Return the value, or None when there is none."""
        check_key(key)
        return await self._connection.call(lambda client: self._read(client, key))

    def read_backwards(self, key: str) -> AsyncGenerator[bytes, None]:
        """Iterate over a log from its end to its beginning; see `MemoryBackend.read_backwards`."""
        return blob_log.blocks_backwards(self._connection, check_key(key), self._limits)

    async def write(self, key: str, data: bytes, *, if_match: str = "", if_absent: bool = False) -> str:
        """Write the whole value and return its new etag. Raises `ConcurrencyError` when the condition fails."""
        if if_match and if_absent:
            raise ValueError("if_match and if_absent exclude each other")
        check_key(key)
        if _AND in if_match:
            raise StorageError(
                f"The log {key!r} has grown into several blobs and cannot be replaced as one.",
                remedy="Write to another key, and delete this one.",
            )
        write = _Write(key, bytes(data), if_match, if_absent, uuid.uuid4().hex)
        return await self._connection.call(write.attempt)

    async def append(self, key: str, line: bytes) -> None:
        """Append one line (without its newline), whole, also when several processes append."""
        check_key(key)
        await self._tail(key).append(check_line(key, line))

    async def extend(self, key: str, data: bytes, at: int) -> None:
        """Append many lines at once to a log that is exactly ``at`` bytes long. Raises `ConcurrencyError`."""
        check_key(key)

        async def attempt(client: ContainerClient) -> None:
            try:
                await blob_log.extend(client, key, data, at)
            except ConcurrencyError:
                entry = await self._read(client, key)
                if entry is None or entry.data[at : at + len(data)] != data:
                    raise

        await self._connection.call(attempt)

    async def list(self, prefix: str = "") -> list[str]:
        """Return the keys that start with ``prefix``, sorted."""
        check_prefix(prefix)

        async def names(client: ContainerClient) -> list[str]:
            return [name async for name in client.list_blob_names(name_starts_with=prefix or None)]

        return sorted(name for name in await self._connection.call(names) if is_key(name))

    async def delete(self, key: str, *, if_match: str = "") -> None:
        """Delete the value; it is no error when there is none. Raises `ConcurrencyError` when ``if_match`` fails."""
        check_key(key)

        async def attempt(client: ContainerClient) -> None:
            await _delete(client, key, if_match.partition(_AND)[0])
            async for part in client.list_blob_names(name_starts_with=f"{blob_log.PARTS}/{key}/"):
                await _delete(client, part, "")

        await self._connection.call(attempt)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connection.aclose()

    async def _read(self, client: ContainerClient, key: str) -> Entry | None:
        found = await _download(client, key)
        if found is None:
            return None
        datas, etags, newest = [found.data], [found.properties.etag], found
        for name, _ in await blob_log.later_parts(client, key, found.properties, self._limits):
            if (part := await _download(client, name)) is None:
                break
            datas.append(part.data)
            etags.append(part.properties.etag)
            newest = part
        return Entry(b"".join(datas), _AND.join(etags), newest.age)

    def _tail(self, key: str) -> blob_log.Tail:
        if key not in self._tails and len(self._tails) >= _KNOWN_TAILS:
            self._tails = {name: tail for name, tail in self._tails.items() if tail.busy}
        return self._tails.setdefault(key, blob_log.Tail(self._connection, key, self._limits))


@dataclass(frozen=True)
class _Downloaded:
    data: bytes
    properties: Any
    age: float


@dataclass(frozen=True)
class _Write:
    """One write of a whole value, however often it is tried."""

    key: str
    data: bytes
    if_match: str
    if_absent: bool
    mark: str

    async def attempt(self, client: ContainerClient) -> str:
        """Try it; a condition that failed because an earlier try was carried out is a success."""
        from azure.core.exceptions import ResourceExistsError, ResourceModifiedError

        blob = client.get_blob_client(self.key)
        condition = _unchanged(self.if_match)
        try:
            done = await blob.upload_blob(
                self.data, overwrite=not self.if_absent, metadata={_MARK: self.mark}, **condition
            )
            return str(done["etag"])
        except (ResourceExistsError, ResourceModifiedError) as error:
            present = await blob_log.properties_of(client, self.key)
            if present is not None and present.metadata.get(_MARK) == self.mark:
                return str(present.etag)
            if not (self.if_match or self.if_absent) or code_of(error).startswith(("Lease", "Container")):
                raise
            what = "exists already" if self.if_absent else "was changed in the meantime"
            raise ConcurrencyError(f"{self.key!r} {what}.", remedy="Read it and decide again.") from None


async def _download(client: ContainerClient, name: str) -> _Downloaded | None:
    from azure.core.exceptions import ResourceNotFoundError

    seen: list[Any] = []
    try:
        stream = await client.get_blob_client(name).download_blob(raw_response_hook=seen.append)
        data = await stream.readall()
    except ResourceNotFoundError as error:
        if code_of(error) == "ContainerNotFound":
            raise
        return None
    return _Downloaded(data, stream.properties, _age(stream.properties.last_modified, seen))


def _age(last_modified: datetime, responses: list[Any]) -> float:
    date = responses[-1].http_response.headers.get("Date", "") if responses else ""
    now = parsedate_to_datetime(date) if date else datetime.now(UTC)
    return max(0.0, (now - last_modified).total_seconds())


async def _delete(client: ContainerClient, name: str, if_match: str) -> None:
    from azure.core.exceptions import ResourceModifiedError, ResourceNotFoundError

    try:
        await client.get_blob_client(name).delete_blob(delete_snapshots="include", **_unchanged(if_match))
    except ResourceNotFoundError as error:
        if code_of(error) == "ContainerNotFound":
            raise
    except ResourceModifiedError:
        if await blob_log.properties_of(client, name) is None:
            return
        raise ConcurrencyError(f"{name!r} was changed in the meantime.", remedy="Read it and decide again.") from None


def _unchanged(etag: str) -> dict[str, Any]:
    from azure.core import MatchConditions

    return {"etag": etag, "match_condition": MatchConditions.IfNotModified} if etag else {}
