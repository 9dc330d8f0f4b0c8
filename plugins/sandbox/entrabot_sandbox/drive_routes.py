"""The files part of Graph: drives, items, content, sharing."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Awaitable, Callable
from typing import Any

from entrabot_sandbox.calls import Call
from entrabot_sandbox.directory import User
from entrabot_sandbox.drive_errors import denied, not_found, refused
from entrabot_sandbox.drive_names import check_path
from entrabot_sandbox.drive_pdf import document_text, make_pdf
from entrabot_sandbox.drive_shapes import drive_object, item_object, permission_object, remote_object
from entrabot_sandbox.drives import LIBRARY, Drive, Item
from entrabot_sandbox.errors import bad_request
from entrabot_sandbox.odata import collection
from entrabot_sandbox.reply import Reply

Handler = Callable[[Call], Awaitable[Reply]]

READS = ("Files.Read", "Files.Read.All", "Sites.Read.All")
WRITES = ("Files.ReadWrite", "Files.ReadWrite.All", "Sites.ReadWrite.All")
BEHAVIOURS = ("fail", "replace", "rename")
BEHAVIOUR = "@microsoft.graph.conflictBehavior"
CONVERTED = re.compile(
    r"\.(csv|docx?|eml|html?|md|msg|od[pst]|pot[mx]?|pp[st][mx]?|ppsxm|rtf|xlsx?|xlsm)$", re.IGNORECASE
)
MAX_PUT = 250 * 1024 * 1024
ROLES = ("read", "write", "owner")


def collapsed(segments: list[str]) -> list[str]:
    """Write the many ways to address an item as ``drives/{drive}/items/{item}[/{path}]``, the path in one segment."""
    steps = list(segments)
    if [step.lower() for step in steps[:2]] == ["me", "drive"]:
        steps[:2] = ["drives", "me"]
    if steps[0].lower() != "drives" or len(steps) < 3:
        return steps
    if steps[2].lower() in ("root", "root:"):
        steps[2:3] = ["items", steps[2].lower()]
    if len(steps) > 3 and ":/" in steps[3]:  # a path whose slashes were percent-encoded, as Microsoft's SDKs do
        steps[3:4] = steps[3].split("/")
    if len(steps) < 5 or steps[2].lower() != "items" or not steps[3].endswith(":"):
        return steps
    end = next((at for at in range(4, len(steps)) if steps[at].endswith(":")), len(steps) - 1)
    path = "/".join(steps[4 : end + 1]).removesuffix(":")
    return [*steps[:4], f"/{path}", *steps[end + 1 :]]


def _drive(call: Call) -> Drive:
    user = call.user()
    reference = call.params["drive"]
    return call.state.drives.of(user) if reference == "me" else call.state.drives.get(reference)


def _place(call: Call) -> tuple[Drive, Item, str]:
    """The drive, the item that the path starts from, and the path below it."""
    drive = _drive(call)
    reference = call.params.get("item", "root").removesuffix(":")
    item = drive.root if reference == "root" else drive.items.get(reference)
    if item is None:
        raise not_found()
    return drive, item, call.params.get("path", "").removeprefix("/")


def _found(call: Call, right: str) -> tuple[Drive, Item]:
    """The item that is addressed, to which the caller has that right. Raises GraphError."""
    call.require(*(WRITES if right == "write" else READS + WRITES))
    drive, item, path = _place(call)
    if path:
        check_path(path)
        below = drive.at(f"{item.path()}/{path}")
        if below is None:
            raise not_found()
        item = below
    _allow(call, drive, item, right)
    return drive, item


def _allow(call: Call, drive: Drive, item: Item, right: str) -> None:
    if right not in call.state.drives.rights(drive, item, call.user()):
        raise denied()


def _shown(call: Call, drive: Drive, item: Item) -> dict[str, Any]:
    url = call.state.transfers.download_url(item.content) if item.content is not None else ""
    return item_object(drive, item, url)


def _selected(call: Call, body: dict[str, Any]) -> dict[str, Any]:
    names = next((value for name, value in call.query if name.lower() == "$select"), "")
    if not names:
        return body
    wanted = {name.strip() for name in names.split(",")}
    return {name: value for name, value in body.items() if name in wanted or name == "id"}


async def get_drive(call: Call) -> Reply:
    """``GET /drives/{drive}``."""
    call.require(*READS, *WRITES)
    drive = _drive(call)
    if call.user() not in drive.members:
        raise denied()
    return Reply(200, json={"@odata.context": call.context("drives/$entity"), **_selected(call, drive_object(drive))})


async def get_item(call: Call) -> Reply:
    """``GET`` of an item by id or path."""
    drive, item = _found(call, "read")
    body = _selected(call, _shown(call, drive, item))
    return Reply(200, {"ETag": item.etag}, json={"@odata.context": call.context("driveItem"), **body})


async def list_children(call: Call) -> Reply:
    """``GET .../children``."""
    drive, item = _found(call, "read")
    rows = [_shown(call, drive, child) for child in drive.children(item)]
    return Reply(200, json=collection(call.context("driveItem"), rows, None))


async def delete_item(call: Call) -> Reply:
    """``DELETE`` of an item."""
    drive, item = _found(call, "write")
    if item.parent is None:
        raise refused(400, "invalidRequest", "The root can't be deleted.")
    gone = {item.id}
    while more := {i.id for i in drive.items.values() if i.parent and i.parent.id in gone} - gone:
        gone |= more
    drive.items = {key: value for key, value in drive.items.items() if key not in gone}
    return Reply(204)


async def get_content(call: Call) -> Reply:
    """``GET .../content``: a redirect to an address on another origin."""
    return _content(call, _found(call, "read")[1])


def _content(call: Call, item: Item) -> Reply:
    if item.content is None:
        raise refused(400, "invalidRequest", "You cannot get content for a folder")
    if call.headers.get("if-none-match", "") in (item.etag, item.ctag):
        return Reply(304)
    content, form = item.content, next((value for name, value in call.query if name == "format"), "")
    if form:
        content = _converted(item, form)
    return Reply(302, {"Location": call.state.transfers.download_url(content)}, body=b"")


def _converted(item: Item, form: str) -> bytes:
    if form != "pdf" or not CONVERTED.search(item.name):
        raise refused(406, "notSupported", "The file can't be converted.")
    content = item.content or b""
    try:
        text = document_text(content) if item.name.lower().endswith(".docx") else content.decode("utf-8")
    except ValueError as error:
        raise refused(406, "notSupported", "The file could not be converted.") from error
    return make_pdf(text)


def _behaviour(value: str, default: str) -> str:
    chosen = value or default
    if chosen not in BEHAVIOURS:
        raise refused(400, "invalidRequest", "The conflict behavior is not known.")
    return chosen


def _target(call: Call, *, make: bool) -> tuple[Drive, Item, str]:
    """The drive, folder and name that a new file is to have. Raises GraphError. make: missing folders are made."""
    call.require(*WRITES)
    drive, item, path = _place(call)
    if not path:
        if item.content is None or item.parent is None:
            raise refused(400, "invalidRequest", "A folder has no content.")
        _allow(call, drive, item, "write")
        return drive, item.parent, item.name
    _allow(call, drive, item, "write")
    check_path(f"{item.path()}/{path}")
    folder_path, _, name = path.rpartition("/")
    whole = f"{item.path()}/{folder_path}"
    folder = call.state.drives.make_folders(drive, whole, call.user()) if make else item
    return drive, folder, name


async def put_content(call: Call) -> Reply:
    """``PUT .../content``: 201 for a new file, 200 for one that was there."""
    drive, folder, name = _target(call, make=True)
    if len(call.body) > MAX_PUT:
        raise refused(413, "invalidRequest", "The request is too large; use an upload session.")
    wanted = next((value for key, value in call.query if key == BEHAVIOUR), "")
    behaviour = _behaviour(wanted, "replace")
    before = drive.child(folder, name)
    _check_match(call, before)
    item = call.state.drives.store(drive, folder, name, call.body, call.user(), behaviour)
    body = {"@odata.context": call.context("driveItem"), **_shown(call, drive, item)}
    return Reply(200 if item is before else 201, {"ETag": item.etag}, json=body)


def _check_match(call: Call, item: Item | None) -> None:
    wanted = call.headers.get("if-match", "")
    if wanted and wanted != "*" and (item is None or wanted not in (item.etag, item.ctag)):
        raise refused(412, "resourceModified", "ETag does not match current item's value", "entityTagDoesNotMatch")


async def create_session(call: Call) -> Reply:
    """``POST .../createUploadSession``."""
    drive, folder, name = _target(call, make=True)
    given = call.json() if call.body else {}
    wish = (given.get("item") or {}) if isinstance(given, dict) else {}
    if wish.get("name", name) != name:
        raise refused(400, "invalidRequest", "The name of the item does not match the URL.")
    behaviour = _behaviour(str(wish.get(BEHAVIOUR) or ""), "fail")
    _check_match(call, drive.child(folder, name))
    defer = bool(given.get("deferCommit")) if isinstance(given, dict) else False
    session = call.state.transfers.open(drive, folder, name, behaviour, call.user(), defer=defer)
    return Reply(200, json={"@odata.context": call.context("uploadSession"), **session})


async def invite(call: Call) -> Reply:
    """``POST .../invite``: a row for each recipient, one that failed with an ``error``."""
    _, item = _found(call, "write")
    body = call.json()
    recipients, roles = body.get("recipients"), body.get("roles")
    if not isinstance(recipients, list) or not recipients or not isinstance(roles, list) or not roles:
        raise refused(400, "invalidRequest", "recipients and roles are required.")
    if any(role not in ROLES for role in roles):
        raise refused(400, "invalidRequest", "The role is not known.")
    if not body.get("requireSignIn") and not body.get("sendInvitation"):
        raise refused(400, "invalidRequest", "requireSignIn or sendInvitation must be true.")
    if len(str(body.get("message") or "")) > 2000:
        raise refused(400, "invalidRequest", "The message is too long.")
    rows = [_invited(call, item, recipient, roles) for recipient in recipients]
    return Reply(200, json={"@odata.context": call.context("Collection(permission)"), "value": rows})


def _invited(call: Call, item: Item, recipient: Any, roles: list[str]) -> dict[str, Any]:
    address = str((recipient or {}).get("email") or (recipient or {}).get("objectId") or "")
    domain = address.rpartition("@")[2].lower()
    if domain in call.state.transfers.blocked_domains:
        error = {"code": "accessDenied", "message": "External sharing to this domain is blocked by your organization."}
        return {"invitation": {"email": address, "signInRequired": True}, "error": error}
    user = _person(call, address)
    if "@" not in address and user is None:
        return {"invitation": {"email": address}, "error": {"code": "invalidRequest", "message": "Unknown recipient."}}
    return permission_object(call.state.drives.grant(item, user, address, roles))


def _person(call: Call, address: str) -> User | None:
    people = call.state.directory.people()
    return next((person for person in people if address and person.is_called(address)), None)


async def list_permissions(call: Call) -> Reply:
    """``GET .../permissions``."""
    _, item = _found(call, "read")
    rows = [permission_object(permission) for permission in item.permissions]
    return Reply(200, json=collection(call.context("permissions"), rows, None))


async def shared_with_me(call: Call) -> Reply:
    """``GET /me/drive/sharedWithMe``; other tenants' items only when asked for."""
    call.require(*READS, *WRITES)
    external = any(name.lower() == "allowexternal" and value.lower() == "true" for name, value in call.query)
    user = call.user()
    rows = [
        remote_object(drive, item, drive.members[0])
        for drive, item, _ in call.state.drives.shared_with(user)
        if external or drive.members[0].tenant is user.tenant
    ]
    return Reply(200, json=collection(call.context("Collection(driveItem)"), rows, None))


