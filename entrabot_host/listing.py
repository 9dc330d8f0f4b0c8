"""How a tool stands in ``tools/list``, and what that costs the model's context."""

from __future__ import annotations

import json
from typing import Any

from entrabot_host.assembly import AssembledTool


def listed(tool: AssembledTool) -> dict[str, Any]:
    """Return the entry of ``tools/list``. There is no output schema, since results are one JSON text."""
    hints = tool.tool.hints
    return {
        "name": tool.name,
        "title": tool.tool.title,
        "description": tool.description,
        "inputSchema": tool.signature.schema,
        "annotations": {
            "readOnlyHint": hints.read_only,
            "destructiveHint": hints.destructive,
            "idempotentHint": hints.idempotent,
            "openWorldHint": hints.open_world,
        },
    }


def cost(tool: AssembledTool) -> int:
    """Return the bytes of that entry on the wire."""
    return len(json.dumps(listed(tool), ensure_ascii=False, separators=(",", ":")).encode())
