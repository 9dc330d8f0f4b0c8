"""Drives, items and permissions as Graph writes them."""

from __future__ import annotations

import base64
import mimetypes
from typing import Any

from entrabot_sandbox.clock import iso
from entrabot_sandbox.directory import User
from entrabot_sandbox.drives import PERSONAL, Drive, Item, Permission

Json = dict[str, Any]
_TYPES = {
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".md": "text/markdown",
}
_WIDTH = 160


def drive_object(drive: Drive) -> Json:
    """A ``drive``."""
    body: Json = {
        "id": drive.id,
        "driveType": drive.kind,
        "name": drive.name,
        "webUrl": drive.url,
        "owner": {"user": _identity(drive.members[0])},
        "quota": {"total": drive.quota, "used": drive.used, "remaining": max(0, drive.quota - drive.used)},
    }
    if drive.site_id:
        body["sharePointIds"] = sharepoint_ids(drive)
    return body


def sharepoint_ids(drive: Drive) -> Json:
    """A ``sharepointIds``."""
    _, site, web = drive.site_id.split(",")
    return {"siteId": site, "webId": web, "siteUrl": drive.url.rpartition("/")[0]}


def item_object(drive: Drive, item: Item, download_url: str = "") -> Json:
    """A ``driveItem``."""
    body: Json = {
        "id": item.id,
        "name": item.name,
        "size": drive.size(item),
        "eTag": item.etag,
        "cTag": item.ctag,
        "webUrl": drive.web_url(item),
        "createdDateTime": iso(item.created),
        "lastModifiedDateTime": iso(item.modified),
        "createdBy": {"user": _identity(item.author)},
        "lastModifiedBy": {"user": _identity(item.editor)},
        "parentReference": parent_reference(drive, item),
        "fileSystemInfo": {"createdDateTime": iso(item.created), "lastModifiedDateTime": iso(item.modified)},
    }
    if item.content is None:
        body["folder"] = {"childCount": len(drive.children(item))}
    else:
        body["file"] = {"mimeType": mime_type(item.name), "hashes": {"quickXorHash": _hash_of(item, item.content)}}
        if download_url:
            body["@microsoft.graph.downloadUrl"] = download_url
    if item.parent is None:
        body["root"] = {}
    return body


def remote_object(drive: Drive, item: Item, sharer: User) -> Json:
    """A row of ``sharedWithMe``: a ``driveItem`` of the own drive with the real one in ``remoteItem``."""
    whole = item_object(drive, item)
    kept = (
        "id",
        "name",
        "size",
        "webUrl",
        "file",
        "folder",
        "createdDateTime",
        "lastModifiedDateTime",
        "createdBy",
        "lastModifiedBy",
        "parentReference",
        "fileSystemInfo",
    )
    remote = {name: whole[name] for name in kept if name in whole}
    remote["parentReference"].pop("path", None)
    remote["shared"] = {
        "scope": "users",
        "sharedDateTime": iso(item.modified),
        "sharedBy": {"user": _identity(sharer)},
    }
    outer = {name: whole[name] for name in ("name", "size", "webUrl", "createdDateTime", "lastModifiedDateTime")}
    return {"id": f"s{item.guid.lower()}", **outer, "remoteItem": remote}


def parent_reference(drive: Drive, item: Item) -> Json:
    """An ``itemReference``; business drives have a site as well."""
    reference: Json = {"driveType": drive.kind, "driveId": drive.id}
    if item.parent is not None:
        reference |= {"id": item.parent.id, "name": item.parent.name}
        reference["path"] = f"/drives/{drive.id}/root:{item.parent.path()}"
    if drive.kind != PERSONAL:
        reference["siteId"] = drive.site_id
    return reference


def permission_object(permission: Permission) -> Json:
    """A ``permission`` of somebody, or of a link."""
    if permission.link:
        link = {"scope": "organization", "type": "view", "webUrl": permission.link}
        return {"id": permission.id, "roles": permission.roles, "link": link, "hasPassword": False}
    user = _identity(permission.user) if permission.user else {"displayName": permission.address}
    granted = {"user": user, "siteUser": {"id": "1", "displayName": user["displayName"], "loginName": "i:0#.f|x"}}
    return {
        "id": permission.id,
        "roles": permission.roles,
        "grantedTo": {"user": user},
        "grantedToV2": granted,
        "invitation": {"email": permission.address, "signInRequired": True},
        "hasPassword": False,
    }


def mime_type(name: str) -> str:
    """The media type that a name's ending stands for."""
    ending = "." + name.lower().rpartition(".")[2]
    return _TYPES.get(ending) or mimetypes.guess_type(name)[0] or "application/octet-stream"


def _hash_of(item: Item, content: bytes) -> str:
    if item.hashed is None or item.hashed[0] is not content:
        item.hashed = (content, quick_xor(content))
    return item.hashed[1]


def quick_xor(content: bytes) -> str:
    """QuickXorHash in base64: byte i is XORed in at bit 11 i of a ring of 160 bits, then the length at its end."""
    folded = _folded(content)
    ring = 0
    mask = (1 << _WIDTH) - 1
    for number, byte in enumerate(folded):
        shift = 11 * number % _WIDTH
        wide = byte << shift
        ring ^= (wide & mask) ^ (wide >> _WIDTH)
    ring ^= len(content) << (_WIDTH - 64)
    return base64.b64encode(ring.to_bytes(_WIDTH // 8, "little")).decode()


def _folded(content: bytes) -> bytes:
    """XOR all rows of 160 bytes into one: a byte's place in the ring repeats after so many."""
    while len(content) > _WIDTH:
        rows = -(-len(content) // _WIDTH)
        half = (rows + 1) // 2 * _WIDTH
        left, right = int.from_bytes(content[:half], "big"), int.from_bytes(content[half:].ljust(half, b"\0"), "big")
        content = (left ^ right).to_bytes(half, "big")
    return content


def _identity(user: User | None) -> Json:
    if user is None:
        return {"displayName": "System"}
    return {"id": user.id, "displayName": user.name, "email": user.mail}
