"""Messages of chats, as Graph offers them."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any
from urllib.parse import quote

from entrabot_sandbox import shapes
from entrabot_sandbox.calls import Call
from entrabot_sandbox.compose import edited_draft, new_draft
from entrabot_sandbox.conversations import Chat, Conversations, Draft, Message
from entrabot_sandbox.directory import User
from entrabot_sandbox.errors import bad_request, forbidden, not_found
from entrabot_sandbox.odata import Comparison, Options, collection, comparisons, page
from entrabot_sandbox.reply import Reply

Json = dict[str, Any]

READ = ("Chat.Read", "Chat.ReadWrite")
MODIFIED, CREATED = "lastModifiedDateTime", "createdDateTime"
_OPERATORS = {MODIFIED: ("gt", "lt"), CREATED: ("lt",)}


async def list_messages(call: Call) -> Reply:
    """``GET /chats/{id}/messages``."""
    call.require(*READ)
    chat, member = call.membership()
    options = Options.read(call.query, ("$top", "$orderby", "$filter"))
    order, top = _order(options), options.top()
    bounds = _bounds(options, order)
    rows = [m for m in chat.visible_to(member) if all(_holds(m, bound) for bound in bounds)]
    rows, link = page(rows, options, lambda m: _key(m, order), call.url, top=top)
    context = call.context(f"chats('{quote(chat.id)}')/messages")
    return Reply(200, json=collection(context, [_shown(m, chat, call) for m in rows], link))


async def get_message(call: Call) -> Reply:
    """``GET /chats/{id}/messages/{id}``."""
    call.require(*READ)
    chat, message = _message(call)
    return _entity(call, chat, message, 200)


async def send(call: Call) -> Reply:
    """``POST /chats/{id}/messages``: 201 with the full message."""
    call.require("ChatMessage.Send", "Chat.ReadWrite")
    chat, _ = call.membership()
    message = publish(call.state.conversations, chat, call.user(), new_draft(call.json()), call.state.base)
    return _entity(call, chat, message, 201)


async def update(call: Call) -> Reply:
    """``PATCH /chats/{id}/messages/{id}``: 204."""
    call.require("Chat.ReadWrite")
    chat, message = _own_message(call)
    draft = edited_draft(call.json(), message.draft)
    _show_images(draft, chat, message, call.state.base)
    call.state.conversations.edit(chat, message, draft)
    return Reply(204)


async def soft_delete(call: Call) -> Reply:
    """``POST .../softDelete``: 204."""
    call.require("Chat.ReadWrite")
    chat, message = _own_message(call)
    call.state.conversations.delete(chat, message)
    return Reply(204)


async def undo_soft_delete(call: Call) -> Reply:
    """``POST .../undoSoftDelete``: 204."""
    call.require("Chat.ReadWrite")
    chat, message = _own_message(call)
    call.state.conversations.restore(chat, message)
    return Reply(204)


async def list_hosted(call: Call) -> Reply:
    """``GET .../hostedContents``."""
    call.require(*READ)
    chat, message = _message(call)
    Options.read(call.query, ())
    rows = [_hosted_object(hosted) for hosted in _hosted(message)]
    context = call.context(f"chats('{quote(chat.id)}')/messages('{message.id}')/hostedContents")
    return Reply(200, json=collection(context, rows, None))


async def get_hosted(call: Call) -> Reply:
    """``GET .../hostedContents/{id}``: metadata, its members always null."""
    call.require(*READ)
    chat, message = _message(call)
    Options.read(call.query, ())
    _one_hosted(call, message)
    context = call.context(f"chats('{quote(chat.id)}')/messages('{message.id}')/hostedContents/$entity")
    return Reply(200, json={"@odata.context": context, **_hosted_object(call.params["hosted"])})


async def get_hosted_bytes(call: Call) -> Reply:
    """``GET .../hostedContents/{id}/$value``: the bytes."""
    call.require(*READ)
    _, message = _message(call)
    Options.read(call.query, ())
    content_type, content = _one_hosted(call, message)
    return Reply(200, {"Content-Type": content_type}, body=content)


def publish(conversations: Conversations, chat: Chat, sender: User, draft: Draft, base: str) -> Message:
    """Add a message to a chat and give its images their addresses."""
    message = conversations.post(chat, sender, draft)
    _show_images(draft, chat, message, base)
    return message


def _order(options: Options) -> str:
    order = options.order()
    if order is None:
        return MODIFIED
    if order not in ((MODIFIED, "desc"), (CREATED, "desc")):
        raise bad_request("QueryOptions to order by is not supported.")
    return order[0]


def _bounds(options: Options, order: str) -> list[Comparison]:
    """The comparisons that count: a filter on another property than an explicit order names is ignored."""
    text = options.get("$filter")
    if text is None:
        return []
    bounds = comparisons(text)
    if options.get("$orderby") is None or any(bound.name != order for bound in bounds):
        return []
    for bound in bounds:
        if bound.operator not in _OPERATORS[order]:
            raise bad_request(f"Operator '{bound.operator}' is not supported for {order}.")
        bound.moment()
    return bounds


def _holds(message: Message, bound: Comparison) -> bool:
    moment = _moment(message, bound.name)
    return moment > bound.moment() if bound.operator == "gt" else moment < bound.moment()


def _moment(message: Message, name: str) -> datetime:
    return message.modified if name == MODIFIED else message.created


def _key(message: Message, order: str) -> tuple[str, str]:
    stamp = int(_moment(message, order).timestamp() * 1000)
    return str(stamp).zfill(15), message.id.zfill(15)


def _shown(message: Message, chat: Chat, call: Call) -> Json:
    return shapes.message_object(message, chat, call.user(), unknown_members=call.unknown_members)


def _entity(call: Call, chat: Chat, message: Message, status: int) -> Reply:
    context = call.context(f"chats('{quote(chat.id)}')/messages/$entity")
    return Reply(status, json={"@odata.context": context, **_shown(message, chat, call)})


def _message(call: Call) -> tuple[Chat, Message]:
    chat, member = call.membership()
    message = next((m for m in chat.visible_to(member) if m.id == call.params["message"]), None)
    if message is None:
        raise not_found("The message was not found.")
    return chat, message


def _own_message(call: Call) -> tuple[Chat, Message]:
    chat, message = _message(call)
    if message.sender is not call.user():
        raise forbidden("Only the sender of a message can change it.")
    return chat, message


def _hosted(message: Message) -> dict[str, tuple[str, bytes]]:
    if message.deleted is not None:
        return {}
    return {_hosted_id(message, name): content for name, content in message.draft.hosted.items()}


def _one_hosted(call: Call, message: Message) -> tuple[str, bytes]:
    content = _hosted(message).get(call.params["hosted"])
    if content is None:
        raise not_found("The hosted content was not found.")
    return content


def _hosted_object(hosted_id: str) -> Json:
    return {"id": hosted_id, "contentBytes": None, "contentType": None}


def _hosted_id(message: Message, name: str) -> str:
    text = f"id={message.id}-{name},type=1,url=https://images.sandbox.example/v1/objects/{message.id}-{name}"
    return base64.urlsafe_b64encode(text.encode()).decode()


def _show_images(draft: Draft, chat: Chat, message: Message, base: str) -> None:
    root = f"{base}/v1.0/chats/{chat.id}/messages/{message.id}/hostedContents"
    for name in draft.hosted:
        for relative in (f'"../hostedContents/{name}/$value"', f'"hostedContents/{name}/$value"'):
            draft.content = draft.content.replace(relative, f'"{root}/{_hosted_id(message, name)}/$value"')
