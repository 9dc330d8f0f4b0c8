"""What Exchange demands of mail that is sent."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

from entrabot_sandbox.errors import GraphError, bad_request
from entrabot_sandbox.mailbox import Attachment, Correspondent, Letter, new_message_id, new_thread
from entrabot_sandbox.odata import words

Json = dict[str, Any]

MAX_HEADERS = 5
MAX_RECIPIENTS = 500
_WRITABLE = frozenset(
    words(
        "subject body toRecipients ccRecipients bccRecipients replyTo importance internetMessageHeaders attachments "
        "categories flag isDeliveryReceiptRequested isReadReceiptRequested from sender isRead inferenceClassification"
    )
)
_ADDRESS = re.compile(r"[^\s@<>(),;:\"\[\]]+@[^\s@<>(),;:\"\[\]]+")


def letter_of(payload: Any, sender: Correspondent) -> Letter:
    """The letter that a ``message`` describes. Raises GraphError (400)."""
    payload = _message(payload)
    content, content_type = body_of(payload.get("body"))
    subject, importance = payload.get("subject"), str(payload.get("importance") or "normal").lower()
    if not isinstance(subject, str | None):
        raise _unreadable("subject")
    if importance not in ("low", "normal", "high"):
        raise _unreadable("importance")
    return Letter(
        sender=sender,
        to=recipients_of(payload, "toRecipients"),
        cc=recipients_of(payload, "ccRecipients"),
        bcc=recipients_of(payload, "bccRecipients"),
        reply_to=recipients_of(payload, "replyTo"),
        subject=subject or "",
        content=content,
        content_type=content_type,
        headers=_headers(payload),
        attachments=tuple(attachment_of(item) for item in _objects(payload, "attachments")),
        importance=importance,
        thread=new_thread(),
        message_id=new_message_id(sender),
    )


def check_recipients(letter: Letter) -> None:
    """Raise GraphError (400) unless the letter goes to somebody, and to addresses only."""
    everybody = (*letter.to, *letter.cc, *letter.bcc)
    if not everybody or not all(_ADDRESS.fullmatch(one.address) for one in everybody):
        raise GraphError(
            400, "ErrorInvalidRecipients", "At least one recipient is not valid., Recipient is not resolved."
        )
    if len(everybody) > MAX_RECIPIENTS:
        raise GraphError(400, "ErrorExceededMessageLimit", "The number of recipients exceeds the limit.")


def body_of(body: Any) -> tuple[str, str]:
    """Content and type of an ``itemBody``; text in either case of letters."""
    if body is None:
        return "", "text"
    if not isinstance(body, dict) or not isinstance(body.get("content") or "", str):
        raise _unreadable("body")
    kind = str(body.get("contentType") or "text").lower()
    if kind not in ("text", "html"):
        raise _unreadable("contentType")
    return body.get("content") or "", kind


def recipients_of(payload: Json, name: str) -> tuple[Correspondent, ...]:
    """The people that a property names. Raises GraphError (400)."""
    found = []
    for item in _objects(payload, name):
        inner = item.get("emailAddress")
        if not isinstance(inner, dict) or not isinstance(inner.get("address"), str):
            raise _unreadable(name)
        found.append(Correspondent(str(inner.get("name") or ""), inner["address"]))
    return tuple(found)


def attachment_of(item: Json) -> Attachment:
    """A ``fileAttachment``. Raises GraphError (400)."""
    if item.get("@odata.type") != "#microsoft.graph.fileAttachment" or not isinstance(item.get("name"), str):
        raise bad_request("An attachment needs its @odata.type and a name; the sandbox takes files only.")
    try:
        content = base64.b64decode(item.get("contentBytes") or "", validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise bad_request("contentBytes is not base64.") from error
    content_type = str(item.get("contentType") or "application/octet-stream")
    identifier = f"AAMk{base64.urlsafe_b64encode(item['name'].encode()).decode()}"
    return Attachment(
        identifier, item["name"], content_type, content, bool(item.get("isInline")), str(item.get("contentId") or "")
    )


def _message(payload: Any) -> Json:
    if not isinstance(payload, dict):
        raise _unreadable("message")
    for name in payload:
        if "@" not in name and name not in _WRITABLE:
            message = f"The property '{name}' does not exist on type 'microsoft.graph.message'."
            raise GraphError(400, "RequestBodyRead", message)
    return payload


def _headers(payload: Json) -> tuple[tuple[str, str | None], ...]:
    found = []
    for item in _objects(payload, "internetMessageHeaders"):
        name, value = item.get("name"), item.get("value")
        if not isinstance(name, str) or not isinstance(value, str):
            raise _unreadable("internetMessageHeaders")
        if not name.lower().startswith("x-"):
            message = f"The internet message header name '{name}' should start with 'x-' or 'X-'."
            raise GraphError(400, "InvalidInternetMessageHeader", message)
        found.append((name, value))
    if len(found) > MAX_HEADERS:
        message = "Maximum number of headers in one message should be less than or equal to 5."
        raise GraphError(400, "InvalidInternetMessageHeaderCollection", message)
    return tuple(found)


def _objects(payload: Json, name: str) -> list[Json]:
    items = payload.get(name) or []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise _unreadable(name)
    return items


def _unreadable(name: str) -> GraphError:
    return GraphError(400, "RequestBodyRead", f"The value of '{name}' cannot be read.")
