"""Finding files: by address, and among what others shared."""

from typing import Annotated, Any

from pydantic import Field

from entrabot_files.api import FilesApi
from entrabot_files.errors import GraphFilesError, UrlNotResolvableError
from entrabot_files.refs import file_ref, share_id
from entrabot_files.sites import Denylist

_SOMEBODY = ("displayName", "email")


class Finding:
    """The tools that find files."""

    def __init__(self, api: FilesApi, denylist: Denylist) -> None:
        self._api = api
        self._denylist = denylist

    async def resolve_file_url(
        self, url: Annotated[str, Field(description="https address of a file, folder or sharing link")]
    ) -> dict[str, Any]:
        """Find the file behind a SharePoint, OneDrive or sharing address; other file tools take the ids it returns."""
        try:
            item = await self._api.shared(share_id(url))
        except GraphFilesError as error:
            if error.status != 400:
                raise
            raise UrlNotResolvableError("Microsoft Graph could not make sense of the address.") from None
        ref = file_ref(item)
        self._denylist.check_item(item)
        return ref

    async def list_recent_files(
        self, limit: Annotated[int, Field(description="Files at most", ge=1, le=200)] = 25
    ) -> dict[str, Any]:
        """List files people shared with the agent. Tell the user about denied_count: files that rules hide."""
        rows = [row for row in map(_remote, await self._api.shared_with_me(limit)) if row]
        allowed = [row for row in rows if not self._denylist.denies_item(row)]
        files = [{**file_ref(row), "shared_by": _shared_by(row)} for row in allowed if _has_ids(row)]
        return {"files": files[:limit], "denied_count": len(rows) - len(allowed)}


def _remote(row: dict[str, Any]) -> dict[str, Any]:
    """The item where it really lies: the outer id is of no use."""
    remote = row.get("remoteItem")
    if not isinstance(remote, dict):
        return row if "parentReference" in row else {}
    return {"name": row.get("name"), "webUrl": row.get("webUrl"), **remote}


def _has_ids(row: dict[str, Any]) -> bool:
    return bool(row.get("id") and (row.get("parentReference") or {}).get("driveId"))


def _shared_by(row: dict[str, Any]) -> str:
    user = (((row.get("shared") or {}).get("sharedBy") or {}).get("user")) or {}
    return next((str(user[name]) for name in _SOMEBODY if user.get(name)), "")
