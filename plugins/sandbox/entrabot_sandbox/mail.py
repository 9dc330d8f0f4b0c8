"""Mail, as Graph offers it: folders, messages, attachments, sending and replying."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from dataclasses import replace
from html import escape
from typing import Any

from entrabot_sandbox.calls import Call
from entrabot_sandbox.directory import User
from entrabot_sandbox.errors import GraphError, bad_request
from entrabot_sandbox.mail_compose import check_recipients, letter_of, recipients_of
from entrabot_sandbox.mail_query import chosen, page, unknown_property
from entrabot_sandbox.mail_shapes import (
    ONLY_SELECTED,
    attachment_object,
    folder_object,
    message_object,
    preferences,
    shown,
    text_of,
)
from entrabot_sandbox.mailbox import FOLDERS, Correspondent, Letter, Mail, Mailbox, is_well_formed, new_message_id
from entrabot_sandbox.odata import Options, collection
from entrabot_sandbox.reply import Reply

Json = dict[str, Any]
Handler = Callable[[Call], Awaitable[Reply]]
Work = Callable[[Call, Mailbox], Reply]

_READ, _WRITE, _SEND = "read", "write", "send"
_OWN = {
    _READ: ("Mail.Read", "Mail.ReadWrite", "Mail.ReadBasic"),
    _WRITE: ("Mail.ReadWrite",),
    _SEND: ("Mail.Send",),
}
_SHARED = {
    _READ: ("Mail.Read.Shared", "Mail.ReadWrite.Shared"),
    _WRITE: ("Mail.ReadWrite.Shared",),
    _SEND: ("Mail.Send.Shared",),
}
_BODY = ("body", "uniqueBody", "bodyPreview", "internetMessageHeaders")


def _in_mailbox(right: str) -> Callable[[Work], Handler]:
    """Make a handler of work in the mailbox that the path names."""

    def made(work: Work) -> Handler:
        @functools.wraps(work)
        async def handler(call: Call) -> Reply:
            box = _mailbox(call, right)
            mailboxes = call.state.mailboxes
            await mailboxes.enter(call.principal.app_id, box, limited=call.state.throttle.enabled)
            return work(call, box)

        return handler

    return made


@_in_mailbox(_READ)
def list_messages(call: Call, box: Mailbox) -> Reply:
    """``GET /me/messages``: of all folders; or of one."""
    options = Options.read(call.query, ("$top", "$orderby", "$filter", "$select", "$skip", "$count"))
    folder = _folder(call, box) if "folder" in call.params else None
    wanted = preferences(call)
    mails = [mail for mail in box.mails.values() if folder in (None, mail.folder)]
    rows = chosen((message_object(mail, box, wanted, call.state.base) for mail in mails), options)
    chunk, link = page(rows, options, call.url)
    body = collection(call.context("messages"), [_selected(row, options, call) for row in chunk], link)
    del body["@odata.count"]
    if (options.get("$count") or "").lower() == "true":
        body["@odata.count"] = len(rows)
    return Reply(200, wanted.applied(), json=body)


@_in_mailbox(_READ)
def get_message(call: Call, box: Mailbox) -> Reply:
    """``GET /me/messages/{id}``."""
    options = Options.read(call.query, ("$select",))
    return _entity(call, box, _mail(call, box), 200, options)


@_in_mailbox(_WRITE)
def update(call: Call, box: Mailbox) -> Reply:
    """``PATCH /me/messages/{id}``: read or not; and everything of a draft."""
    mail, payload = _mail(call, box), call.json()
    if not isinstance(payload, dict):
        raise bad_request("The request body is not a message.")
    if mail.draft:
        mail.letter = _changed(mail.letter, payload, box.correspondent)
    mail.read = bool(payload.get("isRead", mail.read))
    call.state.mailboxes.touch(mail)
    return _entity(call, box, mail, 200)


@_in_mailbox(_WRITE)
def delete(call: Call, box: Mailbox) -> Reply:
    """``DELETE /me/messages/{id}``: to Deleted Items, and from there for good."""
    mail = _mail(call, box)
    if mail.folder == "deleteditems":
        del box.mails[mail.immutable_id]
    else:
        call.state.mailboxes.move(box, mail, "deleteditems")
    return Reply(204)


@_in_mailbox(_WRITE)
def move(call: Call, box: Mailbox) -> Reply:
    """``POST /me/messages/{id}/move``: 201 with the message where it is now."""
    mail, payload = _mail(call, box), call.json()
    folder = box.folder(str(payload.get("destinationId") if isinstance(payload, dict) else ""))
    if folder is None:
        raise _no_item()
    call.state.mailboxes.move(box, mail, folder)
    return _entity(call, box, mail, 201)


@_in_mailbox(_WRITE)
def create_draft(call: Call, box: Mailbox) -> Reply:
    """``POST /me/messages``: 201 with the draft."""
    letter = letter_of(call.json(), box.correspondent)
    return _entity(call, box, call.state.mailboxes.put(box, "drafts", letter, draft=True, read=True), 201)


@_in_mailbox(_SEND)
def send_draft(call: Call, box: Mailbox) -> Reply:
    """``POST /me/messages/{id}/send``: 202; the draft becomes the copy in Sent Items."""
    mail = _mail(call, box)
    if not mail.draft:
        raise GraphError(400, "ErrorInvalidRequest", "Only a draft can be sent.")
    check_recipients(mail.letter)
    call.state.mailboxes.carry(mail.letter)
    mail.draft = False
    mail.received = call.state.clock.now().replace(microsecond=0)
    call.state.mailboxes.move(box, mail, "sentitems")
    return Reply(202)


@_in_mailbox(_SEND)
def send_mail(call: Call, box: Mailbox) -> Reply:
    """``POST /me/sendMail``: 202 without a body."""
    payload = call.json()
    if not isinstance(payload, dict) or "message" not in {name.lower() for name in payload}:
        raise GraphError(400, "RequestBodyRead", "The request lacks its message.")
    given = {name.lower(): value for name, value in payload.items()}
    letter = letter_of(given["message"], box.correspondent)
    check_recipients(letter)
    _send(call, box, letter, keep=given.get("savetosentitems", True) is not False)
    return Reply(202)


@_in_mailbox(_SEND)
def reply(call: Call, box: Mailbox) -> Reply:
    """``POST /me/messages/{id}/reply``: 202 without a body."""
    answer = _answer(call, box, everybody=False)
    check_recipients(answer)
    _send(call, box, answer, keep=True)
    return Reply(202)


@_in_mailbox(_SEND)
def reply_all(call: Call, box: Mailbox) -> Reply:
    """``POST /me/messages/{id}/replyAll``: 202 without a body."""
    answer = _answer(call, box, everybody=True)
    check_recipients(answer)
    _send(call, box, answer, keep=True)
    return Reply(202)


@_in_mailbox(_WRITE)
def create_reply(call: Call, box: Mailbox) -> Reply:
    """``POST /me/messages/{id}/createReply``: 201 with the draft."""
    answer = _answer(call, box, everybody=False)
    return _entity(call, box, call.state.mailboxes.put(box, "drafts", answer, draft=True, read=True), 201)


@_in_mailbox(_READ)
def list_attachments(call: Call, box: Mailbox) -> Reply:
    """``GET /me/messages/{id}/attachments``."""
    mail, options = _mail(call, box), Options.read(call.query, ("$select", "$top"))
    names = _names(options)
    rows = [
        attachment_object(one, mail, content=not names or "contentBytes" in names) for one in mail.letter.attachments
    ]
    if names:
        kept = {*names, "id", "@odata.type", "@odata.mediaContentType"}
        rows = [{name: value for name, value in row.items() if name in kept} for row in rows]
    return Reply(200, json=collection(call.context("attachments"), rows, None))


@_in_mailbox(_READ)
def get_attachment(call: Call, box: Mailbox) -> Reply:
    """``GET /me/messages/{id}/attachments/{id}``."""
    mail = _mail(call, box)
    found = next((one for one in mail.letter.attachments if one.id == call.params["attachment"]), None)
    if found is None:
        raise _no_item()
    context = call.context("attachments/$entity")
    return Reply(200, json={"@odata.context": context, **attachment_object(found, mail, content=True)})


@_in_mailbox(_READ)
def list_folders(call: Call, box: Mailbox) -> Reply:
    """``GET /me/mailFolders``."""
    options = Options.read(call.query, ("$top", "$select", "$skip"))
    rows, link = page([folder_object(box, name) for name in FOLDERS], options, call.url)
    return Reply(200, json=collection(call.context("mailFolders"), rows, link))


@_in_mailbox(_READ)
def get_folder(call: Call, box: Mailbox) -> Reply:
    """``GET /me/mailFolders/{id}``."""
    Options.read(call.query, ("$select",))
    context = call.context("mailFolders/$entity")
    return Reply(200, json={"@odata.context": context, **folder_object(box, _folder(call, box))})


def _mailbox(call: Call, right: str) -> Mailbox:
    """The mailbox of the path. Raises GraphError: 403 without the right, 404 where there is none."""
    user, reference = call.user(), call.params.get("user")
    if reference is None or user.is_called(reference):
        return _allowed(call, call.state.mailboxes.of(user), _OWN[right])
    person = call.state.directory.user_by_address(call.principal.tenant, reference)
    box = call.state.mailboxes.of(person) if person else call.state.mailboxes.at(reference)
    if box is None or (box.owner is not None and box.owner.tenant is not call.principal.tenant):
        raise GraphError(404, "ErrorInvalidUser", f"The requested user '{reference}' is invalid.")
    if not _may_open(user, box):
        raise _denied()
    return _allowed(call, box, _SHARED[right])


def _may_open(user: User, box: Mailbox) -> bool:
    return user.id in box.readers


def _allowed(call: Call, box: Mailbox, scopes: tuple[str, ...]) -> Mailbox:
    if not call.principal.scopes.intersection(scopes):
        raise _denied()
    return box


def _denied() -> GraphError:
    return GraphError(403, "ErrorAccessDenied", "Access is denied. Check credentials and try again.")


def _no_item() -> GraphError:
    return GraphError(404, "ErrorItemNotFound", "The specified object was not found in the store.")


def _folder(call: Call, box: Mailbox) -> str:
    reference = call.params["folder"]
    folder = box.folder(reference)
    if folder is None:
        raise _no_item() if is_well_formed(reference) else _malformed()
    return folder


def _mail(call: Call, box: Mailbox) -> Mail:
    reference = call.params["message"]
    if not is_well_formed(reference):
        raise _malformed()
    mail = box.find(reference)
    if mail is None:
        raise _no_item()
    return mail


def _malformed() -> GraphError:
    return GraphError(400, "ErrorInvalidIdMalformed", "Id is malformed.")


def _names(options: Options) -> list[str]:
    return [name.strip() for name in (options.get("$select") or "").split(",") if name.strip()]


def _selected(row: Json, options: Options, call: Call) -> Json:
    names = _names(options)
    basic = not call.principal.scopes.intersection((*_OWN[_READ][:2], *_SHARED[_READ]))
    if names:
        spelled = {name.lower(): name for name in row}
        for name in names:
            if name.lower() not in spelled:
                raise unknown_property(name)
        kept = {spelled[name.lower()] for name in names} | {"id", "@odata.etag", "@odata.type"}
    else:
        kept = set(row).difference(ONLY_SELECTED)
    return {name: value for name, value in row.items() if name in kept and not (basic and name in _BODY)}


def _entity(call: Call, box: Mailbox, mail: Mail, status: int, options: Options | None = None) -> Reply:
    wanted = preferences(call)
    row = _selected(message_object(mail, box, wanted, call.state.base), options or Options({}), call)
    return Reply(status, wanted.applied(), json={"@odata.context": call.context("messages/$entity"), **row})


def _send(call: Call, box: Mailbox, letter: Letter, *, keep: bool) -> None:
    if keep:
        call.state.mailboxes.put(box, "sentitems", letter, read=True)
    call.state.mailboxes.carry(letter)


def _changed(before: Letter, payload: Json, sender: Correspondent) -> Letter:
    after = letter_of({name: value for name, value in payload.items() if name != "isRead"}, sender)
    fields = {
        "subject": "subject",
        "toRecipients": "to",
        "ccRecipients": "cc",
        "bccRecipients": "bcc",
        "replyTo": "reply_to",
        "importance": "importance",
    }
    changes = {field: getattr(after, field) for name, field in fields.items() if name in payload}
    if "body" in payload:
        changes |= {"content": after.content, "content_type": after.content_type}
    return replace(before, **changes)


def _answer(call: Call, box: Mailbox, *, everybody: bool) -> Letter:
    """The reply that the request describes. Raises GraphError (400)."""
    original = _mail(call, box).letter
    payload = call.json() if call.body else {}
    if not isinstance(payload, dict):
        raise GraphError(400, "RequestBodyRead", "The request body is not an object.")
    given = {name.lower(): value for name, value in payload.items()}
    message = given.get("message") or {}
    if not isinstance(message, dict):
        raise GraphError(400, "RequestBodyRead", "The value of 'message' cannot be read.")
    if given.get("comment") is not None and "body" in message:
        raise GraphError(400, "ErrorInvalidRequest", "Specify either the comment or the body of the message.")
    written = letter_of(message, box.correspondent)
    to = original.reply_to or tuple(filter(None, (original.sender,)))
    others = tuple(one for one in (*original.to, *original.cc) if one.address.lower() != box.address.lower())
    own = recipients_of(message, "toRecipients")
    if own and call.state.mailboxes.replaces_recipients:
        to = own
    known = {one.address.lower() for one in to}
    to = (*to, *(one for one in own if one.address.lower() not in known))
    content, kind = (written.content, written.content_type) if "body" in message else _quoted(original, given)
    subject = original.subject or ""
    return replace(
        written,
        to=to,
        cc=(*(others if everybody else ()), *written.cc),
        subject=subject if subject.lower().startswith("re:") else f"RE: {subject}",
        content=content,
        content_type=kind,
        headers=(*written.headers, ("In-Reply-To", original.message_id), ("References", original.message_id)),
        thread=original.thread,
        message_id=new_message_id(box.correspondent),
    )


def _quoted(original: Letter, given: Json) -> tuple[str, str]:
    comment = escape(str(given.get("comment") or ""), quote=False)
    quoted = original.content if original.content_type == "html" else escape(text_of(original), quote=False)
    sender, subject = escape(shown(original.sender), quote=False), escape(original.subject or "")
    head = f"<div><b>From:</b> {sender}<br><b>Subject:</b> {subject}</div>"
    return f"<html><body>{comment}<hr>{head}{quoted}</body></html>", "html"


def _routes(prefix: str) -> list[tuple[str, dict[str, Handler]]]:
    message = f"{prefix}/messages/{{message}}"
    return [
        (f"{prefix}/sendMail", {"POST": send_mail}),
        (f"{prefix}/mailFolders", {"GET": list_folders}),
        (f"{prefix}/mailFolders/{{folder}}", {"GET": get_folder}),
        (f"{prefix}/mailFolders/{{folder}}/messages", {"GET": list_messages}),
        (f"{prefix}/mailFolders/{{folder}}/messages/{{message}}", {"GET": get_message}),
        (f"{prefix}/messages", {"GET": list_messages, "POST": create_draft}),
        (message, {"GET": get_message, "PATCH": update, "DELETE": delete}),
        (f"{message}/send", {"POST": send_draft}),
        (f"{message}/move", {"POST": move}),
        (f"{message}/reply", {"POST": reply}),
        (f"{message}/replyAll", {"POST": reply_all}),
        (f"{message}/createReply", {"POST": create_reply}),
        (f"{message}/attachments", {"GET": list_attachments}),
        (f"{message}/attachments/{{attachment}}", {"GET": get_attachment}),
    ]


ROUTES = (*_routes("me"), *_routes("users/{user}"))
"""Path patterns with a handler for each method."""
