"""A whole server that may not write into one of its folders, without root's power to write all the same."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.wire import served

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")


def settings(folder: Path, home: Path) -> dict[str, str]:
    """Of a server that nobody is signed in to, with state and audit below ``folder``."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "ENTRABOT_AGENT_ID": "00000000-0000-4000-8000-000000000001",
        "ENTRABOT_PLUGINS": "promises",
        "ENTRABOT_DATA_DIR": str(folder / "data"),
        "ENTRABOT_AUDIT_DIR": str(folder / "audit"),
        "ENTRABOT_LOG_DIR": str(home / "log"),
    }


def without_roots_power() -> tuple[str, ...]:
    """What stands before a command so that permissions count for it."""
    if os.geteuid() != 0:
        return ()
    if not (setpriv := shutil.which("setpriv")):
        pytest.skip("root ignores permissions, and there is no setpriv to give that up")
    given_up = "-dac_override,-dac_read_search"
    return (setpriv, f"--bounding-set={given_up}", f"--inh-caps={given_up}", "--")


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    """A folder whose parts may be made unwritable; at the end they can be removed."""
    folder = tmp_path / "locked"
    folder.mkdir()
    yield folder
    for path in folder.rglob("*"):
        if path.is_dir():
            path.chmod(0o700)


@pytest.mark.parametrize(("part", "check"), [("audit", "audit"), ("data", "storage")])
async def test_a_folder_without_permission_refuses_deeds_and_loses_nothing(
    locked: Path, tmp_path: Path, part: str, check: str
) -> None:
    environment = settings(locked, tmp_path)
    command = (*without_roots_power(), sys.executable, "-m", "entrabot_host.main")
    async with served(environment, command=command) as server:
        await server.call("add_promise", chat_id="19:a", description="the report")
        before = await server.call("list_promises")
        assert await server.stop() == 0
    contents = {path: path.read_bytes() for path in (locked / part).rglob("*") if path.is_file()}
    for path in (*contents, *(path for path in (locked / part).rglob("*") if path.is_dir()), locked / part):
        path.chmod(0o555 if path.is_dir() else 0o444)
    async with served(environment, command=command) as server:
        error = await server.failing("add_promise", chat_id="19:a", description="lost")
        assert (error["type"], "permissions" in error["remedy"]) == ("StorageError", True)
        assert str(locked / part) in error["message"]
        health = {one["check"]: one for one in (await server.call("whoami"))["health"]}
        assert [name for name in ("audit", "storage") if not health[name]["ok"]] == [check]
        assert str(locked / part) in health[check]["summary"]
        if part == "audit":
            assert await server.call("list_promises") == before
        assert await server.stop() == 0
    assert {path: path.read_bytes() for path in contents} == contents
