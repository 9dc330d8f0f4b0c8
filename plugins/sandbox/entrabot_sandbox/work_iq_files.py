"""The tools of the servers for SharePoint and OneDrive, and of the one that was both."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from entrabot_sandbox.drive_shapes import item_object
from entrabot_sandbox.drives import LIBRARY, Drive, Item
from entrabot_sandbox.work_iq_calls import MAX_BYTES, Caller, Json, Run, Tool, ToolFailure, as_text, pascal

Arguments = Mapping[str, str]
MAX_CHILDREN = 20
OWN = "me"


async def _by_url(caller: Caller, given: Arguments) -> list[str]:
    return as_text(_metadata(caller, *await caller.by_url(given["fileOrFolderUrl"])))


async def _by_id(caller: Caller, given: Arguments) -> list[str]:
    return as_text(_metadata(caller, *await caller.by_id(given["documentLibraryId"], given["fileOrFolderId"])))


async def _children(caller: Caller, given: Arguments) -> list[str]:
    folder_id = given.get("parentFolderId") or "root"
    drive, folder = await caller.by_id(given["documentLibraryId"], folder_id)
    found = drive.children(folder)[:MAX_CHILDREN]
    shown = {"value": [item_object(drive, item) for item in found]}
    return as_text(pascal(shown) if _is_pascal(caller) else shown)


async def _read_text(caller: Caller, given: Arguments) -> list[str]:
    content = await _small(caller, given)
    try:
        return as_text({"content": content.decode("utf-8")})
    except UnicodeDecodeError as error:
        raise ToolFailure("The file is not a text file; use the tool for binary files.") from error


async def _read_binary(caller: Caller, given: Arguments) -> list[str]:
    content = await _small(caller, given)
    return as_text({"content": base64.b64encode(content).decode(), "encoding": "base64"})


async def _small(caller: Caller, given: Arguments) -> bytes:
    _, item = await caller.by_id(given["documentLibraryId"], given["fileId"])
    if item.content is None:
        raise ToolFailure(f"'{item.name}' is a folder.")
    if len(item.content) > MAX_BYTES:
        raise ToolFailure(f"The file is {len(item.content)} bytes; files of more than 5 MB can't be read.")
    return item.content


def _metadata(caller: Caller, drive: Drive, item: Item) -> Json:
    shown = item_object(drive, item)
    found: Json = pascal(shown) if _is_pascal(caller) else shown
    return found


def _is_pascal(caller: Caller) -> bool:
    return caller.state.work_iq.metadata_keys == "pascal"


def _in_libraries(run: Run) -> Run:
    """The same in libraries of sites only."""

    async def in_libraries(caller: Caller, given: Arguments) -> list[str]:
        drive = caller.state.drives.all.get(given["documentLibraryId"])
        if drive is None or drive.kind != LIBRARY:
            raise ToolFailure("itemNotFound: The document library was not found.")
        return await run(caller, given)

    return in_libraries


def _in_own_drive(run: Run) -> Run:
    """The same in the user's own OneDrive only."""

    async def in_own_drive(caller: Caller, given: Arguments) -> list[str]:
        return await run(caller, {**given, "documentLibraryId": OWN})

    return in_own_drive


_URL = {"fileOrFolderUrl": "The web address or a sharing link of the file or folder."}
_LIBRARY = {"documentLibraryId": "The document library's drive id."}
_LIBRARY_OR_OWN = {"documentLibraryId": "The document library's drive id; 'me' is the user's own OneDrive."}
_FILE = {"fileId": "The file's id."}
_ITEM = {"fileOrFolderId": "The id of the file or folder."}
_FOLDER = {"parentFolderId": "The folder's id; the root if empty."}
_ROOT = frozenset({"parentFolderId"})

_METADATA = Tool("getFileOrFolderMetadataByUrl", "Get the metadata of a file or folder by its URL.", _URL, _by_url)

ODSP_TOOLS = (
    _METADATA,
    Tool("getFileOrFolderMetadata", "Get the metadata of a file or folder.", {**_LIBRARY_OR_OWN, **_ITEM}, _by_id),
    Tool("getFolderChildren", "List a folder's first 20 items.", {**_LIBRARY_OR_OWN, **_FOLDER}, _children, "", _ROOT),
    Tool("readSmallTextFile", "Read a text file of up to 5 MB.", {**_LIBRARY_OR_OWN, **_FILE}, _read_text),
    Tool("readSmallBinaryFile", "Read a file of up to 5 MB as base64.", {**_LIBRARY_OR_OWN, **_FILE}, _read_binary),
)

SHAREPOINT_TOOLS = tuple(
    tool
    if tool is _METADATA
    else Tool(tool.name, tool.description, {**tool.parameters, **_LIBRARY}, _in_libraries(tool.run), "", tool.optional)
    for tool in ODSP_TOOLS
)

ONEDRIVE_TOOLS = (
    _METADATA,
    Tool("getFolderChildrenInMyOnedrive", "List a folder's first 20.", _FOLDER, _in_own_drive(_children), "", _ROOT),
    Tool("readSmallTextFileFromMyOnedrive", "Read a text file of up to 5 MB.", _FILE, _in_own_drive(_read_text)),
    Tool("readSmallBinaryFileFromMyOnedrive", "Read a file of up to 5 MB.", _FILE, _in_own_drive(_read_binary)),
)
