"""What every backend promises. Subclass it with a ``backend`` fixture."""

from contextlib import suppress

import anyio
import pytest

from entrabot_host.errors import ConcurrencyError, StorageError
from entrabot_host.storage.backend import FIRST_BLOCK, MemoryBackend

BAD_KEYS = [
    "",
    "/etc/passwd",
    "..",
    "../x",
    "a/../../x",
    "a//b",
    "a/",
    ".",
    "a/./b",
    ".hidden",
    "a\0b",
    "a\nb",
    "a\\b",
    "C:/x",
    "a/\ud800",
    "dot.",
    "space ",
    "x" * 201,
    "/".join(["x" * 100] * 10),
]


class BackendContract:
    async def test_what_was_written_is_read(self, backend: MemoryBackend) -> None:
        etag = await backend.write("a/b.json", b"\x00one\n")
        entry = await backend.read("a/b.json")
        assert entry is not None
        assert (entry.data, entry.etag) == (b"\x00one\n", etag)
        assert 0 <= entry.age < 30

    async def test_nothing_is_none(self, backend: MemoryBackend) -> None:
        assert await backend.read("a") is None
        await backend.write("a/b", b"")
        assert await backend.read("a") is None
        assert await backend.read("a/b/c") is None
        await backend.delete("nothing/here")

    async def test_etags_differ_for_every_write_also_of_the_same_content(self, backend: MemoryBackend) -> None:
        seen = set()
        for number in range(60):
            seen.add(await backend.write("a", b"x" if number % 2 else b"y"))
            if number % 10 == 0:
                await backend.delete("a")
        assert len(seen) == 60

    async def test_a_condition_on_an_old_version_fails_and_changes_nothing(self, backend: MemoryBackend) -> None:
        old = await backend.write("a", b"1")
        new = await backend.write("a", b"2", if_match=old)
        for attempt in (backend.write("a", b"3", if_match=old), backend.delete("a", if_match=old)):
            with pytest.raises(ConcurrencyError):
                await attempt
        entry = await backend.read("a")
        assert entry is not None
        assert (entry.data, entry.etag) == (b"2", new)
        await backend.delete("a", if_match=new)
        assert await backend.read("a") is None
        with pytest.raises(ConcurrencyError):
            await backend.write("a", b"4", if_match=new)

    async def test_aba_is_noticed(self, backend: MemoryBackend) -> None:
        old = await backend.write("a", b"A")
        await backend.write("a", b"B")
        await backend.write("a", b"A")
        with pytest.raises(ConcurrencyError):
            await backend.write("a", b"C", if_match=old)

    async def test_if_absent_has_one_winner(self, backend: MemoryBackend) -> None:
        won = []

        async def attempt(number: int) -> None:
            try:
                await backend.write("first", b"%d" % number, if_absent=True)
            except ConcurrencyError:
                return
            won.append(number)

        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(attempt, number)
        entry = await backend.read("first")
        assert entry is not None
        assert [b"%d" % number for number in won] == [entry.data]

    async def test_lines_are_appended_whole_and_change_the_etag(self, backend: MemoryBackend) -> None:
        await backend.append("log.jsonl", b"one")
        before = await backend.read("log.jsonl")
        await backend.append("log.jsonl", b"")
        await backend.append("log.jsonl", b"three")
        after = await backend.read("log.jsonl")
        assert before is not None
        assert after is not None
        assert after.data == b"one\n\nthree\n"
        assert after.etag != before.etag

    @pytest.mark.parametrize("line", [b"two\nlines", b"\n", b"a\r"])
    async def test_a_line_with_a_break_is_refused(self, backend: MemoryBackend, line: bytes) -> None:
        with pytest.raises(StorageError):
            await backend.append("log", line)
        assert await backend.read("log") is None

    async def test_listing_is_by_prefix_and_sorted(self, backend: MemoryBackend) -> None:
        for key in ("b/2", "b/1", "bc", "a/x/y"):
            await backend.write(key, b"")
        assert await backend.list() == ["a/x/y", "b/1", "b/2", "bc"]
        assert await backend.list("b") == ["b/1", "b/2", "bc"]
        assert await backend.list("b/") == ["b/1", "b/2"]
        assert await backend.list("a/x/y") == ["a/x/y"]
        assert await backend.list("zz/") == []

    @pytest.mark.parametrize("key", BAD_KEYS)
    async def test_bad_keys_are_refused(self, backend: MemoryBackend, key: str) -> None:
        for call in (
            lambda: backend.read(key),
            lambda: backend.write(key, b""),
            lambda: backend.append(key, b""),
            lambda: backend.delete(key),
        ):
            with pytest.raises(StorageError):
                await call()

    async def test_a_key_that_is_also_a_folder_is_refused_or_kept_apart(self, backend: MemoryBackend) -> None:
        await backend.write("a/b", b"1")
        with suppress(StorageError):
            await backend.write("a", b"2")
        entry = await backend.read("a/b")
        assert entry is not None
        assert entry.data == b"1"


class LogContract:
    async def test_a_log_is_read_backwards_as_it_was_at_the_first_block(self, backend: MemoryBackend) -> None:
        assert [block async for block in backend.read_backwards("log")] == []
        lines = [b"%06d" % number + b"x" * 9000 for number in range(60)]
        for line in lines:
            await backend.append("log", line)
        blocks = []
        async for block in backend.read_backwards("log"):
            if not blocks:
                await backend.append("log", b"later")
            blocks.append(block)
        assert len(blocks) > 2
        assert b"".join(reversed(blocks)) == b"".join(line + b"\n" for line in lines)
        assert len(blocks[0]) == FIRST_BLOCK

    async def test_an_empty_value_has_no_blocks(self, backend: MemoryBackend) -> None:
        await backend.write("log", b"")
        assert [block async for block in backend.read_backwards("log")] == []
        with pytest.raises(StorageError):
            [block async for block in backend.read_backwards("../log")]
