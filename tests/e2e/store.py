"""Another process at a server's store: reads and writes records between two writes of the server."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from filelock import FileLock

from entrabot_host.delivery.record import record_key
from entrabot_host.host import Conversation
from entrabot_host.storage.local import LOCKS

Json = dict[str, Any]
_LOCK_FILES = 256
_SECONDS = 20.0


class RecordOf:
    """The record of one conversation in a data folder, under the lock that every writer of it takes."""

    def __init__(self, folder: Path, conversation: Conversation) -> None:
        key = record_key(conversation)
        number = int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big") % _LOCK_FILES
        self._path = folder / key
        self._lock = FileLock(
            folder / LOCKS / f"{number:02x}.lock", timeout=_SECONDS, poll_interval=0.0005, thread_local=False
        )

    @classmethod
    def of_chat(cls, folder: Path, chat: str) -> Self:
        """The record of a chat."""
        return cls(folder, Conversation.chat(chat))

    def read(self) -> Json:
        """What it says now."""
        return dict(json.loads(self._path.read_bytes()))

    def change(self, **fields: Any) -> None:
        """Write other fields, as another process does with the lock in its hand; see `held`."""
        assert self._lock.is_locked
        temporary = self._path.with_name(".another")
        temporary.write_bytes(json.dumps({**self.read(), **fields}).encode())
        temporary.replace(self._path)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[Self]:
        """Keep everybody else from writing for the length of the block, which has to be short."""
        await asyncio.to_thread(self._lock.acquire)
        try:
            yield self
        finally:
            self._lock.release()

    async def let_one_write_through(self) -> Json:
        """Within `held`: let somebody else write once, hold the lock again, and return what was written."""
        return await asyncio.to_thread(self._let_one_write_through)

    def _let_one_write_through(self) -> Json:
        before, until = self._version(), time.monotonic() + _SECONDS
        self._lock.release()
        try:
            while self._version() == before:
                if time.monotonic() > until:
                    raise TimeoutError("nobody has written the record")
                time.sleep(0.0002)  # the writer still holds the lock when the new version shows
        finally:
            self._lock.acquire()
        return self.read()

    def _version(self) -> tuple[int, int]:
        status = self._path.stat()
        return status.st_ino, status.st_mtime_ns
