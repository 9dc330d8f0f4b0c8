"""File operations that survive a crash at any moment. All of them block; run them in a worker thread."""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import RawIOBase
from pathlib import Path

from entrabot_host.errors import StorageError

TEMPORARY = ".tmp-"
LEFTOVER_SECONDS = 600
_TAIL_STEP = 64 << 10
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_BASE_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | _NOFOLLOW
_READ_FLAGS = _BASE_FLAGS | os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)
_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR})


def make_folder(folder: Path) -> None:
    """Create ``folder`` and what is missing above it, each for its owner only."""
    if folder.is_dir():
        return
    if folder.parent != folder:
        make_folder(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)


def sync_folder(folder: Path) -> None:
    """Make a new, replaced or removed name durable. Where a folder cannot be opened, nothing is done."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_file(path: Path) -> tuple[bytes, os.stat_result] | None:
    """Return the content of a regular file and its status, taken before reading; None when there is no such file.

    A symbolic link is refused with an `OSError`.
    """
    try:
        descriptor = os.open(path, _READ_FLAGS)
    except OSError as error:
        if error.errno in _NOT_THERE:
            return None
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read(), status


def read_block(path: Path, end: int | None, size: int) -> tuple[bytes, int] | None:
    """Return at most ``size`` bytes that come before the offset ``end`` (None: the end), and the offset they begin at.

    None when there is no such regular file, or it is shorter by now. Opened as `read_file` does.
    """
    try:
        descriptor = os.open(path, _READ_FLAGS)
    except OSError as error:
        if error.errno in _NOT_THERE:
            return None
        raise
    with os.fdopen(descriptor, "rb", buffering=0) as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size < (end or 0):
            return None
        stop = status.st_size if end is None else end
        start = max(0, stop - size)
        stream.seek(start)
        return _read_all(stream, stop - start), start


def _read_all(stream: RawIOBase, count: int) -> bytes:
    parts = []
    while count and (part := stream.read(count)):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


@contextmanager
def temporary_file(folder: Path, data: bytes) -> Iterator[Path]:
    """Yield a durable temporary file that holds ``data``; it is gone afterwards unless it was renamed."""
    path = folder / f"{TEMPORARY}{secrets.token_hex(8)}"
    descriptor = os.open(path, _BASE_FLAGS | os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        try:
            _write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        yield path
    finally:
        with suppress(FileNotFoundError):
            path.unlink()


def stamp(path: Path, previous: os.stat_result | None) -> None:
    """Give a file a modification time that its previous version did not have.

    The digits below a millisecond are random, so an older version's time does not come back either. The steps are for
    file systems that keep times coarsely.
    """
    now = path.stat().st_mtime_ns
    for step in (0, 1_000, 1_000_000, 1_000_000_000, 2_000_000_000):
        wanted = now - now % 1_000_000 + step + secrets.randbelow(1_000_000)
        os.utime(path, ns=(wanted, wanted))
        if previous is None or path.stat().st_mtime_ns != previous.st_mtime_ns:
            return


def append_line(path: Path, line: bytes) -> None:
    """Append a line and make it durable; the caller holds the lock.

    What a crash left of a last line, without its newline, is dealt with first: in a ``.jsonl`` file it is removed when
    it is no JSON (nobody was told that it is there, and the file is to parse), else it is ended. When the write fails
    half-way (a full disk), the file is cut back to what it was.
    """
    known = path.exists()
    descriptor = os.open(path, _BASE_FLAGS | os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        torn = _unended(descriptor, size)
        if torn and path.suffix == ".jsonl" and not is_json(torn):
            size -= len(torn)
            os.ftruncate(descriptor, size)
            torn = b""
        try:
            _write_all(descriptor, (b"\n" if torn else b"") + line + b"\n")
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)
    if not known:
        sync_folder(path.parent)


def clock(probe: Path) -> float:
    """Return the file system's own time, in seconds: it need not be this machine's (a network drive)."""
    try:
        os.close(os.open(probe, _BASE_FLAGS | os.O_WRONLY | os.O_CREAT, 0o600))
        os.utime(probe)
        return probe.stat().st_mtime
    except OSError:  # a read-only folder: nobody can hold a lease in it either
        return time.time()


def remove_leftovers(root: Path, now: float) -> None:
    """Remove temporary files whose writers died."""
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            if name.startswith(TEMPORARY):
                with suppress(OSError):
                    if now - path.lstat().st_mtime > LEFTOVER_SECONDS:
                        path.unlink()


def explain(error: OSError, folder: Path) -> StorageError:
    """Say in the operator's words why the disk refused."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        what, remedy = "is on a full disk", "Free some space; nothing that was stored before has changed."
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        what, remedy = "cannot be written or read", "Check its owner and permissions, or choose another folder."
    elif error.errno == errno.ELOOP:
        what, remedy = "holds a symbolic link where a file should be", "Replace the link by the file itself."
    else:
        what, remedy = "refused the operation", "Check the disk and the folder."
    reason = error.strerror or type(error).__name__
    return StorageError(f"The folder {folder} {what}: {reason}.", remedy=remedy)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _unended(descriptor: int, size: int) -> bytes:
    """Return what comes after the last newline."""
    tail = b""
    step = 1  # mostly the last byte says that there is nothing
    while len(tail) < size and b"\n" not in tail:
        start = max(0, size - len(tail) - step)
        os.lseek(descriptor, start, os.SEEK_SET)  # O_APPEND moves back to the end for every write
        tail = os.read(descriptor, size - len(tail) - start) + tail
        step = _TAIL_STEP
    return tail.rpartition(b"\n")[2]


def is_json(text: bytes) -> bool:
    """Whether it is JSON."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
