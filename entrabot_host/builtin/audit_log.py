"""``audit_log``: the agent records a deed done outside this server's tools."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field

from entrabot_host.errors import InvalidArgument
from entrabot_host.host import Host, Outcome

_METADATA_LIMIT = 16_384


class AuditLogTool:
    """Holds the host for the tool."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def audit_log(
        self,
        action: Annotated[str, Field(description="The deed, e.g. file.delete", min_length=1, max_length=200)],
        resource: Annotated[str, Field(description="What it was done to", min_length=1, max_length=2000)],
        outcome: Annotated[Literal["pending", "success", "failure"], Field(description="How it ended")] = "success",
        metadata: Annotated[str, Field(description="More facts, as a JSON object; no secrets")] = "{}",
    ) -> dict[str, Any]:
        """Record something you did outside these tools (files, code, accounts) in the audit log, under your identity.

        This server's own tools record themselves.
        """
        event_id = await self._host.records.audit(action, resource, Outcome(outcome), _parse(metadata))
        return {"event_id": event_id, "recorded": True}


def _parse(metadata: str) -> dict[str, Any]:
    try:
        value = json.loads(metadata or "{}")
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or len(metadata) > _METADATA_LIMIT:
        raise InvalidArgument(
            f"audit_log: metadata must be a JSON object of at most {_METADATA_LIMIT} characters.",
            remedy='Pass something like {"lines": 3}, or leave it out.',
            details={"parameter": "metadata"},
        )
    return value
