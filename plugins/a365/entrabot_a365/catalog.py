"""Which server does what, and under which names: two generations of them are in use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from entrabot_a365.errors import A365ServerNotConfiguredError
from entrabot_a365.manifest import Manifest, Server

OWN_DRIVE = "me"
_WORD = "mcp_WordServer"
_SHAREPOINT = "mcp_SharePointRemoteServer"
_ONEDRIVE = "mcp_OneDriveRemoteServer"
_COMBINED = "mcp_ODSPRemoteServer"


@dataclass(frozen=True)
class Operation:
    """A tool of a server by all its names, the newest first. makes: what is there afterwards and was not before."""

    names: tuple[str, ...]
    makes: str = ""


READ_DOCUMENT = Operation(("WordGetDocumentContent", "GetDocumentContent"))
CREATE_DOCUMENT = Operation(("WordCreateNewDocument", "CreateDocument"), makes="document")
ADD_COMMENT = Operation(("WordCreateNewComment", "AddComment"), makes="comment")
REPLY = Operation(("WordReplyToComment", "ReplyToComment"), makes="reply")
METADATA = Operation(("getFileOrFolderMetadataByUrl",))
_TEXT = Operation(("readSmallTextFile",))
_OWN_TEXT = Operation(("readSmallTextFileFromMyOnedrive",))
_BINARY = Operation(("readSmallBinaryFile",))
_OWN_BINARY = Operation(("readSmallBinaryFileFromMyOnedrive",))


@dataclass(frozen=True)
class Request:
    """A call: to whom, of what, with what."""

    server: Server
    operation: Operation
    arguments: dict[str, Any]


def to_word(manifest: Manifest, operation: Operation, arguments: dict[str, Any]) -> Request:
    """Address the Word server. Raises `A365ServerNotConfiguredError`."""
    return Request(_first(manifest, _WORD), operation, arguments)


def to_find(manifest: Manifest, url: str) -> Request:
    """Address the server that knows what lies at an address. Raises `A365ServerNotConfiguredError`."""
    own = (urlsplit(url).hostname or "").partition(".")[0].endswith("-my")
    newer = (_ONEDRIVE, _SHAREPOINT) if own else (_SHAREPOINT, _ONEDRIVE)
    server = _first(manifest, newer[0], _COMBINED, newer[1])
    return Request(server, METADATA, {"fileOrFolderUrl": url})


def to_read(manifest: Manifest, library: str, file_id: str, *, binary: bool) -> list[Request]:
    """Address the servers that read a library's files, the likeliest first. Raises `A365ServerNotConfiguredError`.

    Only the combined server is known to read people's OneDrives by their drive id.
    """
    own = library == OWN_DRIVE
    if own and (server := manifest.get(_ONEDRIVE)):
        return [Request(server, _OWN_BINARY if binary else _OWN_TEXT, {"fileId": file_id})]
    names = (_COMBINED,) if own else (_SHAREPOINT, _COMBINED)
    servers = [server for name in names if (server := manifest.get(name))] or [_first(manifest, *names)]
    arguments = {"documentLibraryId": library, "fileId": file_id}
    return [Request(server, _BINARY if binary else _TEXT, arguments) for server in servers]


def _first(manifest: Manifest, *names: str) -> Server:
    for name in names:
        if server := manifest.get(name):
            return server
    raise A365ServerNotConfiguredError(
        f"The tooling manifest does not name {' or '.join(names)}.",
        remedy=f"Tell the operator: a365 develop add-mcp-servers {names[0]}, then grant its permission.",
    )
