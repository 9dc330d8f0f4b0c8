"""Parameters that several tools share. Their descriptions are short: they stand in every one of those tools."""

from typing import Annotated, Literal

from pydantic import Field

DriveId = Annotated[str, Field(description="From resolve_file_url")]
ItemId = Annotated[str, Field(description="From resolve_file_url")]
Name = Annotated[str, Field(description="Its name")]
MimeType = Annotated[str, Field(description="Optional")]
Kind = Annotated[str, Field(description="Optional")]
SiteId = Annotated[str, Field(description="Optional")]

TargetType = Annotated[Literal["onedrive", "sharepoint"], Field(description="Your OneDrive, or a library")]
FileName = Annotated[str, Field(description="New file's name")]
FolderPath = Annotated[str, Field(description="Like /A/B; made if missing")]
TargetDrive = Annotated[str, Field(description="For sharepoint")]
TargetSite = Annotated[str, Field(description="For sharepoint")]
Behaviour = Literal["fail", "replace", "rename"]
Conflict = Annotated[Behaviour, Field(description="If the name is taken")]
