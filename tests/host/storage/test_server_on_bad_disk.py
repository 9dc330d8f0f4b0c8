"""A whole server whose folders are on a full disk, or on one that takes no writes: it says so, and loses nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from entrabot_host.storage.local import CLOCK, LOCKS
from entrabot_host.testing.agent import ToolFailed
from tests.host.storage.disks import filled, read_only, small_disk

KEPT = {LOCKS, CLOCK}
"""What a folder's locks and its clock leave there."""
BAD = pytest.mark.parametrize(
    ("bad", "words", "remedy"), [(filled, "on a full disk", "Free some space"), (read_only, "written", "permissions")]
)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk") as disk:
        yield disk


async def failing(agent: Any, tool: str, **arguments: Any) -> dict[str, Any]:
    with pytest.raises(ToolFailed) as caught:
        await agent.call(tool, **arguments)
    return dict(caught.value.error)


async def check(agent: Any, name: str) -> dict[str, Any]:
    (found,) = [one for one in (await agent.call("whoami"))["health"] if one["check"] == name]
    return dict(found)


@BAD
async def test_data_on_a_bad_disk(entrabot: Any, disk: Path, bad: Any, words: str, remedy: str) -> None:
    async with entrabot("promises", settings={"ENTRABOT_DATA_DIR": str(disk / "data")}) as agent:
        await agent.call("add_promise", chat_id="19:a", description="first")
        before = await agent.call("list_promises")
        with bad(disk):
            for _ in range(2):
                error = await failing(agent, "add_promise", chat_id="19:a", description="€" * 2000)
                assert (error["type"], words in error["message"]) == ("StorageError", True)
                assert str(disk / "data") in error["message"]
                assert remedy in error["remedy"]
            assert await agent.call("list_promises") == before
            storage = await check(agent, "storage")
            assert (storage["ok"], words in storage["summary"]) == (False, True)
            assert (await check(agent, "audit"))["ok"]
        await agent.call("add_promise", chat_id="19:a", description="third")
        assert len(await agent.call("list_promises")) == len(before) + 1
        assert (await check(agent, "storage"))["ok"]


@BAD
async def test_audit_on_a_bad_disk(entrabot: Any, disk: Path, bad: Any, words: str, remedy: str) -> None:
    """What cannot be recorded is not done."""
    async with entrabot("promises", settings={"ENTRABOT_AUDIT_DIR": str(disk / "audit")}) as agent:
        await agent.call("add_promise", chat_id="19:a", description="first")
        (path,) = (disk / "audit").glob("*.jsonl")
        recorded = path.read_bytes()
        with bad(disk):
            error = await failing(agent, "add_promise", chat_id="€" * 2000, description="second")
            assert (error["type"], words in error["message"]) == ("StorageError", True)
            assert remedy in error["remedy"]
            assert len(await agent.call("list_promises")) == 1
            audit = await check(agent, "audit")
            assert (audit["ok"], words in audit["summary"]) == (False, True)
            assert str(disk / "audit") in audit["summary"]
            assert (await check(agent, "storage"))["ok"]
        assert path.read_bytes() == recorded
        await agent.call("add_promise", chat_id="19:a", description="third")
        assert path.read_bytes().startswith(recorded)
        assert {one.name for one in (disk / "audit").iterdir()} <= {path.name, *KEPT}


async def test_the_audit_check_leaves_nothing_and_tells_of_a_file_in_the_folders_place(
    entrabot: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "kept"
    async with entrabot(settings={"ENTRABOT_AUDIT_DIR": str(folder)}) as agent:
        assert await check(agent, "audit") == {"check": "audit", "ok": True, "summary": f"local: {folder}"}
        assert {path.name for path in folder.iterdir()} <= KEPT
    in_the_way = tmp_path / "file"
    in_the_way.write_text("a file", encoding="utf-8")
    async with entrabot(settings={"ENTRABOT_AUDIT_DIR": str(in_the_way)}) as agent:
        audit = await check(agent, "audit")
        assert not audit["ok"]
        assert str(in_the_way) in audit["summary"]
        assert audit["remedy"]
        assert (await check(agent, "storage"))["ok"]
    assert in_the_way.read_text(encoding="utf-8") == "a file"
