"""The people's side of mail: what they would do in their own mail programs."""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request

from entrabot_sandbox.errors import ControlError
from entrabot_sandbox.mail_shapes import Preferences, message_object
from entrabot_sandbox.mailbox import Attachment, Correspondent, Letter, Mail, Mailbox, new_message_id, new_thread
from entrabot_sandbox.people import find_person
from entrabot_sandbox.state import State

Json = dict[str, Any]
Action = Callable[[Json, Request], Awaitable[Any] | Any]

MAX_WAIT = 60.0
ENCRYPTED_BODY = (
    "<p>This message is protected with Microsoft Information Protection. You can open it using Microsoft Outlook, "
    'available for iOS, Android, Windows, and Mac OS: <a href="https://aka.ms/protectedmessage">Get Outlook</a></p>'
)
_ENCRYPTED_HEADER = ("Content-Class", "rpmsg.message")


class MailControl:
    """Mail as people write and read it. Anybody may write: a person by key, a stranger by address."""

    def __init__(self, state: State) -> None:
        self._state = state

    def actions(self) -> list[tuple[str, str, Action, int]]:
        """The control API's calls about mail: method, path, action, status."""
        return [
            ("POST", "/mail", self._write, 201),
            ("GET", "/mail", self._read, 200),
            ("POST", "/mail/shared", self._share, 201),
            ("PUT", "/mail/settings", self._set, 200),
        ]

    def _write(self, body: Json, request: Request) -> Json:
        letter, mailboxes = self._letter(body), self._state.mailboxes
        received = _moment(body.get("received"))
        copies = mailboxes.carry(letter, received)
        sender = mailboxes.at(letter.sender.address) if letter.sender else None
        if sender is not None:
            mailboxes.put(sender, "sentitems", letter, received, read=True)
        if not copies:
            raise ControlError(400, "Nobody whom this names has a mailbox here.")
        box = next(box for box in self._boxes(letter) if copies[0].immutable_id in box.mails)
        return self._shown(copies[0], box)

    def _letter(self, body: Json) -> Letter:
        content, kind = _content(body)
        headers = [(str(name), value) for name, value in _pairs(body.get("headers"))]
        encrypted = bool(body.get("encrypted"))
        sender = self._correspondent(body.get("as"))
        earlier = self._earlier(body.get("reply_to"))
        return Letter(
            sender=sender,
            to=self._several(body, "to") or (self._state.mailboxes.of(self._state.agent_user).correspondent,),
            cc=self._several(body, "cc"),
            bcc=self._several(body, "bcc"),
            reply_to=self._several(body, "reply_to_address"),
            subject=body.get("subject", f"RE: {earlier.subject}" if earlier else ""),
            content=ENCRYPTED_BODY if encrypted else content,
            content_type="html" if encrypted else kind,
            headers=tuple([*headers, _ENCRYPTED_HEADER] if encrypted else headers),
            attachments=() if encrypted else tuple(_attachment(item) for item in body.get("attachments") or ()),
            importance=str(body.get("importance") or "normal"),
            thread=earlier.thread if earlier else new_thread(),
            message_id=new_message_id(sender),
            kind=str(body.get("kind") or ""),
        )

    def _several(self, body: Json, name: str) -> tuple[Correspondent, ...]:
        value = body.get(name) or []
        return tuple(self._correspondent(one) for one in (value if isinstance(value, list) else [value]))

    def _correspondent(self, reference: Any) -> Correspondent:
        """Somebody by key or address; an address that is nobody's is a stranger's, with the name before it if any."""
        name, _, rest = str(reference or "").rpartition("<")
        address = rest.rstrip("> ")
        box = self._state.mailboxes.at(address)
        if box is not None:
            return box.correspondent
        if "@" in address:
            return Correspondent(name.strip() or address.partition("@")[0], address)
        return self._state.mailboxes.of(find_person(self._state, address)).correspondent

    def _earlier(self, reference: Any) -> Letter | None:
        if not reference:
            return None
        for person in self._state.directory.people():
            mail = self._state.mailboxes.of(person).find(str(reference))
            if mail is not None:
                return mail.letter
        raise ControlError(404, "There is no such mail to reply to.")

    def _boxes(self, letter: Letter) -> list[Mailbox]:
        found = [self._state.mailboxes.at(one.address) for one in (*letter.to, *letter.cc, *letter.bcc)]
        return [box for box in found if box is not None]

    async def _read(self, body: Json, request: Request) -> Json:
        query = request.query_params
        box = self._box(query.get("of", "agent"))
        folder = query.get("folder", "inbox")
        deadline = time.monotonic() + _seconds(query.get("wait", "0"))
        while True:
            changed = self._state.mailboxes.changed
            found = [m for m in box.mails.values() if m.folder == folder]
            found = [m for m in found if query.get("subject", "") in (m.letter.subject or "")]
            left = deadline - time.monotonic()
            if found or left <= 0:
                return {"value": [self._shown(mail, box) for mail in found]}
            try:
                await asyncio.wait_for(changed.wait(), left)
            except TimeoutError:
                continue

    def _box(self, reference: str) -> Mailbox:
        box = self._state.mailboxes.at(reference)
        return box or self._state.mailboxes.of(find_person(self._state, reference))

    def _shown(self, mail: Mail, box: Mailbox) -> Json:
        return message_object(mail, box, Preferences('IdType="ImmutableId"'), self._state.base)

    def _share(self, body: Json, request: Request) -> Json:
        address, name = str(body.get("address") or ""), str(body.get("name") or "")
        if "@" not in address or not name:
            raise ControlError(400, "address and name must be strings.")
        readers = {find_person(self._state, one).id for one in body.get("readers") or ()}
        self._state.mailboxes.share(address, name, readers)
        return {"address": address, "name": name, "readers": sorted(readers)}

    def _set(self, body: Json, request: Request) -> Json:
        mailboxes = self._state.mailboxes
        mailboxes.delay = float(body.get("delay", mailboxes.delay))
        mailboxes.replaces_recipients = bool(body.get("replaces_recipients", mailboxes.replaces_recipients))
        return {"delay": mailboxes.delay, "replaces_recipients": mailboxes.replaces_recipients}


def _content(body: Json) -> tuple[str, str]:
    words, html = body.get("text"), body.get("html")
    if words is not None and html is not None:
        raise ControlError(400, "Give either text or html, a string.")
    return (str(html), "html") if html is not None else (str(words or ""), "text")


def _pairs(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    return [(pair[0], pair[1]) for pair in value or ()]


def _attachment(item: Any) -> Attachment:
    if not isinstance(item, dict) or not isinstance(item.get("name"), str):
        raise ControlError(400, "An attachment needs a name.")
    try:
        content = base64.b64decode(item.get("content_base64") or "", validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise ControlError(400, "content_base64 must be base64.") from error
    content = content or str(item.get("text") or "").encode()
    identifier = f"AAMk{base64.urlsafe_b64encode(item['name'].encode()).decode()}"
    kind = str(item.get("content_type") or "application/octet-stream")
    return Attachment(
        identifier, item["name"], kind, content, bool(item.get("inline")), str(item.get("content_id") or "")
    )


def _moment(text: Any) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError as error:
        raise ControlError(400, "received must be an ISO time.") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _seconds(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError as error:
        raise ControlError(400, "wait must be a number of seconds.") from error
    return max(0.0, min(seconds, MAX_WAIT))
