"""What rides along on a tool result: a JSON document of its own, in a block of its own, short and enveloped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC
from typing import Any

from entrabot_host.delivery.talk import Shown
from entrabot_host.host import ConversationKind
from entrabot_host.security.envelope import wrap_fields
from entrabot_host.security.text import neutralise, one_line

KEY = "_inbox"
MOST = 5
MAX_BYTES = 4_096
_TEXT_LIMITS = (600, 300, 150, 50)
_MAX_NAME = 80
_PLACE = {ConversationKind.CHAT: "chat_id", ConversationKind.MAIL: "mailbox"}


def block(shown: Sequence[Shown], more: int, *, envelope: bool) -> str:
    """Return the text of the block: at most `MAX_BYTES` long. more: how many messages wait besides."""
    text = ""
    for limit in _TEXT_LIMITS:
        text = _document(shown, more, limit, envelope)
        if len(text.encode("utf-8", "replace")) <= MAX_BYTES:
            break
    return text


def _document(shown: Sequence[Shown], more: int, limit: int, envelope: bool) -> str:
    data = {KEY: [_entry(one, limit) for one in shown], "more": more}
    wrapped = wrap_fields(data, (f"{KEY}[].text", f"{KEY}[].from"), "inbox", enabled=envelope)
    return json.dumps(wrapped, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace").decode()


def _entry(one: Shown, limit: int) -> dict[str, Any]:
    received, message = one.received, one.received.message
    text = neutralise(message.text)
    entry: dict[str, Any] = {
        _PLACE[received.conversation.kind]: received.conversation.id,
        "message_id": message.id,
        "from": one_line(message.sender_name or message.sender_address, _MAX_NAME),
        "sent_at": message.created.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "sponsor": "yes" if received.sponsor else "no",
        "redelivered": received.redelivered,
        "text": text if len(text) <= limit else f"{text[: limit - 1]}…",
    }
    if len(text) > limit:
        entry["shortened"] = True
    if len(one.messages) > 1:
        entry["messages"] = len(one.messages)
    return entry