async def add_comment(call: Call) -> Reply:
    """``POST /beta/.../comments``: not there for any file, unless the drive was told otherwise."""
    drive, item = _found(call, "write")
    if not drive.comments or drive.kind != LIBRARY or item.is_folder:
        raise not_found("The resource could not be found.")
    content = (call.json().get("content") or {}).get("content")
    if not isinstance(content, str) or not content:
        raise bad_request("content is required.")
    number = str(call.state.transfers.next_number())
    return Reply(201, json={"id": number, "content": {"contentType": "text", "content": content}})


def _shared_item(call: Call) -> tuple[Drive, Item]:
    """The item that a sharing id stands for. Raises GraphError."""
    call.require(*READS, *WRITES)
    url = _url_of(call.params["share"])
    drives = call.state.drives
    found = drives.links.get(url)
    if found:
        drive, item, permission = found
        wish = call.headers.get("prefer", "").lower()
        if drives.rights(drive, item, call.user()) or "redeemsharinglinkifnecessary" in wish:
            return drive, item
        if "redeemsharinglink" in wish:
            drives.grant(item, call.user(), call.user().upn, permission.roles)
            return drive, item
        raise denied("The sharing link was not redeemed.")
    for drive in drives.all.values():
        for item in drive.items.values():
            if drive.web_url(item).lower() == url.partition("?")[0].lower():
                _allow(call, drive, item, "read")
                return drive, item
    raise not_found("The sharing link no longer exists, or you do not have permission to access it.")


