"""The audit log: what was done, to what, in whose name. Always on this machine, one file per UTC day."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from entrabot_host.auth.provider import Attribution
from entrabot_host.errors import AttributionError, StorageError
from entrabot_host.host import Outcome
from entrabot_host.records.days import days_before
from entrabot_host.security.redaction import redact
from entrabot_host.storage.local import LocalBackend

REDACTED = "<redacted>"
_SECRET_NAME = re.compile(
    r"token|secret|passw|pwd|credential|private_?key|api_?key|bearer|authorization|assertion|cookie|signature", re.I
)
_MAX_DEPTH = 12


class AuditLog:
    """Appends to ``<folder>/<UTC day>.jsonl``: whole lines, durable, safe between processes.

    agent_id: called for every line; nothing is written, and nothing may be done, while it is empty.
    """

    def __init__(self, folder: Path, agent_id: Callable[[], str]) -> None:
        self._files = LocalBackend(folder)
        self._agent_id = agent_id

    @property
    def location(self) -> str:
        """The folder."""
        return self._files.location

    async def check(self) -> None:
        """Prove that the folder takes lines. Raises `StorageError` with the reason when it does not."""
        await self._files.check()

    async def write(
        self,
        action: str,
        resource: str,
        outcome: Outcome,
        *,
        plugin: str,
        attribution: Attribution,
        metadata: Mapping[str, Any] | None = None,
    ) -> str:
        """Append one line and return its event id.

        Raises `AttributionError` when there is no identity to attribute it to, `StorageError` when it cannot be
        written; the caller must then not do what it was about to do.
        """
        agent_id = self._agent_id()
        if not agent_id:
            raise AttributionError(
                f"{action} cannot be attributed to an agent identity, so it was refused.",
                remedy="Check the sign-in (whoami shows why it failed) and try again.",
            )
        now = datetime.now(UTC)
        event_id = str(uuid.uuid4())
        event = {
            "event_id": event_id,
            "timestamp": now.isoformat(),
            "agent_id": agent_id,
            "action": action,
            "resource": redact(resource),
            "outcome": str(outcome),
            "attribution_type": str(attribution),
            "metadata": without_secrets({**(metadata or {}), "plugin": plugin}),
        }
        try:
            await self._files.append(f"{now:%Y-%m-%d}.jsonl", json_line(event))
        except StorageError as error:
            raise StorageError(
                f"The audit log cannot be written, and nothing is done without a record. {error.message}",
                remedy=f"{error.remedy} Or name another folder in ENTRABOT_AUDIT_DIR.",
            ) from error
        return event_id

    async def prune(self, first_kept: date) -> list[str]:
        """Delete the files of days before ``first_kept``; return their names. Raises `StorageError`."""
        old = days_before(await self._files.list(), first_kept)
        for name in old:
            await self._files.delete(name)
        return old

    async def aclose(self) -> None:
        """Let go of the threads."""
        await self._files.aclose()


def json_line(value: Mapping[str, Any]) -> bytes:
    """Return JSON on one line; what JSON cannot hold is written as text, lone surrogates as escapes."""
    return json.dumps(value, default=str).encode("ascii")


def without_secrets(value: Any, depth: int = 0) -> Any:
    """Return a copy in which values with telling names, and secrets within texts, are replaced."""
    if depth > _MAX_DEPTH:
        return "<too deep>"
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {
            str(key): REDACTED if _SECRET_NAME.search(str(key)) else without_secrets(inner, depth + 1)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [without_secrets(inner, depth + 1) for inner in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return redact(str(value))
