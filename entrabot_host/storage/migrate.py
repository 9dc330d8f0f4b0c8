"""Copying the state of this machine into a Blob container. It may be repeated, and takes nothing away."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from entrabot_host.errors import ConcurrencyError, EntrabotError, StorageError
from entrabot_host.storage.blob import BlobBackend
from entrabot_host.storage.blob_connection import PIECE_BYTES, Patience
from entrabot_host.storage.files import is_json
from entrabot_host.storage.keys import is_key
from entrabot_host.storage.local import LocalBackend

LEDGER = "migration.json"
"""What was copied once, by the digest of its source: it may change in the container, and is no conflict then."""
SESSIONS = "sessions/"
PATIENCE = Patience(seconds=600.0, one_try=300.0)
"""Files may be large and lines slow, and nobody's call waits."""
_AT_ONCE = 8
_TRIES = 10


class State(StrEnum):
    """What became of a file."""

    COPIED = "copied"
    PRESENT = "already there"
    CHANGED_SINCE = "copied earlier, changed there since"
    CONFLICT = "conflict"
    FAILED = "failed"


@dataclass(frozen=True)
class FileReport:
    """One file. size: in bytes. reason: why it was not copied."""

    key: str
    state: State
    size: int = 0
    reason: str = ""

    @property
    def ok(self) -> bool:
        """Whether the container has what the file held."""
        return self.state not in (State.CONFLICT, State.FAILED)


Begun = Callable[[int], None]
Done = Callable[[FileReport], None]


class Migration:
    """Copies from a folder to a container. begun: is told the number of files; done: is told about each."""

    def __init__(self, source: LocalBackend, target: BlobBackend, begun: Begun, done: Done) -> None:
        self._source = source
        self._target = target
        self._begun = begun
        self._done = done
        self._gate = asyncio.Semaphore(_AT_ONCE)
        self._copied: dict[str, str] = {}

    async def run(self) -> list[FileReport]:
        """Copy all files and return the reports by key. Raises `StorageError` when nothing can be copied at all."""
        await self._target.check()
        root = Path(self._source.location)
        if live := await asyncio.to_thread(live_sessions, root):
            raise StorageError(
                f"{len(live)} running servers keep their state in {root}.",
                remedy="End the agent's hosts, then migrate.",
            )
        keys = [key for key in await self._source.list() if not key.startswith(SESSIONS) and key != LEDGER]
        others = await asyncio.to_thread(_nameless, root)
        self._begun(len(keys) + len(others))
        known = await self._ledger()
        reports = [FileReport(name, State.FAILED, reason="its name cannot be a key") for name in others]
        for report in reports:
            self._done(report)
        reports += await asyncio.gather(*(self._one(key, known.get(key, "")) for key in keys))
        await self._remember()
        return sorted(reports, key=lambda report: report.key)

    async def _one(self, key: str, copied_before: str) -> FileReport:
        async with self._gate:
            try:
                report = await self._copy(key, copied_before)
            except EntrabotError as error:
                report = FileReport(key, State.FAILED, reason=f"{error.message} {error.remedy}".strip())
        self._done(report)
        return report

    async def _copy(self, key: str, copied_before: str) -> FileReport:
        entry = await self._source.read(key)
        if entry is None:
            return FileReport(key, State.FAILED, reason="it disappeared")
        log = key.endswith(".jsonl")
        data = _whole_lines(entry.data) if log else entry.data
        digest = hashlib.sha256(data).hexdigest()
        present = await self._target.read(key)
        state = State.PRESENT
        if present is None or (log and present.data != data and data.startswith(present.data)):
            state = await self._write(key, data, len(present.data) if present else 0, log and bool(data))
        elif present.data != data and not (log and present.data.startswith(data)):
            state = State.CHANGED_SINCE if digest == copied_before else State.CONFLICT
        if state is State.CONFLICT:
            return FileReport(key, state, len(data), "the container holds something else, which was left as it is")
        self._copied[key] = digest
        return FileReport(key, state, len(data))

    async def _write(self, key: str, data: bytes, begin: int, log: bool) -> State:
        try:
            if log:
                for at, chunk in _chunks(data, begin):
                    await self._target.extend(key, chunk, at)
            else:
                await self._target.write(key, data, if_absent=True)
        except ConcurrencyError:
            return State.CONFLICT
        return State.COPIED

    async def _ledger(self) -> dict[str, str]:
        entry = await self._target.read(LEDGER)
        return _parse(entry.data) if entry else {}

    async def _remember(self) -> None:
        for _ in range(_TRIES):
            entry = await self._target.read(LEDGER)
            known = _parse(entry.data) if entry else {}
            if known == (wanted := {**known, **self._copied}):
                return
            data = json.dumps({"files": wanted}, indent=1, sort_keys=True).encode() + b"\n"
            try:
                await self._target.write(LEDGER, data, if_match=entry.etag if entry else "", if_absent=entry is None)
            except ConcurrencyError:
                continue
            return
        raise StorageError("Somebody else keeps writing the record of migrations.", remedy="Migrate once more.")


def live_sessions(root: Path) -> list[str]:
    """Return the ids of sessions whose lock is held. Blocks; changes nothing."""
    from filelock import FileLock, Timeout

    live = []
    for path in sorted((root / SESSIONS).glob("*.lock")):
        lock = FileLock(path, mode=0o600, thread_local=False)
        try:
            lock.acquire(blocking=False)
        except (Timeout, OSError):
            live.append(path.stem)
        else:
            lock.release()
    return live


def _nameless(root: Path) -> list[str]:
    """Return the files that no key can name; hidden ones are the store's own, or the system's."""
    names = []
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        inside = [Path(folder, name).relative_to(root).as_posix() for name in files if not name.startswith(".")]
        names += [name for name in inside if not is_key(name) and not name.startswith(SESSIONS)]
    return [ascii(name)[1:-1] for name in sorted(names)]


def _whole_lines(data: bytes) -> bytes:
    """Leave out what a crash cut off: nobody was told that it is there."""
    head, newline, tail = data.rpartition(b"\n")
    if not tail:
        return data
    return head + newline + (tail + b"\n" if is_json(tail) else b"")


def _chunks(data: bytes, begin: int) -> Iterator[tuple[int, bytes]]:
    """Cut at ends of lines, so that a copy that is interrupted holds whole lines."""
    while begin < len(data):
        end = data.rfind(b"\n", begin, begin + PIECE_BYTES) + 1 or data.find(b"\n", begin) + 1 or len(data)
        yield begin, data[begin:end]
        begin = end


def _parse(data: bytes) -> dict[str, str]:
    try:
        return {str(key): str(digest) for key, digest in json.loads(data)["files"].items()}
    except (ValueError, KeyError, AttributeError, TypeError):
        return {}
