"""What a waiting call tells the model about the messages that it carries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from entrabot_host import ConversationKind, Received
from entrabot_teams.wire import iso

EXTERNAL = (
    "sponsor_reply.content",
    "sponsor_reply.from",
    "later_messages[].content",
    "later_messages[].from",
    "earlier_messages[].content",
    "earlier_messages[].from",
)
"""The fields of `result` that hold what people wrote."""

MAX_TEXT = 8_000
_SHORTENED = " [shortened; read_teams_messages shows the whole message]"

ANSWER = "Answer sponsor_reply in its chat_id."
ANSWER_ELSEWHERE = "sponsor_reply came from another chat (its chat_id): answer there."
EARLIER_FIRST = "Answer earlier_messages first, each in its chat; none of them answers what you sent last."
EARLIER_TOO = "earlier_messages are not answers to what you sent last; look after them, too."
NO_REPLY = (
    "Delivered, no reply yet: do NOT send it again; go on with other work, or call wait_for_sponsor_dm to wait longer."
)
NOT_WAITED = "Delivered; do NOT send it again. Waiting for a reply was not possible"
NOTHING = "No sponsor has written yet: go on with other work, or call wait_for_sponsor_dm again."


def result(
    received: Sequence[Received], mark: datetime, *, chat_id: str, waited: float, nothing: str
) -> dict[str, Any]:
    """Return the result's fields. Only a sponsor's chat message created after ``mark`` is a reply.

    chat_id: the chat waited on; empty when the wait is about all. nothing: what to do when nobody wrote.
    """
    ordered = sorted(received, key=lambda one: (one.message.created, one.message.id))
    later = [one for one in ordered if _is_reply(one, mark)]
    reply = next((one for one in later if one.conversation.id == chat_id), later[0] if later else None)
    shown: dict[str, Any] = {}
    if reply:
        shown["sponsor_reply"] = show(reply, chat_id)
    if rest := [show(one, chat_id) for one in later if one is not reply]:
        shown["later_messages"] = rest
    if earlier := [{**show(one, chat_id), "sponsor": one.sponsor} for one in ordered if one not in later]:
        shown["earlier_messages"] = earlier
    shown["waited_seconds"] = round(waited, 1)
    shown["_next_action"] = _next_action(shown, nothing)
    return shown


def _is_reply(one: Received, mark: datetime) -> bool:
    return one.sponsor and one.conversation.kind is ConversationKind.CHAT and one.message.created > mark


def _next_action(shown: dict[str, Any], nothing: str) -> str:
    reply = shown.get("sponsor_reply")
    if reply is None:
        return EARLIER_FIRST if "earlier_messages" in shown else nothing
    answer = ANSWER_ELSEWHERE if reply.get("other_chat") else ANSWER
    return f"{answer} {EARLIER_TOO}" if "earlier_messages" in shown else answer


def show(one: Received, chat_id: str = "") -> dict[str, Any]:
    """Return a message as the model sees it. chat_id: the chat that is waited on, if it is one."""
    message = one.message
    shown: dict[str, Any] = {
        "chat_id" if one.conversation.kind is ConversationKind.CHAT else "mailbox": one.conversation.id,
        "message_id": message.id,
        "from": message.sender_name,
        "content": message.text if len(message.text) <= MAX_TEXT else message.text[:MAX_TEXT] + _SHORTENED,
        "sent_at": iso(message.created),
    }
    if quoted := message.meta.get("reply_to_ids"):
        shown["reply_to_ids"] = quoted.split(",")
    if chat_id and one.conversation.id != chat_id:
        shown["other_chat"] = True
    if one.redelivered:
        shown["redelivered"] = True
    return shown
