"""Graph's JSON for chats and messages, read once into typed values that survive every odd case."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any

from entrabot_host import Attribution, Principal
from entrabot_teams.text import html_to_text

OWN_PREFIX = "[EntraBot]"
"""Starts every message sent in a person's name, so that readers and the agent itself can tell."""

Json = dict[str, Any]
_PREVIEW = 200
_MESSAGE_ID = re.compile(r"[0-9]{1,20}")


class Kind(StrEnum):
    """What a row of a chat's message list is."""

    MESSAGE = "message"
    DELETED = "deleted"
    SYSTEM = "system"
    APP = "app"
    """Written by a bot or a connector."""


@dataclass(frozen=True)
class File:
    """An attachment with an address of its own: a file in somebody's drive, for the most part."""

    name: str
    url: str


@dataclass(frozen=True)
class ChatMessage:
    """One row of a chat's message list. Times are aware; ``content`` is what Graph holds, HTML if ``is_html``.

    quoted: ids of the messages it answers. attachments: what stands for each in the text, by its id; files: those that
    have an address. event: what a system event is, with who did it to whom (object ids) in actor and affected.
    marked: one of its cards says that the agent made it.
    """

    id: str
    kind: Kind
    created: datetime
    modified: datetime
    content: str = field(default="", repr=False)
    is_html: bool = True
    edited: bool = False
    sender_id: str = ""
    sender_tenant: str = ""
    sender_name: str = ""
    event: str = ""
    actor: str = ""
    affected: tuple[str, ...] = ()
    topic: str = ""
    mentioned: frozenset[str] = frozenset()
    quoted: tuple[str, ...] = ()
    attachments: Mapping[str, str] = field(default_factory=dict, repr=False)
    files: tuple[File, ...] = ()
    marked: bool = False

    @property
    def added(self) -> frozenset[str]:
        """Object ids of the people whom a system event let in."""
        return frozenset(self.affected if self.event in ("membersAdded", "membersJoined") else ())

    def text(self) -> str:
        """Return the plain text. Parses HTML: call it in a worker thread."""
        if self.kind in (Kind.DELETED, Kind.SYSTEM):
            return ""
        text = html_to_text(self.content, self.attachments) if self.is_html else self.content.strip()
        loose = [shown for key, shown in self.attachments.items() if shown and f'id="{key}"' not in self.content]
        return "\n".join([text, *loose] if text else loose)

    def is_own(self, me: Principal) -> bool:
        """Whether the agent wrote it. In a person's name only the prefix tells his words from the agent's."""
        if self.sender_id != me.user_id:
            return False
        return me.attribution is Attribution.AGENT or self.marked or self.text().startswith(OWN_PREFIX)


def message_of(row: Any) -> ChatMessage | None:
    """Read a ``chatMessage``; None when it has no id or no time, so that nothing can be said about it."""
    row = _mapping(row)
    created = moment(row.get("createdDateTime"))
    if not _text(row.get("id")) or created is None:
        return None
    body, detail = _mapping(row.get("body")), _mapping(row.get("eventDetail"))
    kind, sender = _kind(row), _sender(row)
    attachments = [item for item in map(_mapping, _rows(row.get("attachments"))) if item]
    return ChatMessage(
        id=_text(row["id"]),
        kind=kind,
        created=created,
        modified=moment(row.get("lastModifiedDateTime")) or created,
        content=_text(body.get("content")),
        is_html=_text(body.get("contentType")).lower() != "text",
        edited=bool(row.get("lastEditedDateTime")),
        sender_id=_text(sender.get("id")),
        sender_tenant=_text(sender.get("tenantId")),
        sender_name=_text(sender.get("displayName")),
        event=_event(detail),
        actor=_text(_mapping(_mapping(detail.get("initiator")).get("user")).get("id")),
        affected=_people(detail.get("members")),
        topic=_text(detail.get("chatDisplayName")),
        mentioned=frozenset(_mentioned(item) for item in _rows(row.get("mentions"))) - {""},
        quoted=tuple(quoted for item in attachments if (quoted := _quoted(item))),
        attachments={_text(item.get("id")): _shown(item) for item in attachments},
        files=tuple(file for item in attachments if (file := _file(item))),
        marked=any(_card_text(item).startswith(OWN_PREFIX) for item in attachments),
    )


def messages_of(rows: Any) -> list[ChatMessage]:
    """Read a page of messages, leaving out what cannot be read."""
    return [message for row in _rows(rows) if (message := message_of(row)) is not None]


