"""Graph's JSON for what the sandbox holds."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote
from uuid import NAMESPACE_DNS, uuid5

from entrabot_sandbox.clock import iso
from entrabot_sandbox.conversations import ALL_HISTORY, Chat, Member, Message, Reaction
from entrabot_sandbox.directory import User

Json = dict[str, Any]

EXPANDED_MEMBERS = 25


def chat_object(chat: Chat) -> Json:
    """A ``chat``, nothing expanded."""
    return {
        "id": chat.id,
        "topic": chat.topic,
        "createdDateTime": iso(chat.created),
        "lastUpdatedDateTime": iso(chat.updated),
        "chatType": chat.kind,
        "webUrl": f"https://teams.microsoft.com/l/chat/{quote(chat.id, safe='')}/0?tenantId={chat.tenant.id}",
        "tenantId": chat.tenant.id,
        "onlineMeetingInfo": None,
        "viewpoint": {"isHidden": False, "lastMessageReadDateTime": iso(chat.created)},
        "isHiddenForAllMembers": False,
    }


def member_object(member: Member, viewer: User, *, federated_addresses: bool) -> Json:
    """An ``aadUserConversationMember``; the address of somebody from another tenant usually stays empty."""
    user = member.user
    shows_address = federated_addresses or user.tenant is viewer.tenant
    return {
        "@odata.type": "#microsoft.graph.aadUserConversationMember",
        "id": member.id,
        "roles": list(member.roles),
        "displayName": user.name,
        "visibleHistoryStartDateTime": "0001-01-01T00:00:00Z" if member.since == ALL_HISTORY else iso(member.since),
        "userId": user.id,
        "email": user.mail if shows_address else "",
        "tenantId": user.tenant.id,
    }


def message_object(message: Message, chat: Chat, viewer: User, *, unknown_members: bool) -> Json:
    """A ``chatMessage``; ``unknown_members`` is whether the client asked to see newer enumeration members."""
    draft = message.draft
    deleted = message.deleted is not None
    return {
        "id": message.id,
        "replyToId": None,
        "etag": message.etag,
        "messageType": _message_type(message, unknown_members),
        "createdDateTime": iso(message.created),
        "lastModifiedDateTime": iso(message.modified),
        "lastEditedDateTime": iso(message.edited),
        "deletedDateTime": iso(message.deleted),
        "subject": draft.subject,
        "summary": None,
        "chatId": chat.id,
        "importance": draft.importance,
        "locale": "en-us",
        "webUrl": None,
        "channelIdentity": None,
        "policyViolation": None,
        "eventDetail": event_detail(message),
        "from": origin(message, viewer),
        "body": {"contentType": draft.content_type, "content": "" if deleted else draft.content},
        "attachments": [] if deleted else draft.attachments,
        "mentions": [] if deleted else draft.mentions,
        "reactions": [_reaction(reaction) for reaction in message.reactions],
        "messageHistory": [],
    }


def preview_object(message: Message, viewer: User, *, unknown_members: bool) -> Json:
    """A ``chatMessageInfo``: what ``lastMessagePreview`` shows."""
    deleted = message.deleted is not None
    return {
        "id": message.id,
        "createdDateTime": iso(message.created),
        "isDeleted": deleted,
        "messageType": _message_type(message, unknown_members),
        "body": {
            "contentType": message.draft.content_type,
            "content": "" if deleted else message.draft.content,
        },
        "from": origin(message, viewer),
        "eventDetail": event_detail(message),
    }


def origin(message: Message, viewer: User) -> Json | None:
    """Who a message is from: a user, a bot, or nobody."""
    if not message.draft.application:
        return sender(message.sender, viewer)
    bot = {
        "@odata.type": "#microsoft.graph.teamworkApplicationIdentity",
        "id": str(uuid5(NAMESPACE_DNS, message.draft.application)),
        "displayName": message.draft.application,
        "applicationIdentityType": "bot",
    }
    return {"application": bot, "device": None, "user": None}


def sender(user: User | None, viewer: User) -> Json | None:
    """A ``chatMessageFromIdentitySet``: no address, and no name when the sender is of another tenant."""
    if user is None:
        return None
    name = user.name if user.tenant is viewer.tenant else None
    identity = {
        "@odata.type": "#microsoft.graph.teamworkUserIdentity",
        "id": user.id,
        "displayName": name,
        "userIdentityType": "aadUser",
        "tenantId": user.tenant.id,
    }
    return {"application": None, "device": None, "user": identity}


def event_detail(message: Message) -> Json | None:
    """The ``eventDetail`` of a system event."""
    if message.event is None:
        return None
    event = dict(message.event)
    detail: Json = {"@odata.type": f"#microsoft.graph.{event['kind']}EventMessageDetail"}
    if "since" in event:
        since = event["since"]
        detail["visibleHistoryStartDateTime"] = "0001-01-01T00:00:00Z" if since == ALL_HISTORY else iso(since)
    if "members" in event:
        detail["members"] = [_plain_identity(user) for user in event["members"]]
    for name in ("chatId", "chatDisplayName"):
        if name in event:
            detail[name] = event[name]
    detail["initiator"] = {"application": None, "device": None, "user": _plain_identity(event["initiator"])}
    return detail


def _message_type(message: Message, unknown_members: bool) -> str:
    if message.event is None:
        return "message"
    return "systemEventMessage" if unknown_members else "unknownFutureValue"


def _plain_identity(user: User) -> Json:
    return {
        "@odata.type": "#microsoft.graph.teamworkUserIdentity",
        "id": user.id,
        "displayName": None,
        "userIdentityType": "aadUser",
        "tenantId": user.tenant.id,
    }


def _reaction(reaction: Reaction) -> Json:
    return {
        "reactionType": reaction.kind,
        "displayName": reaction.kind.capitalize(),
        "reactionContentUrl": None,
        "createdDateTime": iso(reaction.created),
        "user": {"application": None, "device": None, "user": _plain_identity(reaction.user)},
    }
