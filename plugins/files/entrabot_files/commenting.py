"""Comments on a whole file."""

from typing import Annotated, Any

from pydantic import Field

from entrabot_files.api import FilesApi
from entrabot_files.errors import GraphFilesError, UnsupportedCommentFormatError
from entrabot_files.params import DriveId, ItemId, Kind, MimeType, Name, SiteId
from entrabot_files.refs import extension, is_folder, kind_of
from entrabot_files.sites import Denylist
from entrabot_host import InvalidArgument

AUDIT_ACTION = "files.comment"
_ENDINGS = (".docx", ".xlsx")
_FOLDER_TYPES = ("", "folder", "inode/directory")
_WORD = "Comments in the margin of Word itself need a tool for Word, where this server has one."


class Commenting:
    """The tool that comments."""

    def __init__(self, api: FilesApi, denylist: Denylist) -> None:
        self._api = api
        self._denylist = denylist

    async def add_file_comment(
        self,
        drive_id: DriveId,
        item_id: ItemId,
        name: Name,
        content: Annotated[str, Field(description="Plain text")],
        mime_type: MimeType = "application/octet-stream",
        kind: Kind = "sharepoint",
        site_id: SiteId = "",
    ) -> dict[str, Any]:
        """Comment on a whole .docx or .xlsx of a SharePoint site; not in Word's margin."""
        if not content.strip():
            raise InvalidArgument("content is empty.", remedy="Write a comment.", details={"parameter": "content"})
        self._denylist.check(site_id)
        _check(name, kind, folder=mime_type.strip().lower() in _FOLDER_TYPES)
        item = await self._api.item(drive_id, item_id)
        self._denylist.check_item(item)
        _check(str(item.get("name") or ""), kind_of(item), folder=is_folder(item))
        try:
            made = await self._api.comment(drive_id, item_id, content)
        except GraphFilesError as error:
            if error.status == 404:
                error.remedy = f"Microsoft's comment address does not know this file, as is usual. {_WORD}"
            raise
        return {"drive_id": drive_id, "item_id": item_id, "comment_id": str(made.get("id") or "")}


def _check(name: str, kind: str, *, folder: bool) -> None:
    """Raise `UnsupportedCommentFormatError` for what Microsoft is known to refuse."""
    if folder:
        raise UnsupportedCommentFormatError("A folder cannot be commented on.", remedy="Name a file.")
    if extension(name) not in _ENDINGS:
        raise UnsupportedCommentFormatError("Only .docx and .xlsx files can be commented on.", remedy=_WORD)
    if kind != "sharepoint":
        raise UnsupportedCommentFormatError(
            "Only files of SharePoint team sites can be commented on, not those of a OneDrive.", remedy=_WORD
        )
