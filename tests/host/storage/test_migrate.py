"""``entrabot storage migrate``: everything is copied once, nothing is taken away or overwritten, failures are told."""

import asyncio
import hashlib
import json
import os
import secrets
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from entrabot_host.errors import StorageError
from entrabot_host.storage.blob import BlobBackend
from entrabot_host.storage.local import LocalBackend
from entrabot_host.storage.migrate import FileReport, Migration, State
from tests.host.storage.azurite import Azurite
from tests.host.storage.interposer import answers, interposed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]

LONG_LOG = b"".join(b'{"n": %d, "text": "%s"}\n' % (number, b"x" * 100_000) for number in range(120))
FILES = {
    "watched_chats": b"19:a@thread.v2\n19:b@thread.v2\n",
    "chat_cursors/19%3Aa%40thread.v2.json": b'{"last_ts": "2026-01-01T00:00:00Z"}',
    "chats/19%3Aa%40thread.v2.json": b"{}\n",
    "interactions/2026-11-29.jsonl": LONG_LOG,
    "interactions/2026-11-30.jsonl": b'{"n": 1}\n{"n": 2}\n{"torn": ',
    "promises.jsonl": b'{"id": "1"}\n{"id": "2"}',
    "empty.jsonl": b"",
    "summaries/2026-11-29.html": "<p>ü</p>".encode(),
    "plugins/tide/cache.json": b"[]",
    "sessions/0123.json": b"{}",
}
COPIED = {
    **{key: data for key, data in FILES.items() if not key.startswith("sessions/")},
    "interactions/2026-11-30.jsonl": b'{"n": 1}\n{"n": 2}\n',
    "promises.jsonl": b'{"id": "1"}\n{"id": "2"}\n',
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    for key, data in FILES.items():
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / key).write_bytes(data)
    return folder


@pytest.fixture
async def target(azurite: Azurite) -> AsyncIterator[BlobBackend]:
    backend = azurite.backend(await azurite.make(f"c{secrets.token_hex(8)}"))
    yield backend
    await backend.aclose()


@dataclass
class Run:
    """One migration, with what was shown of its progress."""

    total: int = 0
    done: list[FileReport] = field(default_factory=list)
    reports: dict[str, FileReport] = field(default_factory=dict)

    def states(self) -> dict[str, State]:
        return {key: report.state for key, report in self.reports.items()}


async def migrate(folder: Path, target: BlobBackend) -> Run:
    run = Run()
    source = LocalBackend(folder)
    migration = Migration(source, target, lambda total: setattr(run, "total", total), run.done.append)
    run.reports = {report.key: report for report in await migration.run()}
    await source.aclose()
    return run


def content_of(folder: Path) -> dict[str, str]:
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


async def values_of(target: BlobBackend) -> dict[str, bytes]:
    found = {}
    for key in await target.list():
        entry = await target.read(key)
        assert entry is not None
        found[key] = entry.data
    return {key: data for key, data in found.items() if key != "migration.json"}


async def test_everything_is_copied_and_nothing_is_taken_away(folder: Path, target: BlobBackend) -> None:
    before = content_of(folder)
    run = await migrate(folder, target)
    assert run.states() == dict.fromkeys(COPIED, State.COPIED)
    assert run.total == len(COPIED)
    assert sorted(report.key for report in run.done) == sorted(COPIED)
    assert await values_of(target) == COPIED
    assert content_of(folder) == before
    await target.append("interactions/2026-11-29.jsonl", b"{}")  # the log is one that takes more lines
    entry = await target.read("interactions/2026-11-29.jsonl")
    assert entry is not None
    assert entry.data == LONG_LOG + b"{}\n"


async def test_it_may_be_repeated_also_when_the_container_is_in_use(folder: Path, target: BlobBackend) -> None:
    await migrate(folder, target)
    assert set((await migrate(folder, target)).states().values()) == {State.PRESENT}
    await target.append("interactions/2026-11-30.jsonl", b'{"n": 3}')
    await target.write("chats/19%3Aa%40thread.v2.json", b"newer")
    run = await migrate(folder, target)
    assert all(report.ok for report in run.reports.values())
    assert run.states()["chats/19%3Aa%40thread.v2.json"] is State.CHANGED_SINCE
    assert (await values_of(target))["chats/19%3Aa%40thread.v2.json"] == b"newer"
    (folder / "chats/19%3Aa%40thread.v2.json").write_bytes(b"changed here, too")
    run = await migrate(folder, target)
    assert run.states()["chats/19%3Aa%40thread.v2.json"] is State.CONFLICT
    assert not run.reports["chats/19%3Aa%40thread.v2.json"].ok
    assert (await values_of(target))["chats/19%3Aa%40thread.v2.json"] == b"newer"


