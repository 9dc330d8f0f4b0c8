"""The Work IQ servers of Agent 365: their names, and the applications in Entra that tokens for them are for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WORD, SHAREPOINT, ONEDRIVE, ODSP, AGENT365 = "word", "sharepoint", "onedrive", "odsp", "agent365"
AGENT365_APP_ID = "ea9ffc3e-8a23-4a7d-836d-234d7c7565c1"
SCOPE = "Tools.ListInvoke.All"
WORD_SCOPE, FILES_SCOPE = "McpServers.Word.All", "McpServers.OneDriveSharepoint.All"


@dataclass(frozen=True)
class ServerApp:
    """A server. ``shared_scope`` is what the application that older servers share calls the right to use it."""

    name: str
    resource: str
    audience: str
    shared_scope: str

    def needed_scope(self, audience: str) -> str | None:
        """The scope that a token for this audience must have; None when it is for something else."""
        wanted = audience.lower().rstrip("/").removeprefix("api://")
        return {self.audience: SCOPE, AGENT365_APP_ID: self.shared_scope}.get(wanted)

    def url(self, base: str) -> str:
        """Where it answers."""
        return f"{base}/agents/servers/{self.name}"


SERVERS = {
    server.name: server
    for server in (
        ServerApp("mcp_WordServer", WORD, "6c1b7f5e-3a86-4f0d-9b1e-2f6a7d0c4e11", WORD_SCOPE),
        ServerApp("mcp_SharePointRemoteServer", SHAREPOINT, "d1f0a2c4-75b9-4c3e-8a67-0e9b5c1d2f22", FILES_SCOPE),
        ServerApp("mcp_OneDriveRemoteServer", ONEDRIVE, "5e8d3b90-1c47-4e2a-b6f5-9a0d7c4e1b33", FILES_SCOPE),
        ServerApp("mcp_ODSPRemoteServer", ODSP, "b7a94e2d-60c3-4d8f-a1e5-3c8f2b6d0a44", FILES_SCOPE),
    )
}
_APPLICATIONS = {server.audience: server.resource for server in SERVERS.values()} | {AGENT365_APP_ID: AGENT365}
APPLICATIONS = _APPLICATIONS | {f"api://{app_id}": resource for app_id, resource in _APPLICATIONS.items()}


def usual_grants() -> dict[str, list[str]]:
    """What an agent is granted at each of these applications to begin with."""
    own = {server.resource: [SCOPE] for server in SERVERS.values()}
    return {**own, AGENT365: [WORD_SCOPE, FILES_SCOPE]}


def write_manifest(base: str, folder: Path) -> Path:
    """Leave the ``ToolingManifest.json`` that names the servers. Returns its path."""
    entries: list[dict[str, Any]] = [
        {
            "mcpServerName": server.name,
            "mcpServerUniqueName": server.name,
            "url": server.url(base),
            "scope": SCOPE,
            "audience": server.audience,
            "publisher": "Microsoft",
        }
        for server in SERVERS.values()
    ]
    path = folder / "ToolingManifest.json"
    path.write_text(json.dumps({"mcpServers": entries}, indent=2), encoding="utf-8")
    return path
