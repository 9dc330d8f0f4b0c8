"""Sessions of this machine: which ones live, told by locks that the kernel releases when a process dies."""

from __future__ import annotations

import asyncio
import re
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from entrabot_host.errors import StorageError
from entrabot_host.storage import files
from entrabot_host.storage.workers import Ticket, Workers

if TYPE_CHECKING:
    from filelock import BaseFileLock

FOLDER = "sessions"
_ATTEMPTS = 5
_LOCK_SECONDS = 5.0
_ID = re.compile(r"[0-9a-f]{32}")


class Sessions:
    """This session's lock, and a look at those of others, in ``<data folder>/sessions``.

    The id is new for every process. Child processes must be spawned, not forked, or they would inherit the lock.
    """

    def __init__(self, data_folder: Path) -> None:
        self.id = uuid.uuid4().hex
        self._folder = data_folder / FOLDER
        self._lock: BaseFileLock | None = None
        self._starting = asyncio.Lock()
        self._workers = Workers(f"folder {self._folder}", threads=2)

    async def start(self) -> None:
        """Take this session's lock and remove the files of dead sessions. Raises `StorageError`. Idempotent."""
        async with self._starting:
            if self._lock is None:
                self._lock = await self._workers.run(self._take)

    async def alive(self, session: str) -> bool:
        """Whether the session with this id runs on this machine."""
        if session == self.id:
            return True
        if not _ID.fullmatch(session):
            return False
        return await self._workers.run(lambda _: self._is_held(self._folder / f"{session}.lock"))

    async def aclose(self) -> None:
        """Release the lock at once."""
        lock, self._lock = self._lock, None
        if lock is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
            lock.release()
        self._workers.close()

    @property
    def _path(self) -> Path:
        return self._folder / f"{self.id}.lock"

    def _take(self, _: Ticket) -> BaseFileLock:
        try:
            files.make_folder(self._folder)
            lock = self._acquire()
            for path in self._folder.glob("*.lock"):
                self._remove_if_dead(path)
        except OSError as error:
            raise files.explain(error, self._folder) from None
        return lock

    def _acquire(self) -> BaseFileLock:
        for _ in range(_ATTEMPTS):  # another session that cleans up may remove the file before it is locked
            lock = _lock(self._path)
            lock.acquire(timeout=_LOCK_SECONDS)
            if self._path.exists():
                return lock
            lock.release()
        raise StorageError(f"The session lock {self._path} keeps disappearing.")

    def _is_held(self, path: Path) -> bool:
        from filelock import Timeout

        if not path.exists():
            return False
        try:
            with _lock(path).acquire(blocking=False):
                path.unlink(missing_ok=True)
        except Timeout:
            return True
        except OSError as error:
            raise StorageError(f"The session lock {path} cannot be read: {error.strerror}.") from None
        return False

    def _remove_if_dead(self, path: Path) -> None:
        if path != self._path and _ID.fullmatch(path.stem):
            self._is_held(path)


def _lock(path: Path) -> BaseFileLock:
    from filelock import FileLock

    return FileLock(path, mode=0o600, thread_local=False)
