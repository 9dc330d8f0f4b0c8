"""Where a new file is to lie, checked before anything is sent."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from entrabot_files.api import FilesApi, drive_path
from entrabot_files.names import check_name, folders, item_path
from entrabot_files.sites import Denylist, same_site
from entrabot_host import InvalidArgument


@dataclass(frozen=True)
class Target:
    """A drive's Graph path, and the path below its root, percent-encoded."""

    drive: str
    path: str
    name: str

    @property
    def item(self) -> str:
        """The Graph path of the file."""
        return f"{self.drive}/root:/{self.path}"

    def verb(self, verb: str) -> str:
        """The Graph path of something below the file."""
        return f"{self.item}:/{verb}"

    @property
    def content_type(self) -> str:
        """The media type that the name stands for."""
        return mimetypes.guess_type(self.name)[0] or "application/octet-stream"


class Targets:
    """Turns the arguments of the writing tools into targets."""

    def __init__(self, api: FilesApi, denylist: Denylist) -> None:
        self._api = api
        self._denylist = denylist

    async def target(self, target_type: str, file_name: str, folder_path: str, drive_id: str, site_id: str) -> Target:
        """Return the target. Raises `InvalidArgument`, `SiteNotAllowedError` and what `explained` raises."""
        check_name("file_name", file_name)
        path = item_path([*folders(folder_path), file_name])
        if target_type == "onedrive":
            if drive_id or site_id:
                raise InvalidArgument(
                    "target_type onedrive is the agent's own drive; drive_id and site_id do not go with it.",
                    remedy="Leave both out, or pass target_type sharepoint.",
                )
            return Target("/me/drive", path, file_name)
        if not drive_id or not site_id:
            raise InvalidArgument(
                "target_type sharepoint needs drive_id and site_id.",
                remedy="Take both from resolve_file_url for the library, a folder or a file in it.",
            )
        self._denylist.check(site_id)
        self._check_drive(await self._api.drive(drive_id), site_id)
        return Target(drive_path(drive_id), path, file_name)

    def _check_drive(self, drive: Mapping[str, Any], site_id: str) -> None:
        """Believe the drive, not the caller, about the site it is in."""
        ids = drive.get("sharePointIds")
        known = ",".join(str(ids.get(name) or "") for name in ("siteId", "webId")) if isinstance(ids, Mapping) else ""
        parent = {"driveType": drive.get("driveType"), "siteId": known.strip(",")}
        self._denylist.check_item({"parentReference": parent})
        if known.strip(",") and not same_site(known, site_id):
            raise InvalidArgument(
                "site_id is not the site that the drive belongs to.", remedy="Take both from the same resolve_file_url."
            )