def _kind(row: Json) -> Kind:
    if row.get("deletedDateTime"):
        return Kind.DELETED
    origin = _mapping(row.get("from"))
    is_plain = _text(row.get("messageType")) in ("message", "")
    if row.get("eventDetail") or not is_plain or not (origin.get("user") or origin.get("application")):
        return Kind.SYSTEM
    return Kind.MESSAGE if origin.get("user") else Kind.APP


def _sender(row: Json) -> Json:
    origin = _mapping(row.get("from"))
    return _mapping(origin.get("user") or origin.get("application"))


def _event(detail: Json) -> str:
    """Turn ``#microsoft.graph.membersAddedEventMessageDetail`` into ``membersAdded``."""
    return _text(detail.get("@odata.type")).rpartition(".")[2].removesuffix("EventMessageDetail")


def _people(rows: Any) -> tuple[str, ...]:
    return tuple(found for row in _rows(rows) if (found := _text(_mapping(row).get("id"))))


def _mentioned(item: Any) -> str:
    return _text(_mapping(_mapping(_mapping(item).get("mentioned")).get("user")).get("id"))


def _quoted(attachment: Json) -> str:
    """Return the id of the quoted message. Its sender wrote the reference, so only what is an id is believed."""
    if attachment.get("contentType") != "messageReference":
        return ""
    named = _text(_reference(attachment).get("messageId")) or _text(attachment.get("id"))
    return named if _MESSAGE_ID.fullmatch(named) else ""


def _reference(attachment: Json) -> Json:
    """Read what a quotation or a card holds: JSON in a string."""
    try:
        return _mapping(json.loads(_text(attachment.get("content")) or "{}"))
    except (ValueError, RecursionError):
        return {}


def _quotation(attachment: Json) -> str:
    content = _reference(attachment)
    user = _mapping(_mapping(content.get("messageSender")).get("user"))
    preview = " ".join(_text(content.get("messagePreview")).split())[:_PREVIEW]
    whose = " ".join(_text(user.get("displayName")).split())
    return f"[quote{' of ' + whose if whose else ''}: {preview}]" if preview else ""


def _shown(attachment: Json) -> str:
    """What stands for an attachment in the text."""
    kind, name = _text(attachment.get("contentType")), _text(attachment.get("name"))
    if kind == "messageReference":
        return _quotation(attachment)
    if kind == "reference":
        return f"[file: {' '.join(part for part in (name, _text(attachment.get('contentUrl'))) if part)}]"
    if kind == "forwardedMessageReference":
        return "[forwarded message]"
    label = "card" if ".card." in kind else "attachment"
    what = " ".join((name or _card_text(attachment)).split())[:_PREVIEW]
    return f"[{label}: {what}]" if what else f"[{label}]"


def _card_text(attachment: Json) -> str:
    """What a card says where cards cannot be shown."""
    is_card = _text(attachment.get("contentType")) == "application/vnd.microsoft.card.adaptive"
    return _text(_reference(attachment).get("fallbackText")) if is_card else ""


def _file(attachment: Json) -> File | None:
    url = _text(attachment.get("contentUrl"))
    return File(_text(attachment.get("name")), url) if url.startswith("https://") else None


@dataclass(frozen=True)
class Head:
    """What a list of chats shows about one of them: its last message, by id, time and sender.

    ``preview_id`` is empty when there is none; the sender is empty for events and bots.
    """

    chat_id: str
    created: datetime | None = None
    preview_id: str = ""
    preview_created: datetime | None = None
    preview_sender: str = ""


def head_of(row: Any) -> Head | None:
    """Read a ``chat`` with its ``lastMessagePreview``; None when it has no id."""
    row = _mapping(row)
    if not (chat_id := _text(row.get("id"))):
        return None
    preview = _mapping(row.get("lastMessagePreview"))
    return Head(
        chat_id,
        moment(row.get("createdDateTime")),
        _text(preview.get("id")),
        moment(preview.get("createdDateTime")),
        _text(_mapping(_mapping(preview.get("from")).get("user")).get("id")),
    )


def heads_of(rows: Any) -> list[Head]:
    """Read a page of chats."""
    return [head for row in _rows(rows) if (head := head_of(row)) is not None]


# --- values ---------------------------------------------------------------------------------------------------------


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
    """Write a time as Graph's filters take it, cut to milliseconds."""
    return time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def _mapping(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _rows(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
