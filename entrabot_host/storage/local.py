"""State in plain files on this machine, shared safely by several processes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from entrabot_host.errors import ConcurrencyError, StorageError
from entrabot_host.host import Entry
from entrabot_host.storage import files
from entrabot_host.storage.backend import FIRST_BLOCK, LARGEST_BLOCK
from entrabot_host.storage.keys import check_key, check_line, check_prefix, is_key
from entrabot_host.storage.workers import Ticket, Workers

ResultT = TypeVar("ResultT")

LOCKS = ".locks"
CLOCK = ".clock"
LOCK_SECONDS = 10.0
_LOCK_POLL_SECONDS = 0.005
_LOCK_FILES = 256


class LocalBackend:
    """Implements `MemoryBackend` on a folder: one file per key, readable by its owner only.

    A value is replaced at once (temporary file, rename), conditions are checked under an operating-system lock, and
    both file and folder are flushed before a call returns. An etag is made of the file's inode, content and a time
    stamp that differs for every version; an age is the file's time against the file system's own clock, so processes
    on other machines with other clocks agree about it. A fixed set of lock files serves all keys.
    """

    name = "local"

    def __init__(self, root: Path, *, lock_seconds: float = LOCK_SECONDS) -> None:
        self._root = root.absolute()
        self._lock_seconds = lock_seconds
        self._workers = Workers(f"folder {self._root}")

    @property
    def location(self) -> str:
        """The folder."""
        return str(self._root)

    async def check(self) -> None:
        """Create the folder, prove that it takes files, and remove what crashed writers left."""
        await self._run(lambda _: self._check())

    async def read(self, key: str) -> Entry | None:
        """Return the value, or None when there is none."""
        check_key(key)
        return await self._run(lambda _: self._read(key))

    async def read_backwards(self, key: str) -> AsyncGenerator[bytes, None]:
        """Iterate over a log from its end to its beginning; see `MemoryBackend.read_backwards`."""
        check_key(key)
        end: int | None = None
        size = FIRST_BLOCK
        while end != 0:
            found = await self._run(lambda _, end=end, size=size: files.read_block(self._path(key), end, size))  # type: ignore[misc]
            if found is None:
                return
            block, end = found
            if block:
                yield block
            size = min(2 * size, LARGEST_BLOCK)

    async def write(self, key: str, data: bytes, *, if_match: str = "", if_absent: bool = False) -> str:
        """Write the whole value and return its new etag. Raises `ConcurrencyError` when the condition fails."""
        if if_match and if_absent:
            raise ValueError("if_match and if_absent exclude each other")
        check_key(key)
        content = bytes(data)
        return await self._run(lambda ticket: self._write(key, content, if_match, if_absent, ticket))

    async def append(self, key: str, line: bytes) -> None:
        """Append one line (without its newline), whole, also when several processes append."""
        check_key(key)
        content = check_line(key, line)
        await self._run(lambda ticket: self._append(key, content, ticket))

    async def list(self, prefix: str = "") -> list[str]:
        """Return the keys that start with ``prefix``, sorted."""
        return await self._run(lambda _: _keys(self._folder_of(prefix), self._root, prefix))

    async def delete(self, key: str, *, if_match: str = "") -> None:
        """Delete the value; it is no error when there is none. Raises `ConcurrencyError` when ``if_match`` fails."""
        check_key(key)
        await self._run(lambda ticket: self._delete(key, if_match, ticket))

    async def aclose(self) -> None:
        """Let go of the threads."""
        self._workers.close()

    async def _run(self, work: Callable[[Ticket], ResultT]) -> ResultT:
        def explained(ticket: Ticket) -> ResultT:
            try:
                return work(ticket)
            except OSError as error:
                raise files.explain(error, self._root) from None

        return await self._workers.run(explained)

    def _check(self) -> None:
        files.make_folder(self._root)
        with files.temporary_file(self._root, b"a probe"):
            pass
        files.remove_leftovers(self._root, files.clock(self._root / CLOCK))

    def _read(self, key: str) -> Entry | None:
        found = files.read_file(self._path(key))
        if found is None:
            return None
        data, status = found
        return Entry(data, _etag(data, status), max(0.0, files.clock(self._root / CLOCK) - status.st_mtime))

    def _write(self, key: str, data: bytes, if_match: str, if_absent: bool, ticket: Ticket) -> str:
        path = self._path(key)
        files.make_folder(path.parent)
        with self._locked(key, ticket):
            present = files.read_file(path)
            _check_condition(key, present, if_match, if_absent)
            with files.temporary_file(path.parent, data) as temporary:
                files.stamp(temporary, present and present[1])
                etag = _etag(data, temporary.stat())
                ticket.check()
                temporary.replace(path)
            files.sync_folder(path.parent)
        return etag

    def _append(self, key: str, line: bytes, ticket: Ticket) -> None:
        path = self._path(key)
        files.make_folder(path.parent)
        with self._locked(key, ticket):
            ticket.check()
            files.append_line(path, line)

    def _delete(self, key: str, if_match: str, ticket: Ticket) -> None:
        path = self._path(key)
        if files.read_file(path) is None:
            return
        with self._locked(key, ticket):
            present = files.read_file(path)
            if present is None:
                return
            _check_condition(key, present, if_match, if_absent=False)
            ticket.check()
            path.unlink()
            files.sync_folder(path.parent)

    def _path(self, key: str) -> Path:
        """Return the file of a key, after making sure that no link on the way leads out of the folder."""
        path = self._root / key
        self._check_inside(path.parent)
        return path

    def _folder_of(self, prefix: str) -> Path:
        folder = self._root / check_prefix(prefix).rpartition("/")[0]
        self._check_inside(folder)
        return folder

    def _check_inside(self, folder: Path) -> None:
        if not folder.resolve().is_relative_to(self._root.resolve()):
            raise StorageError(
                f"The folder {folder} leads out of {self._root} through a symbolic link.",
                remedy="Replace the link by a folder.",
            )

    @contextmanager
    def _locked(self, key: str, ticket: Ticket) -> Iterator[None]:
        from filelock import FileLock, Timeout

        files.make_folder(self._root / LOCKS)
        number = int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big") % _LOCK_FILES
        lock = FileLock(
            self._root / LOCKS / f"{number:02x}.lock",
            timeout=self._lock_seconds,
            mode=0o600,
            poll_interval=_LOCK_POLL_SECONDS,
        )
        try:
            lock.acquire()
        except Timeout:
            raise StorageError(
                f"Another process has been holding {key!r} in {self._root} for {self._lock_seconds:g} seconds.",
                remedy="Try again; if it persists, look for a hanging entrabot process.",
            ) from None
        try:
            ticket.check()
            yield
        finally:
            lock.release()


def _etag(data: bytes, status: os.stat_result) -> str:
    digest = hashlib.blake2b(data, digest_size=8).hexdigest()
    return f"{status.st_mtime_ns:x}-{status.st_ino:x}-{digest}"


def _check_condition(key: str, present: tuple[bytes, os.stat_result] | None, if_match: str, if_absent: bool) -> None:
    if if_absent and present is not None:
        raise ConcurrencyError(f"{key!r} exists already.", remedy="Read it and decide again.")
    if if_match and (present is None or _etag(*present) != if_match):
        raise ConcurrencyError(f"{key!r} was changed in the meantime.", remedy="Read it and decide again.")


def _keys(start: Path, root: Path, prefix: str) -> list[str]:
    found = []
    for folder, folders, names in os.walk(start, onerror=_unless_missing):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            key = Path(folder, name).relative_to(root).as_posix()
            if key.startswith(prefix) and _is_value(Path(folder, name), key):
                found.append(key)
    return sorted(found)


def _is_value(path: Path, key: str) -> bool:
    return is_key(key) and path.is_file() and not path.is_symlink()


def _unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error
