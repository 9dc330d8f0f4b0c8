"""A person's message as the push that Claude Code shows in a ``<channel>`` element.

The element is built by the client from what we send, so neither the content nor an attribute may hold what could end
it or add to it: no angle bracket at all (raw tags made clients close the stream), no quotation mark or line break in an
attribute, no character that a reader does not see.
"""

from __future__ import annotations

import re
from datetime import UTC
from typing import Any, Protocol

from entrabot_host.delivery.digest import Digest
from entrabot_host.host import Conversation, ConversationKind, Message
from entrabot_host.security.envelope import wrap
from entrabot_host.security.text import neutralise, one_line

METHOD = "notifications/claude/channel"
MAX_TEXT = 8_000
MAX_VALUE = 300
MAX_NAME = 80
MAX_EXTRA = 16

_ANGLES = str.maketrans(
    {**dict.fromkeys("<＜﹤〈⟨〈", "‹"), **dict.fromkeys(">＞﹥〉⟩〉", "›")}  # those that normalise or look alike, too
)
_QUOTES = str.maketrans({**dict.fromkeys('"“”„‟″＂', "'"), "`": "'"})
_ENTITY = re.compile(r"&(?=#|\w+;)")
_META_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_OURS = frozenset(
    {
        "chat_id",
        "message_id",
        "user",
        "user_id",
        "ts",
        "sponsor",
        "kind",
        "redelivered",
        "source",
        "content",
        "meta",
        "messages",
    }
)
_READER = {ConversationKind.CHAT: "read_teams_messages", ConversationKind.MAIL: "read_email"}
_NO_SPONSOR = {
    ConversationKind.CHAT: "somebody who is NOT a sponsor of yours",
    ConversationKind.MAIL: "somebody whom mail does not prove to be a sponsor of yours",
}
_WORD = {ConversationKind.CHAT: "Teams message", ConversationKind.MAIL: "Mail"}


class ChannelClosed(Exception):
    """The host has gone; the line was not written."""


class ChannelSink(Protocol):
    """Where pushes go: the pipe to the MCP host."""

    @property
    def ready(self) -> bool:
        """Whether a push would be written now: the host has begun, takes pushes, and reads what was written before."""
        ...

    async def push(self, params: dict[str, Any]) -> None:
        """Return when the line was written to the pipe. Raises `ChannelClosed`."""
        ...


def channel_params(
    conversation: Conversation, message: Message, *, sponsor: bool, redelivered: bool = False, envelope: bool = True
) -> dict[str, Any]:
    """Return the params of the notification. envelope: whether the text goes into the external-content envelope."""
    return {
        "content": _content(conversation, message, sponsor, redelivered, envelope),
        "meta": _meta(conversation, message, sponsor, redelivered),
    }


def digest_params(
    conversation: Conversation, digest: Digest, *, redelivered: bool = False, envelope: bool = True
) -> dict[str, Any]:
    """Return the params of one notification that stands for many messages; it names the last one."""
    outside = wrap(neutralise(digest.outside_text), f"{conversation.kind} message", enabled=envelope)
    again = " You may have been handed some of them before." if redelivered else ""
    lines = [f"{digest.summary(conversation)}{again}", outside]
    meta = _meta(conversation, digest.last, False, redelivered)
    meta = {**meta, "user": "several messages", "sponsor": "no", "messages": str(len(digest.messages))}
    return {"content": "\n".join(lines).translate(_ANGLES), "meta": meta}


def _content(conversation: Conversation, message: Message, sponsor: bool, redelivered: bool, envelope: bool) -> str:
    text = neutralise(message.text)
    lines = [_heading(conversation, message, sponsor, redelivered)]
    if len(text) > MAX_TEXT:
        reader = _READER[conversation.kind]
        lines.append(f"Shortened: {MAX_TEXT} of {len(text)} characters follow; {reader} shows the whole message.")
        text = text[:MAX_TEXT]
    lines.append(wrap(text, f"{conversation.kind} message", enabled=envelope))
    return "\n".join(lines).translate(_ANGLES)


def _heading(conversation: Conversation, message: Message, sponsor: bool, redelivered: bool) -> str:
    """The verdict stands before the name, which is the sender's own text and might hold a verdict of his."""
    name = _value(message.sender_name, MAX_NAME) or "somebody without a name"
    verdict = "a sponsor of yours" if sponsor else _NO_SPONSOR[conversation.kind]
    again = " You may have been handed this before." if redelivered else ""
    return f'{_WORD[conversation.kind]} from {verdict} (checked by the server).{again} The sender\'s name: "{name}"'


def _meta(conversation: Conversation, message: Message, sponsor: bool, redelivered: bool) -> dict[str, str]:
    meta = {
        "chat_id": _value(conversation.id, 1_000),
        "message_id": _value(message.id, 1_000),
        "user": _value(message.sender_name, MAX_NAME),
        "ts": message.created.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "sponsor": "yes" if sponsor else "no",
        "kind": str(conversation.kind),
    }
    if redelivered:
        meta["redelivered"] = "yes"
    return {**_extra(message), **meta}


def _extra(message: Message) -> dict[str, str]:
    """Return what the change source adds; it cannot speak in the server's place."""
    names = [name for name in message.meta if _META_NAME.fullmatch(name) and name.casefold() not in _OURS]
    return {name: _value(str(message.meta[name]), MAX_VALUE) for name in names[:MAX_EXTRA]}


def _value(text: str, limit: int) -> str:
    return _ENTITY.sub("+", one_line(text, limit).translate(_ANGLES).translate(_QUOTES))
