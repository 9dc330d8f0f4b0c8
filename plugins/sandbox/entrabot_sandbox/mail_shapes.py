"""Graph's JSON for mail."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from html import escape
from typing import Any

from entrabot_sandbox.calls import Call
from entrabot_sandbox.clock import iso
from entrabot_sandbox.mailbox import FOLDERS, Attachment, Correspondent, Letter, Mail, Mailbox
from entrabot_sandbox.rewriting import plain

Json = dict[str, Any]

_PREVIEW = 255
ONLY_SELECTED = ("internetMessageHeaders", "uniqueBody")


class Preferences:
    """What the ``Prefer`` header asks for, as far as mail heeds it."""

    def __init__(self, header: str) -> None:
        lowered = header.lower().replace(" ", "").replace('"', "")
        self.immutable = "idtype=immutableid" in lowered
        self.body = next((kind for kind in ("text", "html") if f"outlook.body-content-type={kind}" in lowered), "")

    def applied(self) -> dict[str, str]:
        """The header that confirms it."""
        words = ['IdType="ImmutableId"'] if self.immutable else []
        words += [f'outlook.body-content-type="{self.body}"'] if self.body else []
        return {"Preference-Applied": ", ".join(words)} if words else {}


def preferences(call: Call) -> Preferences:
    """What this call asks for."""
    return Preferences(call.headers.get("prefer", ""))


def message_object(mail: Mail, box: Mailbox, wanted: Preferences, base: str) -> Json:
    """A ``message`` with everything in it."""
    letter = mail.letter
    change = base64.b64encode(f"{mail.immutable_id[-12:]}{mail.change}".encode()).decode()
    row: Json = {
        "@odata.etag": f'W/"{change}"',
        "id": mail.immutable_id if wanted.immutable else mail.regular_id,
        "createdDateTime": iso(mail.created),
        "lastModifiedDateTime": iso(mail.modified),
        "changeKey": change,
        "categories": [],
        "receivedDateTime": iso(mail.received),
        "sentDateTime": iso(mail.received),
        "hasAttachments": mail.has_attachments,
        "internetMessageId": letter.message_id,
        "subject": letter.subject,
        "bodyPreview": text_of(letter)[:_PREVIEW],
        "importance": letter.importance,
        "parentFolderId": box.folder_ids[mail.folder],
        "conversationId": letter.thread,
        "conversationIndex": base64.b64encode(hashlib.sha256(letter.thread.encode()).digest()[:22]).decode(),
        "isDeliveryReceiptRequested": None if mail.draft else False,
        "isReadReceiptRequested": False,
        "isRead": mail.read,
        "isDraft": mail.draft,
        "webLink": f"{base}/owa/?ItemID={mail.regular_id}&exvsurl=1&viewmodel=ReadMessageItem",
        "inferenceClassification": "focused",
        "body": body_object(letter, wanted.body),
        "sender": None if mail.draft else recipient(letter.sender),
        "from": None if mail.draft else recipient(letter.sender),
        "toRecipients": recipients(letter.to),
        "ccRecipients": recipients(letter.cc),
        "bccRecipients": recipients(letter.bcc),
        "replyTo": recipients(letter.reply_to),
        "flag": {"flagStatus": "notFlagged"},
        "uniqueBody": body_object(letter, wanted.body),
        "internetMessageHeaders": [{"name": name, "value": value} for name, value in headers_of(mail)],
    }
    return {"@odata.type": f"#microsoft.graph.{letter.kind}", **row} if letter.kind else row


def text_of(letter: Letter) -> str:
    """The words of the body."""
    return plain(letter.content) if letter.content_type == "html" else letter.content


def body_object(letter: Letter, wanted: str) -> Json:
    """An ``itemBody`` in the form asked for; without a wish, HTML."""
    if (wanted or "html") == letter.content_type:
        return {"contentType": letter.content_type, "content": letter.content}
    if wanted == "text":
        return {"contentType": "text", "content": text_of(letter)}
    content = escape(letter.content, quote=False).replace("\n", "<br>\n")
    return {"contentType": "html", "content": f"<html><body>{content}</body></html>"}


def headers_of(mail: Mail) -> list[tuple[str, str | None]]:
    """All headers, the transport's first."""
    letter = mail.letter
    domain = letter.sender.address.rpartition("@")[2] if letter.sender else "outlook.example"
    standard: list[tuple[str, str | None]] = [
        ("Received", f"from relay.outlook.example by mailbox.outlook.example; {iso(mail.received)}"),
        ("Received", f"from mx.{domain} by relay.outlook.example; {iso(mail.received)}"),
        ("From", shown(letter.sender)),
        ("To", ", ".join(shown(one) for one in letter.to)),
        ("Subject", letter.subject),
        ("Message-ID", letter.message_id),
        ("MIME-Version", "1.0"),
    ]
    return [*standard, *letter.headers]


def shown(one: Correspondent | None) -> str:
    """Somebody in a header."""
    return f'"{one.name}" <{one.address}>' if one else ""


def recipient(one: Correspondent | None) -> Json | None:
    """A ``recipient``."""
    return {"emailAddress": {"name": one.name or one.address, "address": one.address}} if one else None


def recipients(several: Iterable[Correspondent]) -> list[Json | None]:
    """A collection of them."""
    return [recipient(one) for one in several]


def folder_object(box: Mailbox, name: str) -> Json:
    """A ``mailFolder``."""
    inside = [mail for mail in box.mails.values() if mail.folder == name]
    return {
        "id": box.folder_ids[name],
        "displayName": FOLDERS[name],
        "parentFolderId": f"AAM{hashlib.sha256(box.address.encode()).hexdigest()}",
        "childFolderCount": 0,
        "unreadItemCount": sum(not mail.read for mail in inside),
        "totalItemCount": len(inside),
        "isHidden": False,
    }


def attachment_object(attachment: Attachment, mail: Mail, *, content: bool) -> Json:
    """A ``fileAttachment``."""
    row: Json = {
        "@odata.type": "#microsoft.graph.fileAttachment",
        "@odata.mediaContentType": attachment.content_type,
        "id": attachment.id,
        "lastModifiedDateTime": iso(mail.modified),
        "name": attachment.name,
        "contentType": attachment.content_type,
        "size": len(attachment.content),
        "isInline": attachment.inline,
        "contentId": attachment.content_id or None,
        "contentLocation": None,
    }
    return {**row, "contentBytes": base64.b64encode(attachment.content).decode()} if content else row
