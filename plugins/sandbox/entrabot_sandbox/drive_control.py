"""The people's side of files: putting them there, sharing them, looking what became of them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request

from entrabot_sandbox.drive_pdf import make_document, make_pdf
from entrabot_sandbox.drive_shapes import item_object, permission_object
from entrabot_sandbox.drives import Drive, Item
from entrabot_sandbox.errors import ControlError, GraphError
from entrabot_sandbox.people import find_person
from entrabot_sandbox.state import State

Json = dict[str, Any]
Action = Callable[[Json, Request], Awaitable[Any] | Any]


class DriveControl:
    """Files as people see and use them. Drives are named by key, files by path."""

    def __init__(self, state: State) -> None:
        self._state = state

    def actions(self) -> list[tuple[str, str, Action, int]]:
        """The control API's calls: method, path, action, status."""
        return [
            ("GET", "/drives", self._list, 200),
            ("PATCH", "/drives/{drive}", self._change, 200),
            ("GET", "/files", self._show, 200),
            ("PUT", "/files", self._put, 201),
            ("POST", "/files/share", self._share, 201),
            ("POST", "/files/link", self._link, 201),
            ("PUT", "/transfers", self._transfers, 200),
            ("DELETE", "/uploads", self._expire, 200),
        ]

    def _list(self, body: Json, request: Request) -> Json:
        drives = self._state.drives.all.values()
        open_uploads = [
            {"name": session.name, "received": len(session.content), "total": session.total}
            for session in self._state.transfers.sessions.values()
            if session.item is None
        ]
        return {"value": [self._drive_shown(drive) for drive in drives], "uploads": open_uploads}

    def _drive_shown(self, drive: Drive) -> Json:
        paths = sorted(item.path() for item in drive.items.values() if item.parent)
        return {
            "key": drive.key,
            "id": drive.id,
            "driveType": drive.kind,
            "siteId": drive.site_id,
            "webUrl": drive.url,
            "quota": drive.quota,
            "comments": drive.comments,
            "paths": paths,
        }

    def _drive(self, key: Any) -> Drive:
        drive = self._state.drives.named(str(key))
        if drive is None:
            keys = ", ".join(drive.key for drive in self._state.drives.all.values())
            raise ControlError(404, f"There is no drive '{key}'. There are: {keys}.")
        return drive

    def _item(self, drive: Drive, path: Any) -> Item:
        item = drive.at(str(path or ""))
        if item is None:
            raise ControlError(404, f"There is nothing at '{path}' in that drive.")
        return item

    def _change(self, body: Json, request: Request) -> Json:
        drive = self._drive(request.path_params["drive"])
        if "quota" in body:
            drive.quota = int(body["quota"])
        if "comments" in body:
            drive.comments = bool(body["comments"])
        if "members" in body:
            drive.members = [find_person(self._state, name) for name in body["members"]]
        return self._drive_shown(drive)

    def _put(self, body: Json, request: Request) -> Json:
        drive, path = self._drive(body.get("drive")), str(body.get("path") or "")
        person = find_person(self._state, body["as"]) if "as" in body else drive.members[0]
        folder_path, _, name = path.rpartition("/")
        try:
            folder = self._state.drives.make_folders(drive, folder_path, person)
            if body.get("folder"):
                item = self._state.drives.make_folders(drive, path, person)
            else:
                item = self._state.drives.store(drive, folder, name, _content(body), person, "replace")
        except GraphError as error:
            raise ControlError(400, error.message) from error
        item.locked = bool(body.get("locked"))
        return item_object(drive, item)

    def _show(self, body: Json, request: Request) -> Json:
        drive = self._drive(request.query_params.get("drive"))
        item = self._item(drive, request.query_params.get("path"))
        shown = item_object(drive, item)
        shown["permissions"] = [permission_object(permission) for permission in item.permissions]
        if item.content is not None and request.query_params.get("content") == "yes":
            shown["base64"] = base64.b64encode(item.content).decode()
        return shown

    def _share(self, body: Json, request: Request) -> Json:
        drive = self._drive(body.get("drive"))
        item, person = self._item(drive, body.get("path")), find_person(self._state, body.get("with", "agent"))
        roles = [str(body.get("role", "read"))]
        permission = self._state.drives.grant(item, person, person.mail or person.upn, roles)
        return permission_object(permission)

    def _link(self, body: Json, request: Request) -> Json:
        drive = self._drive(body.get("drive"))
        return {"url": self._state.drives.link(drive, self._item(drive, body.get("path")))}

    def _transfers(self, body: Json, request: Request) -> Json:
        """How transfers behave.

        redirect: where downloads lead instead. blocked_domains: to which nothing may be shared. remember_sessions: a
        finished one still answers when its last fragment comes again. odd_fragments: those that are no multiple of
        320 KiB are taken, too; Microsoft forbids them and does not always refuse.
        """
        transfers = self._state.transfers
        transfers.odd_fragments = bool(body.get("odd_fragments", transfers.odd_fragments))
        transfers.remember_sessions = bool(body.get("remember_sessions", transfers.remember_sessions))
        transfers.redirect = str(body.get("redirect", transfers.redirect))
        if "blocked_domains" in body:
            transfers.blocked_domains = {str(domain).lower() for domain in body["blocked_domains"]}
        return {"redirect": transfers.redirect, "blocked_domains": sorted(transfers.blocked_domains)}

    def _expire(self, body: Json, request: Request) -> Json:
        sessions = self._state.transfers.sessions
        count = len(sessions)
        sessions.clear()
        return {"expired": count}


def _content(body: Json) -> bytes:
    """The bytes that ``base64``, ``text``, ``docx`` or ``pdf`` (both from text) describe."""
    if "base64" in body:
        try:
            return base64.b64decode(str(body["base64"]), validate=True)
        except binascii.Error as error:
            raise ControlError(400, "base64 is not base64.") from error
    for form, make in (("docx", make_document), ("pdf", make_pdf)):
        if form in body:
            return make(str(body[form]))
    return str(body.get("text") or "").encode()