async def test_a_copy_that_was_interrupted_is_completed(folder: Path, target: BlobBackend) -> None:
    await target.extend("interactions/2026-11-29.jsonl", LONG_LOG[: LONG_LOG.index(b"\n") + 1], 0)
    run = await migrate(folder, target)
    assert run.states()["interactions/2026-11-29.jsonl"] is State.COPIED
    assert await values_of(target) == COPIED


async def test_what_cannot_be_copied_is_told_and_the_rest_is_copied(
    azurite: Azurite, folder: Path, target: BlobBackend
) -> None:
    (folder / "C:odd").write_bytes(b"x")
    await target.write("watched_chats", b"something else")
    async with interposed(azurite) as between:
        between.applies = lambda request: "summaries" in request.path and request.method == "PUT"
        between.faults = [answers(403, "AuthorizationPermissionMismatch")]
        through = azurite.backend(target._connection.container, endpoint=between.endpoint)
        run = await migrate(folder, through)
        await through.aclose()
    failed = {key: report.reason for key, report in run.reports.items() if not report.ok}
    assert set(failed) == {"C:odd", "watched_chats", "summaries/2026-11-29.html"}
    assert "403" in failed["summaries/2026-11-29.html"]
    assert (await values_of(target))["watched_chats"] == b"something else"
    assert run.total == len(COPIED) + 1
    assert run.states()["promises.jsonl"] is State.COPIED


async def test_it_does_not_run_beside_a_server(folder: Path, target: BlobBackend) -> None:
    lock = FileLock(folder / "sessions" / "0123.lock")
    with lock, pytest.raises(StorageError, match="1 running server"):
        await migrate(folder, target)
    assert await values_of(target) == {}


# --- the command ------------------------------------------------------------------------------------------------------


async def settings_for(tenant: Any, azurite: Azurite, folder: Path) -> dict[str, str]:
    """A signed-in agent that trusts both the tenant and the emulator."""
    container = await azurite.make(f"c{secrets.token_hex(8)}")
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder.parent),
        **tenant.environment,
        **azurite.settings(container, tenant.environment["ENTRABOT_CA_BUNDLE"], folder.parent),
        "ENTRABOT_DATA_DIR": str(folder),
        "ENTRABOT_AUDIT_DIR": str(folder.parent / "audit"),
    }


async def run_command(environment: dict[str, str], *arguments: str) -> tuple[int, str, str]:
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "entrabot_host.cli.main", "storage", "migrate", *arguments)
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe, env=environment)
    async with asyncio.timeout(60):
        output, errors = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode(), errors.decode()


async def test_the_command_signs_in_copies_and_reports(entrabot_tenant: Any, azurite: Azurite, folder: Path) -> None:
    environment = await settings_for(entrabot_tenant, azurite, folder)
    status, output, errors = await run_command({**environment, "ENTRABOT_KEEP_MEMORY_LOCAL": "true"}, "--json")
    assert status == 0, errors
    shown = json.loads(output)
    assert shown["failed"] == 0
    assert {file["key"]: file["state"] for file in shown["files"]} == dict.fromkeys(COPIED, "copied")
    status, output, errors = await run_command(environment)
    assert status == 0, errors
    assert f"All {len(COPIED)} files are there." in output
    (folder / "watched_chats").write_bytes(b"changed")
    backend = azurite.backend(environment["ENTRABOT_BLOB_CONTAINER"])
    await backend.write("watched_chats", b"changed there")
    await backend.aclose()
    status, output, errors = await run_command(environment, "--json")
    assert status == 1
    assert json.loads(output)["failed"] == 1


async def test_the_command_says_what_is_missing(entrabot_tenant: Any, azurite: Azurite, folder: Path) -> None:
    environment = await settings_for(entrabot_tenant, azurite, folder)
    for wrong, message in (
        ({"ENTRABOT_BLOB_CONTAINER": ""}, "configured by half"),
        ({"ENTRABOT_BLOB_CONTAINER": "", "ENTRABOT_BLOB_ENDPOINT": ""}, "No Blob container is configured"),
        ({"ENTRABOT_BLOB_CONTAINER": "not-there"}, "az storage container create"),
    ):
        status, output, errors = await run_command({**environment, **wrong})
        assert (status, output) == (2, "")
        assert message in errors
        assert "Traceback" not in errors
