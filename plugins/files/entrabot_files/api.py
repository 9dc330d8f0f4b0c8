"""The requests to Graph that files need, apart from content."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from entrabot_files.errors import explained, typed
from entrabot_host import Host, InvalidArgument

MAX_ID = 400

_FIELDS = "id,name,size,file,folder,package,parentReference,webUrl,sharepointIds,lastModifiedDateTime"
_REDEEM = {"Prefer": "redeemSharingLinkIfNecessary"}


def drive_path(drive_id: str) -> str:
    """Return the Graph path of a drive."""
    return f"/drives/{quote(drive_id, safe='!')}"


def item_path(drive_id: str, item_id: str, verb: str = "") -> str:
    """Return the Graph path of an item, or of something below it. Raises `InvalidArgument` for ids that are none."""
    for parameter, value in (("drive_id", drive_id), ("item_id", item_id)):
        if not value.strip(" .") or len(value) > MAX_ID:
            raise InvalidArgument(
                f"{parameter} is not an id.",
                remedy="Take it from resolve_file_url or list_recent_files.",
                details={"parameter": parameter},
            )
    return f"{drive_path(drive_id)}/items/{quote(item_id, safe='!')}{f'/{verb}' if verb else ''}"


class FilesApi:
    """Items, drives and shares. Methods raise what `explained` raises."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def item(self, drive_id: str, item_id: str) -> dict[str, Any]:
        """Return an item's properties."""
        return await self._get(item_path(drive_id, item_id), {"$select": _FIELDS})

    async def drive(self, drive_id: str) -> dict[str, Any]:
        """Return a drive's type and site."""
        return await self._get(drive_path(drive_id), {"$select": "id,driveType,webUrl,sharePointIds"})

    async def own_drive(self) -> dict[str, Any]:
        """Return the agent's own drive."""
        return await self._get("/me/drive", {"$select": "id,driveType"})

    async def shared(self, share_id: str) -> dict[str, Any]:
        """Return the item behind a sharing id. A link grants access for this one request only."""
        return await self._get(f"/shares/{share_id}/driveItem", {"$select": _FIELDS}, _REDEEM)

    async def shared_with_me(self, limit: int) -> list[dict[str, Any]]:
        """Return what others shared with the agent, at least ``limit`` rows where there are so many."""
        rows: list[dict[str, Any]] = []
        with explained():
            params = {"allowexternal": "true"}
            async for page in self._host.graph.pages("/me/drive/sharedWithMe", params=params):
                rows += page
                if len(rows) >= limit:
                    break
        return rows

    async def invite(self, drive_id: str, item_id: str, address: str, role: str) -> list[dict[str, Any]]:
        """Share an item with somebody and return Graph's rows, of which any may hold an ``error``."""
        wish = {"recipients": [{"email": address}], "roles": [role], "requireSignIn": True, "sendInvitation": True}
        body = await self._post(item_path(drive_id, item_id, "invite"), wish)
        rows = body.get("value")
        return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []

    async def comment(self, drive_id: str, item_id: str, text: str) -> dict[str, Any]:
        """Comment on an item through Graph's undocumented beta address."""
        wish = {"content": {"contentType": "text", "content": text}}
        return await self._post(item_path(drive_id, item_id, "comments"), wish, beta=True)

    async def _get(self, path: str, params: dict[str, str], headers: dict[str, str] | None = None) -> dict[str, Any]:
        with explained():
            answer = await self._host.graph.request("GET", path, params=params, headers=headers)
        if not isinstance(answer.body, dict):
            raise typed(answer.status, "Microsoft Graph's answer about a file could not be read.")
        return answer.body

    async def _post(self, path: str, body: dict[str, Any], *, beta: bool = False) -> dict[str, Any]:
        with explained():
            answer = await self._host.graph.request("POST", path, json=body, beta=beta)
        return answer.body if isinstance(answer.body, dict) else {}
