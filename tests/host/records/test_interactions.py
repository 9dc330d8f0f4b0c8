"""The interaction log and the records facet."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from entrabot_host.host import Direction, Interaction, Outcome
from entrabot_host.records.facet import RecordsFacet
from entrabot_host.records.interactions import InteractionLog
from entrabot_host.storage.backend import MemoryBackend
from entrabot_host.storage.local import LocalBackend


async def test_lines_have_the_known_fields_and_empty_ones_are_left_out(tmp_path: Path) -> None:
    backend = LocalBackend(tmp_path)

    async def source() -> MemoryBackend:
        return backend

    audited: list[tuple[object, ...]] = []

    async def write_audit(
        plugin: str, action: str, resource: str, outcome: Outcome, metadata: Mapping[str, Any]
    ) -> str:
        audited.append((plugin, action, resource, outcome, dict(metadata)))
        return "event"

    facet = RecordsFacet("teams", write_audit, InteractionLog(source))
    await facet.interaction(
        Interaction(
            channel="teams_dm",
            direction=Direction.INBOUND,
            sender="Ann",
            summary="two\nlines",
            metadata={"chat_id": "19:x", "at": datetime(2026, 1, 1, tzinfo=UTC)},
        )
    )
    await facet.interaction(
        Interaction(channel="email", direction=Direction.OUTBOUND, sender="me", summary="s", recipient="r", action="a")
    )
    (key,) = await backend.list("interactions/")
    assert key == f"interactions/{datetime.now(UTC):%Y-%m-%d}.jsonl"
    first, second = [json.loads(line) for line in (tmp_path / key).read_bytes().splitlines()]
    assert set(first) == {"id", "ts", "channel", "direction", "sender", "summary", "metadata"}
    assert first["metadata"] == {"chat_id": "19:x", "at": "2026-01-01 00:00:00+00:00"}
    assert (first["direction"], first["summary"]) == ("inbound", "two\nlines")
    assert set(second) == {"id", "ts", "channel", "direction", "sender", "summary", "recipient", "action"}
    assert await facet.audit("do", "it", Outcome.SUCCESS) == "event"
    assert audited == [("teams", "do", "it", Outcome.SUCCESS, {})]
    await backend.aclose()
