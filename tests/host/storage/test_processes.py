"""Several processes on one folder, processes killed at any moment, and disks that refuse."""

import json
import os
import random
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from entrabot_host.errors import StorageError
from entrabot_host.storage.files import TEMPORARY
from entrabot_host.storage.local import LocalBackend
from tests.host.storage.azurite import Azurite
from tests.host.storage.disks import filled, small_disk
from tests.host.storage.processes import open_place

pytestmark = [pytest.mark.skipif(os.name == "nt", reason="POSIX signals"), pytest.mark.timeout(240)]
REPOSITORY = Path(__file__).parents[3]


def start(mode: str, place: object, name: str = "-", times: int = 0, **options: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.host.storage.processes", mode, str(place), name, str(times)]
    return subprocess.Popen(command, cwd=REPOSITORY, **options)  # type: ignore[call-overload]


def finish(children: list[subprocess.Popen[bytes]]) -> None:
    assert [child.wait(timeout=200) for child in children] == [0] * len(children)


@pytest.fixture(params=["folder", pytest.param("azurite", marks=pytest.mark.slow)])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "folder":
        return str(tmp_path)
    azurite: Azurite = request.getfixturevalue("azurite")
    container = await azurite.make(f"c{secrets.token_hex(8)}")
    return json.dumps({"endpoint": azurite.endpoint, "ca_bundle": azurite.ca_bundle, "container": container})


async def content(place: str, key: str) -> bytes:
    backend = open_place(place)
    entry = await backend.read(key)
    await backend.aclose()
    assert entry is not None
    return entry.data


async def test_four_processes_lose_no_increment(place: str) -> None:
    finish([start("count", place, times=40) for _ in range(4)])
    assert await content(place, "number") == b"160"


async def test_four_processes_append_whole_lines(place: str) -> None:
    names = ["a", "b", "c", "d"]
    finish([start("lines", place, name, 60) for name in names])
    lines = [json.loads(line) for line in (await content(place, "log.jsonl")).splitlines()]
    for name in names:
        assert [line["number"] for line in lines if line["who"] == name] == list(range(60))


def test_killed_writers_leave_whole_files_and_all_that_was_acknowledged(tmp_path: Path) -> None:
    chance = random.Random(7)
    lines: dict[str, int] = {}
    values: dict[str, int] = {}
    for attempt in range(6):
        names = [f"{attempt}{letter}" for letter in "ab"]
        children = [start("forever", tmp_path, name, stdout=subprocess.PIPE) for name in names]
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == b"L0\n"
        time.sleep(chance.random() / 4)  # the moment of death, not synchronisation
        for child, name in zip(children, names, strict=True):
            child.send_signal(signal.SIGKILL)
            output = child.communicate(timeout=60)[0]
            lines[name] = max((int(n) for n in re.findall(rb"^L(\d+)$", output, re.M)), default=0)
            values[name] = max((int(n) for n in re.findall(rb"^W(\d+)$", output, re.M)), default=-1)
    present: dict[str, list[int]] = {name: [] for name in lines}
    finish([start("lines", tmp_path, "last", 1)])  # the next line removes what the last death may have cut off
    present["last"] = []
    for line in (tmp_path / "log.jsonl").read_bytes().splitlines():
        value = json.loads(line)
        present[value["who"]].append(value["number"])
    for name, last in lines.items():
        assert present[name][: last + 1] == list(range(last + 1))
        assert len(present[name]) <= last + 2
    for name, last in values.items():
        path = tmp_path / "values" / f"{name}.json"
        assert last < 0 or json.loads(path.read_bytes())["number"] in (last, last + 1)
        assert not path.exists() or json.loads(path.read_bytes())["text"] == "z" * 5000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk") as disk:
        yield disk


async def test_a_full_disk_keeps_what_there_is_and_says_so(disk: Path) -> None:
    backend = LocalBackend(disk)
    await backend.write("kept", b"old" * 1000)
    await backend.append("log", b"one")
    with filled(disk):
        with pytest.raises(StorageError, match="full disk") as caught:
            await backend.write("kept", b"new" * 20000)
        assert str(disk) in caught.value.message
        assert "space" in caught.value.remedy
        with pytest.raises(StorageError, match="full disk"):
            await backend.append("log", b"2" * 50000)
        assert (disk / "kept").read_bytes() == b"old" * 1000
        assert (disk / "log").read_bytes() == b"one\n"
        assert not list(disk.glob(f"{TEMPORARY}*"))
    await backend.write("kept", b"new")
    await backend.append("log", b"two")
    assert (disk / "log").read_bytes() == b"one\ntwo\n"
    await backend.aclose()


def test_a_read_only_folder_is_read_and_says_why_it_refuses() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    folder = Path(tempfile.mkdtemp())  # tmp_path lies below a folder that other users cannot enter
    try:
        (folder / "kept").write_bytes(b"old")
        (folder / "kept").chmod(0o644)
        folder.chmod(0o555)
        child = start("refused", folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        output, errors = child.communicate(timeout=60)
        assert child.returncode == 0, errors
        shown = json.loads(output)
        assert shown.pop("read") == "old"
        assert set(shown) == {"write", "append", "delete", "check"}
        for text in shown.values():
            assert str(folder) in text
            assert "permissions" in text
        assert (folder / "kept").read_bytes() == b"old"
    finally:
        shutil.rmtree(folder)
