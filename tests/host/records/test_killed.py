"""Four processes append interactions, make promises and keep them, and are killed at any moment, 200 times: on a
folder, and in Azure's emulator.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from entrabot_host.storage.backend import MemoryBackend
from tests.host.records.nursery import promises_in
from tests.host.storage.azurite import Azurite
from tests.host.storage.processes import open_place

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="POSIX signals"),
    pytest.mark.slow,
    pytest.mark.timeout(420),
]
REPOSITORY = Path(__file__).parents[3]
ROUNDS, WRITERS = 50, 4
_LONGEST_LIFE = 0.08


class Nursery:
    """The process that forks writers. acknowledged: what each writer said, and then the ids, in order."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.acknowledged: dict[str, dict[str, list[str]]] = {}
        self._pids: dict[str, int] = {}

    @classmethod
    @contextmanager
    def open(cls, place: str) -> Iterator[Nursery]:
        command = [sys.executable, "-m", "tests.host.records.nursery", place]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=REPOSITORY, encoding="utf-8") as process:
            nursery = cls(process)
            try:
                yield nursery
            finally:
                nursery.kill_all()
                assert process.stdin is not None
                process.stdin.close()

    def start(self, name: str) -> None:
        self.acknowledged[name] = {"wrote": [], "added": [], "resolved": []}
        self._say(f"start {name}")

    def until_all_wrote(self) -> None:
        """Wait for a line of each, and for a promise of somebody."""
        said = self.acknowledged.values()
        while not (all(one["wrote"] for one in said) and any(one["added"] for one in said)):
            self._hear()

    def kill_all(self) -> None:
        for pid in self._pids.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 30
        while any(map(_lives, self._pids.values())):
            assert time.monotonic() < deadline
            time.sleep(0.002)
        self._pids.clear()

    def hear_all(self) -> None:
        mark = f"mark {secrets.token_hex(4)}"
        self._say(mark)
        while self._hear() != mark:
            pass

    def _say(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()

    def _hear(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        assert line, "the nursery died"
        name, what, value = (*line.split(), "")[:3]
        if what == "pid":
            self._pids[name] = int(value)
        elif name in self.acknowledged:
            self.acknowledged[name][what].append(value)
        return line


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(params=["folder", "azurite"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "folder":
        return str(tmp_path / "data")
    azurite: Azurite = request.getfixturevalue("azurite")
    container = await azurite.make(f"c{secrets.token_hex(8)}")
    return json.dumps({"endpoint": azurite.endpoint, "ca_bundle": azurite.ca_bundle, "container": container})


async def test_all_that_was_acknowledged_is_there_once_and_all_files_parse(place: str) -> None:
    chance = random.Random(11)
    acknowledged: dict[str, dict[str, list[str]]] = {}
    with Nursery.open(place) as nursery:
        for turn in range(ROUNDS):
            nursery.acknowledged = {}
            for number in range(WRITERS):
                nursery.start(f"w{turn}-{number}")
            nursery.until_all_wrote()
            time.sleep(chance.random() * _LONGEST_LIFE)  # the moment of death, not synchronisation
            nursery.kill_all()
            nursery.hear_all()
            acknowledged |= nursery.acknowledged
    assert len(acknowledged) == ROUNDS * WRITERS
    backend = open_place(place)
    try:
        await check_interactions(backend, {name: said["wrote"] for name, said in acknowledged.items()})
        await check_promises(backend, acknowledged)
    finally:
        await backend.aclose()


async def check_interactions(backend: MemoryBackend, acknowledged: dict[str, list[str]]) -> None:
    await backend.append(f"interactions/{await newest(backend)}.jsonl", b"{}")  # removes what the last death cut off
    present = await lines_of(backend)
    counts = Counter(line["id"] for line in present)
    assert set(counts.values()) == {1}
    for name, identifiers in acknowledged.items():
        mine = [line["id"] for line in present if line["sender"] == name]
        assert mine[: len(identifiers)] == identifiers
        assert len(mine) <= len(identifiers) + 1  # the last one may have been written, and its writer died unheard


async def check_promises(backend: MemoryBackend, acknowledged: dict[str, dict[str, list[str]]]) -> None:
    log = await promises_in(backend).log()
    assert log.unreadable() == 0
    present = log.promises()
    made: dict[str, list[str]] = {name: [] for name in acknowledged}
    for promise in present.values():
        name, number = promise.description.split()
        assert number == str(len(made[name])), "one is missing, or was made twice"
        made[name].append(promise.id)
    for name, said in acknowledged.items():
        assert made[name][: len(said["added"])] == said["added"]
        assert len(made[name]) <= len(said["added"]) + 1
        kept = [identifier for identifier in made[name] if not present[identifier].is_open]
        assert kept[: len(said["resolved"])] == said["resolved"]
        assert len(kept) <= len(said["resolved"]) + 1
        assert {present[identifier].resolution for identifier in kept} <= {f"kept by {name}"}
    assert sum(len(said["resolved"]) for said in acknowledged.values()) >= ROUNDS // 2


async def newest(backend: MemoryBackend) -> str:
    return (await backend.list("interactions/"))[-1].removeprefix("interactions/").removesuffix(".jsonl")


async def lines_of(backend: MemoryBackend) -> list[dict[str, str]]:
    lines = []
    for key in await backend.list("interactions/"):
        entry = await backend.read(key)
        assert entry is not None
        lines += [json.loads(line) for line in entry.data.splitlines()]
    return [line for line in lines if line]
