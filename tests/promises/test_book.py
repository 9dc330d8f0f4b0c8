"""Several sessions and one file."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from entrabot_promises import book as module

from entrabot_host import ConcurrencyError, EntrabotError, Entry
from tests.promises.parts import book


async def test_sessions_see_each_other(tmp_path: Path) -> None:
    one, other = book(tmp_path), book(tmp_path)
    made = await asyncio.gather(*(side.add("19:a@thread.v2", f"{n}", "") for n in range(10) for side in (one, other)))
    assert {promise.id for promise in await one.open()} == {promise.id for promise in made}
    assert len({promise.id for promise in made}) == 20


async def test_a_promise_is_resolved_once(tmp_path: Path) -> None:
    sides = [book(tmp_path) for _ in range(5)]
    promise = await sides[0].add("19:a@thread.v2", "the report", "")
    results = await asyncio.gather(*(side.resolve(promise.id, "sent") for side in sides), return_exceptions=True)
    refused = [result for result in results if isinstance(result, EntrabotError)]
    assert len(refused) == 4
    assert all("already" in error.message and error.details == {"resolution": "sent"} for error in refused)
    assert await sides[0].open() == []
    with pytest.raises(EntrabotError, match="no promise"):
        await sides[0].resolve("nothing", "sent")


class Lying:
    """A store whose first write lands although it is answered with a conflict, as a repeated request's may."""

    def __init__(self) -> None:
        self.data: bytes | None = None
        self.writes = 0

    def own(self, *keys: str) -> None:
        return None

    async def read(self, key: str) -> Entry | None:
        return None if self.data is None else Entry(self.data, str(self.writes), 0.0)

    async def write(self, key: str, data: bytes, *, if_match: str = "", if_absent: bool = False) -> str:
        self.writes += 1
        self.data = data
        if self.writes == 1:
            raise ConcurrencyError("Another version is there.")
        return str(self.writes)

    async def append(self, key: str, line: bytes) -> None:
        raise NotImplementedError

    async def list(self, prefix: str = "") -> list[str]:
        return []

    async def delete(self, key: str, *, if_match: str = "") -> None:
        raise NotImplementedError


async def test_a_write_that_landed_is_not_repeated() -> None:
    store = Lying()
    promise = await module.PromiseBook(store).add("c", "d", "")
    assert store.writes == 1
    assert store.data == promise.line() + b"\n"


async def test_what_other_versions_wrote_stays(tmp_path: Path) -> None:
    (tmp_path / "promises.jsonl").write_bytes(
        b'{"id": "old", "created_at": "2025-01-01T00:00:00+00:00", "chat_id": "c", "description": "d",'
        b' "status": "open", "mood": "good"}\n{"id": "torn'
    )
    promises = book(tmp_path)
    await promises.add("c", "another", "")
    resolved = await promises.resolve("old", "done")
    assert resolved.extra["mood"] == "good"
    lines = (tmp_path / "promises.jsonl").read_bytes().split(b"\n")
    assert lines[1] == b'{"id": "torn'
    assert json.loads(lines[-2])["mood"] == "good"
    assert (await promises.log()).unreadable() == 1


async def test_a_long_file_is_compacted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMPACT_BYTES", 2_000)
    promises = book(tmp_path)
    kept = await promises.add("c", "kept", "")
    for number in range(12):
        promise = await promises.add("c", f"{number} {'x' * 100}", "")
        await promises.resolve(promise.id, "done")
    lines = (tmp_path / "promises.jsonl").read_bytes().splitlines()
    assert len(lines) < 25
    assert await promises.open() == [kept]
    assert len(await promises.all()) == 13
