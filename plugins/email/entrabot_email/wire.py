"""Graph's JSON for mail, read once into typed values that survive every odd case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from entrabot_email.addresses import Recipient

Json = dict[str, Any]
PREVIEW = 255
"""Characters of a body that Graph's preview holds at most."""

_REST_OF_SECOND = timedelta(microseconds=999_999)


@dataclass(frozen=True, kw_only=True)
class Mail:
    """One mail. Times are aware; ``received`` has whole seconds. kind: ``eventMessageRequest`` for an invitation.

    headers: names and values in the mail's order; empty when they were not asked for. ``body`` is text.
    """

    id: str
    received: datetime
    sender: Recipient
    subject: str = ""
    preview: str = field(default="", repr=False)
    body: str = field(default="", repr=False)
    sent: datetime | None = None
    to: tuple[Recipient, ...] = ()
    cc: tuple[Recipient, ...] = ()
    bcc: tuple[Recipient, ...] = ()
    reply_to: tuple[Recipient, ...] = ()
    has_attachments: bool = False
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    importance: str = "normal"
    conversation_id: str = ""
    is_draft: bool = False
    is_read: bool = False
    kind: str = ""

    @property
    def created(self) -> datetime:
        """The end of the second in which it came, so that no mail of a second is older than its others."""
        return self.received + _REST_OF_SECOND

    def header(self, name: str) -> str:
        """Return the first header of that name, in lower case; empty when there is none."""
        return next((value.lower() for key, value in self.headers if key.lower() == name), "")


def mail_of(row: Any) -> Mail | None:
    """Read a ``message``; None when it has no id or no time."""
    row = _mapping(row)
    received = moment(row.get("receivedDateTime")) or moment(row.get("createdDateTime"))
    if not _text(row.get("id")) or received is None:
        return None
    sender = recipient_of(row.get("from")) or recipient_of(row.get("sender")) or Recipient("")
    return Mail(
        id=_text(row["id"]),
        received=received.replace(microsecond=0),
        sent=moment(row.get("sentDateTime")),
        sender=sender,
        subject=" ".join(_text(row.get("subject")).split()),
        preview=_text(row.get("bodyPreview")),
        body=_text(_mapping(row.get("body")).get("content")),
        to=recipients_of(row.get("toRecipients")),
        cc=recipients_of(row.get("ccRecipients")),
        bcc=recipients_of(row.get("bccRecipients")),
        reply_to=recipients_of(row.get("replyTo")),
        has_attachments=row.get("hasAttachments") is True,
        headers=_headers(row.get("internetMessageHeaders")),
        importance=_text(row.get("importance")) or "normal",
        conversation_id=_text(row.get("conversationId")),
        is_draft=row.get("isDraft") is True,
        is_read=row.get("isRead") is True,
        kind=_text(row.get("@odata.type")).rpartition(".")[2],
    )


def mails_of(rows: Any) -> list[Mail]:
    """Read a page of messages, leaving out what cannot be read."""
    return [mail for row in _rows(rows) if (mail := mail_of(row)) is not None]


def recipient_of(value: Any) -> Recipient | None:
    """Read a ``recipient``; None when it names nobody."""
    inner = _mapping(_mapping(value).get("emailAddress"))
    address, name = _text(inner.get("address")).strip(), " ".join(_text(inner.get("name")).split())
    return Recipient(address, "" if name == address else name) if address or name else None


def recipients_of(values: Any) -> tuple[Recipient, ...]:
    """Read a collection of them."""
    return tuple(found for value in _rows(values) if (found := recipient_of(value)) is not None)


def listed(recipients: Sequence[Recipient]) -> str:
    """Write a list in one line."""
    return ", ".join(str(one) for one in recipients)


def moment(text: Any) -> datetime | None:
    """Read Graph's time; None when it is none."""
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def http_moment(text: str) -> datetime | None:
    """Read a ``Date`` header, whole seconds."""
    try:
        return parsedate_to_datetime(text).astimezone(UTC)
    except (TypeError, ValueError):
        return None


def iso(time: datetime) -> str:
    """Write a time as Graph's filters take it, cut to the second."""
    return time.astimezone(UTC).replace(tzinfo=None, microsecond=0).isoformat() + "Z"


def _headers(value: Any) -> tuple[tuple[str, str], ...]:
    pairs = ((_text(_mapping(one).get("name")), _text(_mapping(one).get("value"))) for one in _rows(value))
    return tuple((name, " ".join(text.split())) for name, text in pairs if name)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _rows(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
