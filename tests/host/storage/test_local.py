"""Files of one process: the contract, permissions, links, torn lines, cancellation."""

import asyncio
import os
import stat
import tempfile
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st

from entrabot_host.errors import StorageError
from entrabot_host.storage import files
from entrabot_host.storage.keys import MAX_PART_BYTES, check_key, quoted
from entrabot_host.storage.local import LOCKS, LocalBackend
from entrabot_host.storage.workers import Abandoned, Ticket, Workers
from tests.host.storage.contract import BackendContract, LogContract

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX permissions and links")


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncIterator[LocalBackend]:
    backend = LocalBackend(tmp_path / "home" / "data")
    yield backend
    await backend.aclose()


class TestLocal(BackendContract, LogContract):
    pass


async def test_only_the_owner_may_look(backend: LocalBackend) -> None:
    before = os.umask(0)
    try:
        await backend.write("a/b", b"1")
        await backend.append("a/c", b"1")
    finally:
        os.umask(before)
    root = Path(backend.location)
    for path in (root.parent, root, *root.rglob("*")):
        expected = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == expected, path


async def test_links_that_leave_are_refused(backend: LocalBackend, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    await backend.check()
    (Path(backend.location) / "way").symlink_to(outside)
    (Path(backend.location) / "file").symlink_to(outside / "secret")
    for key in ("way/secret", "file"):
        with pytest.raises(StorageError):
            await backend.read(key)
        with pytest.raises(StorageError):
            await backend.append(key, b"more")
    with pytest.raises(StorageError):
        await backend.write("way/new", b"")
    with pytest.raises(StorageError):
        await backend.list("way/")
    assert await backend.list() == []
    assert (outside / "secret").read_bytes() == b"secret"
    assert [path.name for path in outside.iterdir()] == ["secret"]


async def test_a_pipe_in_the_folder_blocks_nobody(backend: LocalBackend) -> None:
    await backend.check()
    os.mkfifo(Path(backend.location) / "pipe")
    with anyio.fail_after(10):
        assert await backend.read("pipe") is None
        assert await backend.list() == []


async def test_a_torn_last_line_is_ended_and_kept(backend: LocalBackend) -> None:
    await backend.append("log", b"one")
    with (Path(backend.location) / "log").open("ab") as stream:
        stream.write(b'{"torn": ')
    await backend.append("log", b"two")
    await backend.append("log", b"three")
    assert (Path(backend.location) / "log").read_bytes() == b'one\n{"torn": \ntwo\nthree\n'


@pytest.mark.parametrize("left", [b'{"torn": ', b'{"torn": "' + b"x" * 200_000, b"\xff", b'"'])
async def test_in_a_file_of_json_lines_a_torn_line_is_removed(backend: LocalBackend, left: bytes) -> None:
    path = Path(backend.location) / "log.jsonl"
    for lines in (b"", b'{"a": 1}\n'):
        await backend.write("log.jsonl", lines + left)
        await backend.append("log.jsonl", b'{"b": 2}')
        assert path.read_bytes() == lines + b'{"b": 2}\n'
    await backend.write("log.jsonl", b'{"whole": 1}')
    await backend.append("log.jsonl", b'{"b": 2}')
    assert path.read_bytes() == b'{"whole": 1}\n{"b": 2}\n'


async def test_age_is_on_the_clock_of_the_files(backend: LocalBackend) -> None:
    await backend.write("a", b"1")
    past = time.time() - 100
    os.utime(Path(backend.location) / "a", (past, past))
    entry = await backend.read("a")
    assert entry is not None
    assert 99 < entry.age < 160
    os.utime(Path(backend.location) / "a", (past + 1000, past + 1000))
    entry = await backend.read("a")
    assert entry is not None
    assert entry.age == 0.0


async def test_leftovers_of_dead_writers_go_and_those_of_living_ones_stay(backend: LocalBackend) -> None:
    await backend.write("a/b", b"1")
    dead = Path(backend.location) / "a" / f"{files.TEMPORARY}dead"
    living = Path(backend.location) / "a" / f"{files.TEMPORARY}living"
    for path in (dead, living):
        path.write_bytes(b"half")
    past = time.time() - files.LEFTOVER_SECONDS - 60
    os.utime(dead, (past, past))
    assert await backend.list() == ["a/b"]
    await backend.check()
    assert not dead.exists()
    assert living.exists()


async def test_failed_writes_leave_no_temporary_files(backend: LocalBackend) -> None:
    await backend.write("folder/x", b"")
    with pytest.raises(StorageError):
        await backend.write("folder", b"value")
    assert not list(Path(backend.location).rglob(f"{files.TEMPORARY}*"))


async def test_a_lock_that_is_held_too_long_is_reported(tmp_path: Path) -> None:
    backend = LocalBackend(tmp_path, lock_seconds=0.1)
    await backend.write("a", b"1")
    with held_locks(tmp_path), pytest.raises(StorageError, match="Another process"):
        await backend.write("a", b"2")
    await backend.write("a", b"3")
    await backend.aclose()


async def test_a_cancelled_write_never_lands_later(tmp_path: Path) -> None:
    backend = LocalBackend(tmp_path)
    await backend.write("a", b"old")
    with held_locks(tmp_path):
        task = asyncio.create_task(backend.write("a", b"cancelled"))
        while not waiting_for_lock(backend):
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await backend.write("a", b"new")
    await asyncio.to_thread(backend._workers._pool.shutdown, True)
    assert (tmp_path / "a").read_bytes() == b"new"


def waiting_for_lock(backend: LocalBackend) -> bool:
    return backend._workers._pool._work_queue.empty() and bool(backend._workers._pool._threads)


def held_locks(root: Path) -> FileLock:
    """All keys used so far share one lock file in a fresh folder."""
    (path,) = (root / LOCKS).iterdir()
    return FileLock(path)


async def test_a_stuck_disk_is_given_up(tmp_path: Path) -> None:
    workers = Workers("a test", threads=1, timeout=0.1)
    release = threading.Event()
    outcome: list[str] = []

    def stuck(ticket: Ticket) -> None:
        release.wait(30)
        try:
            ticket.check()
        except Abandoned:
            outcome.append("abandoned")

    for _ in range(3):  # those behind the stuck one are given up, too
        with pytest.raises(StorageError, match="did not answer"):
            await workers.run(stuck)
    release.set()
    await asyncio.to_thread(workers._pool.shutdown, True)
    assert outcome == ["abandoned"]
    with pytest.raises(StorageError, match="closed"):
        await workers.run(stuck)


@given(st.text())
def test_any_key_is_refused_or_stays_inside(key: str) -> None:
    root = Path(tempfile.gettempdir()) / "root"
    try:
        check_key(key)
    except StorageError:
        return
    path = root / key
    assert path.resolve().is_relative_to(root.resolve())
    assert path.relative_to(root).as_posix() == key


@given(st.text(st.characters(), max_size=400))
def test_any_text_quoted_is_one_good_part(name: str) -> None:
    part = quoted(name)
    assert "/" not in part
    assert len(part) <= MAX_PART_BYTES
    if name:
        check_key(f"chats/{part}.json")


def test_quoted_is_what_existing_files_are_called() -> None:
    assert quoted("19:abc_d-e@thread.v2") == "19%3Aabc_d-e%40thread.v2"
    assert quoted("a" * 300) != quoted("a" * 301)


@given(name=st.lists(st.sampled_from(["..", ".", "a", "", "~", "%2e%2e", "\u2024\u2024", "\uff0f", "\\"]), max_size=5))
def test_hostile_paths(name: list[str]) -> None:
    key = "/".join(name)
    with tempfile.TemporaryDirectory() as folder:

        async def attempt() -> None:
            backend = LocalBackend(Path(folder) / "in" / "root")
            try:
                await backend.write(key, b"x")
            except StorageError:
                return
            finally:
                await backend.aclose()
            entry = await LocalBackend(Path(folder) / "in" / "root").read(key)
            assert entry is not None

        asyncio.run(attempt())
        assert {path.name for path in Path(folder).iterdir()} <= {"in"}
        assert {path.name for path in (Path(folder) / "in").glob("*")} <= {"root"}
