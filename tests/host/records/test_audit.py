"""The audit log."""

import json
import stat
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

from entrabot_host.auth.provider import Attribution
from entrabot_host.errors import AttributionError, StorageError
from entrabot_host.host import Outcome
from entrabot_host.records.audit import AuditLog, without_secrets

FIELDS = {"event_id", "timestamp", "agent_id", "action", "resource", "outcome", "attribution_type", "metadata"}
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[AuditLog]:
    log = AuditLog(tmp_path / "audit", lambda: "agent-1")
    yield log
    await log.aclose()


def lines(folder: Path) -> list[dict[str, object]]:
    (path,) = folder.glob("*.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


async def write(log: AuditLog, **metadata: object) -> str:
    return await log.write(
        "teams.send", "chat\n1", Outcome.PENDING, plugin="teams", attribution=Attribution.AGENT, metadata=metadata
    )


async def test_a_line_has_the_known_fields_in_the_file_of_its_day(log: AuditLog, tmp_path: Path) -> None:
    before = datetime.now(UTC)
    event_id = await write(log, plugin="forged", note="ü\ud800")
    (line,) = lines(tmp_path / "audit")
    assert set(line) == FIELDS
    assert line["event_id"] == event_id
    assert line["outcome"] == "pending"
    assert line["attribution_type"] == "agent"
    assert line["resource"] == "chat\n1"
    assert line["metadata"] == {"plugin": "teams", "note": "ü\ud800"}
    written = datetime.fromisoformat(str(line["timestamp"]))
    assert before <= written <= datetime.now(UTC)
    (path,) = (tmp_path / "audit").glob("*.jsonl")
    assert path.name == f"{written:%Y-%m-%d}.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_without_an_identity_nothing_is_written(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit", lambda: "")
    with pytest.raises(AttributionError):
        await write(log)
    assert not (tmp_path / "audit").exists()
    await log.aclose()


async def test_a_log_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "audit").write_text("a file", encoding="utf-8")
    log = AuditLog(tmp_path / "audit", lambda: "agent-1")
    with pytest.raises(StorageError):
        await write(log)
    await log.aclose()


async def test_secrets_are_redacted_by_name_and_by_content(log: AuditLog, tmp_path: Path) -> None:
    deep: dict[str, object] = {}
    deep["again"] = deep
    await write(
        log,
        access_token="short",
        headers={"Authorization": "x", "list": [f"Bearer {JWT}", {"clientSecret": "y"}]},
        text=f"it said {JWT}",
        loop=deep,
        other=Path("z"),
        number=1,
    )
    (line,) = lines(tmp_path / "audit")
    text = json.dumps(line)
    assert JWT not in text
    assert "short" not in text
    assert line["metadata"]["number"] == 1  # type: ignore[index]
    assert line["metadata"]["headers"]["list"][1] == {"clientSecret": "<redacted>"}  # type: ignore[index]


def test_names_are_matched_anywhere_and_in_any_case() -> None:
    names = ["TOKEN", "my_Password_2", "apiKey", "private_key", "x-authorization", "cookies"]
    assert set(without_secrets(dict.fromkeys(names, "v")).values()) == {"<redacted>"}


async def test_many_at_once_are_all_there(log: AuditLog, tmp_path: Path) -> None:
    async with anyio.create_task_group() as group:
        for number in range(40):
            group.start_soon(lambda number=number: write(log, number=number))
    assert sorted(line["metadata"]["number"] for line in lines(tmp_path / "audit")) == list(range(40))  # type: ignore[index]
