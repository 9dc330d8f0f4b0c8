"""The interaction log: who talked with the agent, and what about."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

from entrabot_host.host import Interaction
from entrabot_host.records.audit import json_line
from entrabot_host.storage.facet import BackendSource

OPTIONAL = ("recipient", "action", "content_ref", "metadata")


class InteractionLog:
    """Appends to ``interactions/<UTC day>.jsonl`` in the configured storage."""

    def __init__(self, backend: BackendSource) -> None:
        self._backend = backend

    async def append(self, entry: Interaction) -> str:
        """Append one line and return its id. Raises `StorageError`."""
        now = datetime.now(UTC)
        identifier = str(uuid.uuid4())
        line: dict[str, Any] = {
            "id": identifier,
            "ts": now.isoformat(),
            "channel": entry.channel,
            "direction": str(entry.direction),
            "sender": entry.sender,
            "summary": entry.summary,
        }
        for name in OPTIONAL:
            if value := getattr(entry, name):
                line[name] = dict(value) if name == "metadata" else value
        backend = await self._backend()
        await backend.append(f"interactions/{now:%Y-%m-%d}.jsonl", json_line(line))
        return identifier
