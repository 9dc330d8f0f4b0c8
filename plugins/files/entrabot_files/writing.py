"""The tools that write files."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from entrabot_files.local import LocalFolders
from entrabot_files.params import Conflict, FileName, FolderPath, TargetDrive, TargetSite, TargetType
from entrabot_files.refs import file_ref
from entrabot_files.sources import Base64, Held, OpenFile, Source
from entrabot_files.targets import Targets
from entrabot_files.uploading import Uploads
from entrabot_host import InvalidArgument, ToolContext


class Writing:
    """Text, bytes in base64, and files of this machine to OneDrive or SharePoint."""

    def __init__(self, targets: Targets, uploads: Uploads, folders: LocalFolders) -> None:
        self._targets = targets
        self._uploads = uploads
        self._folders = folders

    async def write_text_file(
        self,
        target_type: TargetType,
        file_name: FileName,
        content: Annotated[str, Field(description="The text")],
        folder_path: FolderPath = "/",
        drive_id: TargetDrive = "",
        site_id: TargetSite = "",
        conflict_behavior: Conflict = "fail",
        ctx: ToolContext | None = None,
    ) -> dict[str, Any]:
        """Write a text file to OneDrive or SharePoint."""
        try:
            source = Held(content.encode("utf-8"))
        except UnicodeEncodeError:
            raise InvalidArgument("content holds half of a character pair.", remedy="Send whole characters.") from None
        where = (target_type, file_name, folder_path, drive_id, site_id)
        return await self._written(source, where, conflict_behavior, ctx)

    async def upload_file(
        self,
        target_type: TargetType,
        file_name: FileName,
        content_base64: Annotated[str, Field(description="The file in base64")],
        folder_path: FolderPath = "/",
        drive_id: TargetDrive = "",
        site_id: TargetSite = "",
        conflict_behavior: Conflict = "fail",
        ctx: ToolContext | None = None,
    ) -> dict[str, Any]:
        """Upload a file, given in base64, to OneDrive or SharePoint."""
        source = await Base64.opened(content_base64)
        where = (target_type, file_name, folder_path, drive_id, site_id)
        return await self._written(source, where, conflict_behavior, ctx)

    async def upload_local_file(
        self,
        target_type: TargetType,
        local_path: Annotated[str, Field(description="In a folder that the operator allows")],
        file_name: Annotated[str, Field(description="Empty keeps the name")] = "",
        folder_path: FolderPath = "/",
        drive_id: TargetDrive = "",
        site_id: TargetSite = "",
        conflict_behavior: Conflict = "fail",
        ctx: ToolContext | None = None,
    ) -> dict[str, Any]:
        """Upload a file of this machine to OneDrive or SharePoint; prefer it to upload_file."""
        async with self._folders.opened(local_path) as file:
            source = OpenFile(file.descriptor, file.size)
            where = (target_type, file_name or file.name, folder_path, drive_id, site_id)
            return await self._written(source, where, conflict_behavior, ctx)

    async def _written(
        self, source: Source, where: tuple[str, str, str, str, str], behaviour: Conflict, ctx: ToolContext | None
    ) -> dict[str, Any]:
        target = await self._targets.target(*where)

        async def report(done: int, total: int) -> None:
            if ctx is not None:
                await ctx.progress(done, total, "uploading")

        item, created = await self._uploads.upload(target, source, behaviour, report)
        return {**file_ref(item), "created": created}


def resource(arguments: Mapping[str, Any]) -> str:
    """Return what the audit log says was written."""
    drive = arguments.get("drive_id") or "onedrive"
    name = arguments.get("file_name") or str(arguments.get("local_path", "")).replace("\\", "/").rpartition("/")[2]
    return f"{drive}:/{str(arguments.get('folder_path', '')).strip('/')}/{name}"