def _url_of(share: str) -> str:
    if not share.startswith("u!"):
        raise refused(400, "invalidRequest", "Invalid shareId")
    text = share[2:]
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode("utf-8")
    except (binascii.Error, ValueError) as error:
        raise refused(400, "invalidRequest", "Invalid shareId") from error


async def get_shared(call: Call) -> Reply:
    """``GET /shares/{share}``: a ``sharedDriveItem``."""
    _, item = _shared_item(call)
    return Reply(200, json={"@odata.context": call.context("shares"), "id": call.params["share"], "name": item.name})


async def get_shared_item(call: Call) -> Reply:
    """``GET /shares/{share}/driveItem``."""
    drive, item = _shared_item(call)
    body = _selected(call, _shown(call, drive, item))
    return Reply(200, json={"@odata.context": call.context("driveItem"), **body})


async def get_shared_content(call: Call) -> Reply:
    """``GET /shares/{share}/driveItem/content``."""
    return _content(call, _shared_item(call)[1])


_ITEM = "drives/{drive}/items/{item}"


def table() -> list[tuple[str, dict[str, Handler]]]:
    """Patterns of collapsed paths and their handlers by method."""
    below: dict[str, dict[str, Handler]] = {
        "": {"GET": get_item, "DELETE": delete_item},
        "/children": {"GET": list_children},
        "/content": {"GET": get_content, "PUT": put_content},
        "/createUploadSession": {"POST": create_session},
        "/invite": {"POST": invite},
        "/permissions": {"GET": list_permissions},
        "/comments": {"POST": add_comment},
    }
    # What ends in a known word comes first: a path of one name looks the same.
    by_path = [(f"{_ITEM}/{{path}}{end}", handlers) for end, handlers in below.items() if end]
    by_id = [(f"{_ITEM}{end}", handlers) for end, handlers in below.items()]
    return [
        ("drives/{drive}", {"GET": get_drive}),
        ("drives/{drive}/sharedWithMe", {"GET": shared_with_me}),
        ("shares/{share}", {"GET": get_shared}),
        ("shares/{share}/driveItem", {"GET": get_shared_item}),
        ("shares/{share}/driveItem/content", {"GET": get_shared_content}),
        *by_id,
        *by_path,
        (f"{_ITEM}/{{path}}", {"GET": get_item, "DELETE": delete_item}),
    ]
