"""The people's side of Word and of the servers: documents with their comments, and how the servers behave."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request

from entrabot_sandbox.clock import iso
from entrabot_sandbox.directory import User
from entrabot_sandbox.drives import Drive, Item
from entrabot_sandbox.errors import ControlError, GraphError
from entrabot_sandbox.people import find_person
from entrabot_sandbox.persona import set_text
from entrabot_sandbox.speech import MAX_WAIT
from entrabot_sandbox.state import State
from entrabot_sandbox.word_comments import Comment
from entrabot_sandbox.word_documents import make_word_document, read_word_document
from entrabot_sandbox.work_iq_servers import SCOPE, SERVERS

Json = dict[str, Any]
Action = Callable[[Json, Request], Awaitable[Any] | Any]


class WordControl:
    """Documents as people see them in Word, named by the ids of their drive and item."""

    def __init__(self, state: State) -> None:
        self._state = state

    def actions(self) -> list[tuple[str, str, Action, int]]:
        """The control API's calls: method, path, action, status."""
        return [
            ("GET", "/work-iq", lambda body, request: self._servers(), 200),
            ("PUT", "/work-iq", self._change_servers, 200),
            ("POST", "/documents", self._create, 201),
            ("GET", "/documents", self._show, 200),
            ("GET", "/comments", self._list, 200),
            ("POST", "/comments", self._comment, 201),
            ("GET", "/persona", lambda body, request: {"text": self._state.persona_text}, 200),
            ("PUT", "/persona", lambda body, request: set_text(self._state, body.get("text")), 200),
        ]

    def _servers(self) -> Json:
        servers = [
            {
                "name": server.name,
                "url": server.url(self._state.base),
                "audience": server.audience,
                "resource": server.resource,
                "scope": SCOPE,
            }
            for server in SERVERS.values()
        ]
        manifest = str(self._state.manifest_file)
        return {**self._state.work_iq.as_dict(), "servers": servers, "manifest": manifest}

    def _change_servers(self, body: Json, request: Request) -> Json:
        self._state.work_iq = self._state.work_iq.changed(body)
        return self._servers()

    def _create(self, body: Json, request: Request) -> Json:
        state, person = self._state, find_person(self._state, body.get("as"))
        drive = state.drives.named(str(body.get("drive") or "marketing"))
        if drive is None or person not in drive.members:
            raise ControlError(400, f"There is no such drive, or {person.key} can't write to it.")
        content = make_word_document(str(body.get("html") or body.get("text") or ""))
        try:
            item = state.drives.store(drive, drive.root, str(body.get("name") or ""), content, person, "replace")
        except GraphError as error:
            raise ControlError(400, error.message) from error
        for name in body.get("share_with") or []:
            other = find_person(state, name)
            state.drives.grant(item, other, other.mail or other.upn, ["write"])
        return {**self._named(drive, item), "url": state.drives.link(drive, item)}

    def _show(self, body: Json, request: Request) -> Json:
        drive, item = self._document(request.query_params)
        try:
            text = read_word_document(item.content or b"")
        except ValueError as error:
            raise ControlError(400, str(error)) from error
        threads = self._threads(item)
        return {**self._named(drive, item), "size": len(item.content or b""), "text": text, "comments": threads}

    async def _list(self, body: Json, request: Request) -> Json:
        query = request.query_params
        _, item = self._document(query)
        if not {"author", "after", "wait"} & set(query):
            return {"value": self._threads(item)}
        author = find_person(self._state, query["author"]) if "author" in query else None
        deadline = time.monotonic() + _seconds(query.get("wait", "0"))
        while True:
            found = self._later(item, author, query.get("after", ""))
            left = deadline - time.monotonic()
            if found or left <= 0 or not await self._state.comments.next_change(left):
                return {"value": [_shown(comment) for comment in found]}

    def _later(self, item: Item, author: User | None, after: str) -> list[Comment]:
        comments = self._state.comments.of(item)
        start = next((at + 1 for at, comment in enumerate(comments) if comment.id == after), 0)
        return [comment for comment in comments[start:] if author in (None, comment.author)]

    def _comment(self, body: Json, request: Request) -> Json:
        person, text = find_person(self._state, body.get("as")), body.get("text")
        drive, item = self._document(body)
        if not isinstance(text, str) or not text:
            raise ControlError(400, "text must be a string.")
        if "write" not in self._state.drives.rights(drive, item, person):
            raise ControlError(403, f"{person.key} can't write to that document.")
        reply_to = body.get("reply_to")
        first = self._state.comments.find(item, str(reply_to)) if reply_to else None
        if reply_to and first is None:
            raise ControlError(404, f"There is no comment '{reply_to}' in that document.")
        return _shown(self._state.comments.add(item, person, text, first))

    def _document(self, named: Any) -> tuple[Drive, Item]:
        drive = self._state.drives.named(str(named.get("drive_id") or ""))
        item = drive.items.get(str(named.get("item_id") or "")) if drive else None
        if drive is None or item is None or item.is_folder:
            raise ControlError(404, "There is no document with that drive_id and item_id.")
        return drive, item

    def _named(self, drive: Drive, item: Item) -> Json:
        return {"name": item.name, "drive_id": drive.id, "item_id": item.id, "web_url": drive.web_url(item)}

    def _threads(self, item: Item) -> list[Json]:
        threads = self._state.comments.threads(item)
        return [{**_shown(first), "replies": [_shown(reply) for reply in replies]} for first, replies in threads]


def _shown(comment: Comment) -> Json:
    return {
        "id": comment.id,
        "author": comment.author.key,
        "author_name": comment.author.name,
        "text": comment.text,
        "created": iso(comment.created),
        "reply_to": comment.reply_to or None,
    }


def _seconds(value: str) -> float:
    try:
        return max(0.0, min(float(value), MAX_WAIT))
    except ValueError as error:
        raise ControlError(400, "wait must be a number of seconds.") from error
