"""Sessions: which ones live, told by locks that the kernel releases when a process dies; and how their hosts listen."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from entrabot_host.delivery.claims import Kind
from entrabot_host.errors import StorageError
from entrabot_host.storage import files
from entrabot_host.storage.workers import Ticket, Workers

if TYPE_CHECKING:
    from filelock import BaseFileLock

FOLDER = "sessions"
ELSEWHERE_SECONDS = 600.0
"""For how long after its last write a session of another machine counts as alive."""
_ATTEMPTS = 5
_LOCK_SECONDS = 5.0
_ID = re.compile(r"[0-9a-f]{32}")


class Sessions:
    """This session's lock, and a look at those of others, in ``<data folder>/sessions``.

    The id is new for every process. Child processes must be spawned, not forked, or they would inherit the lock.
    Beside ``<id>.lock`` lies ``<id>.json``, which says how the session's host listens.
    """

    def __init__(self, data_folder: Path) -> None:
        self.id = uuid.uuid4().hex
        self.shared = False
        """Whether records are shared with other machines, whose locks cannot be seen."""
        self._folder = data_folder / FOLDER
        self._lock: BaseFileLock | None = None
        self._starting = asyncio.Lock()
        self._workers = Workers(f"folder {self._folder}", threads=2)
        self._card = (Kind.NONE, "")
        self._published: tuple[Kind, str] | None = None

    def introduce(self, kind: Kind, client: str) -> None:
        """Say how this session's host listens; others learn it with the next `start`."""
        self._card = (kind, client)

    @property
    def outdated(self) -> bool:
        """Whether others see something that `introduce` has changed."""
        return self._published not in (None, self._card)

    async def start(self) -> None:
        """Take this session's lock and remove the files of dead sessions; publish what `introduce` said.

        Raises `StorageError`. Does nothing when there is nothing to do.
        """
        if self._published == self._card:
            return
        async with self._starting:
            if self._lock is None:
                self._lock = await self._workers.run(self._take)
            if self._published != (card := self._card):
                await self._workers.run(lambda _: self._publish(card))
                self._published = card

    async def alive(self, session: str) -> bool:
        """Whether the session with this id runs on this machine."""
        return session == self.id or await self.look(session) is not None

    async def look(self, session: str, age: float | None = None) -> Kind | None:
        """Return how the host of a live session listens, None when the session is dead.

        age: seconds since the record that names it was written, which decides about sessions of other machines.
        """
        if session == self.id:
            return self._card[0]
        if not _ID.fullmatch(session):
            return None
        kind = await self._workers.run(lambda _: self._look(session))
        if kind is None and self.shared and age is not None and age < ELSEWHERE_SECONDS:
            return Kind.ASSUMED
        return kind

    async def others_push(self) -> bool:
        """Whether other hosts that are pushed to live beside this one; on a shared store nobody can tell."""
        return self.shared or await self._workers.run(lambda _: self._others_push())

    async def aclose(self) -> None:
        """Release the lock at once."""
        lock, self._lock = self._lock, None
        if lock is not None:
            with suppress(OSError):
                self._path(self.id, "json").unlink(missing_ok=True)
                self._path(self.id).unlink(missing_ok=True)
            lock.release()
        self._workers.close()

    def _path(self, session: str, suffix: str = "lock") -> Path:
        return self._folder / f"{session}.{suffix}"

    def _take(self, _: Ticket) -> BaseFileLock:
        try:
            files.make_folder(self._folder)
            lock = self._acquire()
            for path in self._folder.iterdir():
                if path.stem != self.id and _ID.fullmatch(path.stem):
                    self._is_held(path.stem)
        except OSError as error:
            raise files.explain(error, self._folder) from None
        return lock

    def _acquire(self) -> BaseFileLock:
        path = self._path(self.id)
        for _ in range(_ATTEMPTS):  # another session that cleans up may remove the file before it is locked
            lock = _lock(path)
            lock.acquire(timeout=_LOCK_SECONDS)
            if path.exists():
                return lock
            lock.release()
        raise StorageError(f"The session lock {path} keeps disappearing.")

    def _publish(self, card: tuple[Kind, str]) -> None:
        kind, client = card
        data = json.dumps({"push": str(kind), "client": client}).encode() + b"\n"
        try:
            with files.temporary_file(self._folder, data) as temporary:
                temporary.replace(self._path(self.id, "json"))
        except OSError as error:
            raise files.explain(error, self._folder) from None

    def _others_push(self) -> bool:
        try:
            others = [path.stem for path in self._folder.glob("*.lock") if _ID.fullmatch(path.stem)]
        except OSError as error:
            raise files.explain(error, self._folder) from None
        kinds = [self._look(other) for other in others if other != self.id]
        return any(kind is not None and kind.pushes for kind in kinds)

    def _look(self, session: str) -> Kind | None:
        if not self._is_held(session):
            return None
        try:
            found = files.read_file(self._path(session, "json"))
            return Kind(json.loads(found[0])["push"]) if found else Kind.ASSUMED
        except (OSError, ValueError, KeyError, TypeError):
            return Kind.ASSUMED  # it has just begun, or is of another version: it gets its beat

    def _is_held(self, session: str) -> bool:
        """Whether the session lives; the files of one that does not are removed."""
        from filelock import Timeout

        path = self._path(session)
        card = self._path(session, "json")
        try:
            if path.exists():
                with _lock(path).acquire(blocking=False):
                    path.unlink(missing_ok=True)
            card.unlink(missing_ok=True)
        except Timeout:
            return True
        except OSError as error:
            raise StorageError(f"The session lock {path} cannot be read: {error.strerror}.") from None
        return False


def _lock(path: Path) -> BaseFileLock:
    from filelock import FileLock

    return FileLock(path, mode=0o600, thread_local=False)
