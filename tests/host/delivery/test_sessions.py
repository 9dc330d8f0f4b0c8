"""Who lives, told by the kernel."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from entrabot_host.delivery.claims import Kind
from entrabot_host.delivery.sessions import Sessions

REPOSITORY = Path(__file__).parents[3]
CHILD = """
import asyncio, sys
from pathlib import Path
from entrabot_host.delivery.sessions import Sessions

async def main():
    sessions = Sessions(Path(sys.argv[1]))
    await sessions.start()
    print(sessions.id, flush=True)
    sys.stdin.read()

asyncio.run(main())
"""


async def test_a_killed_process_is_dead_at_once_and_its_file_goes(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=REPOSITORY
    )
    assert child.stdin is not None
    assert child.stdout is not None
    other = child.stdout.readline().decode().strip()
    me = Sessions(tmp_path)
    await me.start()
    try:
        assert await me.alive(other)
        assert await me.alive(me.id)
        child.kill()
        child.wait(30)
        assert not await me.alive(other)
        assert {path.stem for path in (tmp_path / "sessions").iterdir()} == {me.id}
    finally:
        child.kill()
        child.stdin.close()
        child.stdout.close()
        await me.aclose()
    assert list((tmp_path / "sessions").iterdir()) == []


async def test_leftovers_go_at_the_start_and_the_living_stay(tmp_path: Path) -> None:
    one, two = Sessions(tmp_path), Sessions(tmp_path)
    await one.start()
    await one.start()
    dead = tmp_path / "sessions" / f"{'0' * 32}.lock"
    dead.touch()
    await two.start()
    assert not dead.exists()
    assert await one.alive(two.id)
    assert await two.alive(one.id)
    await one.aclose()
    assert not await two.alive(one.id)
    await one.aclose()
    await two.aclose()


@pytest.mark.parametrize("strange", ["", "../x", "0", "Z" * 32, "0" * 32])
async def test_strange_ids_are_dead_and_touch_nothing(tmp_path: Path, strange: str) -> None:
    sessions = Sessions(tmp_path)
    assert not await sessions.alive(strange)
    assert list(tmp_path.iterdir()) == []
    await sessions.aclose()


async def test_others_learn_how_a_host_listens_and_when_that_changes(tmp_path: Path) -> None:
    one, two = Sessions(tmp_path), Sessions(tmp_path)
    one.introduce(Kind.ASSUMED, "claude-code")
    await one.start()
    assert await two.look(one.id) is Kind.ASSUMED
    card = tmp_path / "sessions" / f"{one.id}.json"
    assert json.loads(card.read_bytes()) == {"push": "assumed", "client": "claude-code"}
    one.introduce(Kind.PROVEN, "claude-code")
    assert one.outdated
    await one.start()
    assert not one.outdated
    assert await two.look(one.id) is Kind.PROVEN
    card.write_bytes(b"[")
    assert await two.look(one.id) is Kind.ASSUMED
    await one.aclose()
    assert await two.look(one.id) is None
    assert list((tmp_path / "sessions").iterdir()) == []
    await two.aclose()


async def test_a_session_of_another_machine_lives_for_ten_minutes_after_its_write(tmp_path: Path) -> None:
    me = Sessions(tmp_path)
    assert await me.look("1" * 32, 10.0) is None
    me.shared = True
    assert await me.look("1" * 32, 599.0) is Kind.ASSUMED
    assert await me.look("1" * 32, 601.0) is None
    assert await me.look("", 1.0) is None
    await me.aclose()
