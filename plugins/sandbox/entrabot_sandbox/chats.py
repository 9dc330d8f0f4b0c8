"""Chats and their members, as Graph offers them."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote
from uuid import UUID

from entrabot_sandbox import shapes
from entrabot_sandbox.calls import Call
from entrabot_sandbox.conversations import ALL_HISTORY, Chat, Member, Message
from entrabot_sandbox.directory import Tenant, User
from entrabot_sandbox.errors import bad_request, not_found
from entrabot_sandbox.odata import Comparison, Options, collection, comparisons, page
from entrabot_sandbox.reply import Reply
from entrabot_sandbox.scopes import GRAPH_URL

Json = dict[str, Any]

READ_CHATS = ("Chat.ReadBasic", "Chat.Read", "Chat.ReadWrite")
READ_MEMBERS = ("ChatMember.Read", "ChatMember.ReadWrite", *READ_CHATS)
EXPANDABLE = ("members", "lastMessagePreview")
BY_PREVIEW = ("lastMessagePreview/createdDateTime", "desc")

_BIND = re.compile(r"^(https://[^/]+)/v1\.0/users(?:\('((?:[^']|'')+)'\)|/([^/]+))$")


async def list_chats(call: Call) -> Reply:
    """``GET /me/chats``."""
    call.check_self()
    call.require(*READ_CHATS)
    options = Options.read(call.query, ("$expand", "$filter", "$top", "$orderby"))
    expand, top = options.expand(EXPANDABLE), options.top()
    ordered = _is_ordered(call, options)
    rows = [chat for chat in call.state.conversations.of(call.user()) if _is_wanted(chat, options)]
    rows, link = page(rows, options, lambda chat: _chat_key(chat, call.user(), ordered), call.url, top=top)
    context = call.context("chats(members())" if "members" in expand else "chats")
    return Reply(200, json=collection(context, [_expanded(chat, call, expand) for chat in rows], link))


async def get_chat(call: Call) -> Reply:
    """``GET /chats/{id}``."""
    call.require(*READ_CHATS)
    chat, _ = call.membership()
    expand = Options.read(call.query, ("$expand",)).expand(EXPANDABLE)
    return Reply(200, json={"@odata.context": call.context("chats/$entity"), **_expanded(chat, call, expand)})


async def create_chat(call: Call) -> Reply:
    """``POST /chats``."""
    call.require("Chat.Create", "Chat.ReadWrite")
    payload = call.json()
    kind, topic = _kind_and_topic(payload)
    members = _new_members(call, payload, kind)
    chat = call.state.conversations.create(kind, call.user(), members, topic)
    return Reply(201, json={"@odata.context": call.context("chats/$entity"), **shapes.chat_object(chat)})


async def list_members(call: Call) -> Reply:
    """``GET /chats/{id}/members``."""
    call.require(*READ_MEMBERS)
    chat, _ = call.membership()
    Options.read(call.query, ())
    rows = [_member_row(member, call) for member in chat.members]
    return Reply(200, json=collection(call.context(f"chats('{quote(chat.id)}')/members"), rows, None))


async def get_member(call: Call) -> Reply:
    """``GET /chats/{id}/members/{membership id}``."""
    call.require(*READ_MEMBERS)
    chat, _ = call.membership()
    member = next((m for m in chat.members if m.id == call.params["member"]), None)
    if member is None:
        raise not_found("The member was not found.")
    context = call.context(f"chats('{quote(chat.id)}')/members/$entity")
    return Reply(200, json={"@odata.context": context, **_member_row(member, call)})


async def add_member(call: Call) -> Reply:
    """``POST /chats/{id}/members``: 201 with a Location and no body."""
    call.require("ChatMember.ReadWrite", "Chat.ReadWrite")
    chat, _ = call.membership()
    payload = call.json()
    member = _member(call, payload)
    if chat.kind == "oneOnOne":
        raise bad_request("A one-on-one chat takes no further members.")
    if chat.member(member.user):
        raise bad_request("The user is already a member of the chat.")
    member.since = _since(call, payload)
    call.state.conversations.add_member(chat, call.user(), member)
    location = f"/v1.0/chats('{quote(chat.id, safe='')}')/members('{quote(member.id, safe='')}')"
    return Reply(201, {"Location": location})


def latest(chat: Chat, user: User) -> Message | None:
    """The newest message, system events and deleted ones included, that the user may see."""
    member = chat.member(user)
    return max(chat.visible_to(member), key=lambda m: m.created, default=None) if member else None


def _is_ordered(call: Call, options: Options) -> bool:
    order = options.order()
    if order is None:
        return False
    if order != BY_PREVIEW or not call.state.ordering_taken:
        raise bad_request("The $orderby of this request is not supported.")
    return True


def _chat_key(chat: Chat, user: User, ordered: bool) -> tuple[str, str]:
    newest = latest(chat, user) if ordered else None
    return (newest.id.zfill(15) if newest else "", chat.id)


def _is_wanted(chat: Chat, options: Options) -> bool:
    text = options.get("$filter")
    return text is None or all(_holds(chat, comparison) for comparison in comparisons(text))


def _holds(chat: Chat, comparison: Comparison) -> bool:
    values = {"chatType": chat.kind, "topic": chat.topic or ""}
    if comparison.operator != "eq" or comparison.name not in values or not comparison.value.startswith("'"):
        raise bad_request("The $filter of this request is not supported.")
    return values[comparison.name] == comparison.value[1:-1].replace("''", "'")


def _expanded(chat: Chat, call: Call, expand: list[str]) -> Json:
    row = shapes.chat_object(chat)
    if "members" in expand:
        row["members"] = [_member_row(member, call) for member in chat.members[: shapes.EXPANDED_MEMBERS]]
    if "lastMessagePreview" in expand:
        newest, unknown = latest(chat, call.user()), call.unknown_members
        row["lastMessagePreview"] = (
            shapes.preview_object(newest, call.user(), unknown_members=unknown) if newest else None
        )
    return row


def _member_row(member: Member, call: Call) -> Json:
    shown = call.state.federated_addresses
    return shapes.member_object(member, call.user(), federated_addresses=shown)


def _kind_and_topic(payload: Any) -> tuple[str, str | None]:
    if not isinstance(payload, dict):
        raise bad_request("The request body is not a chat.")
    for name in payload:
        if name not in ("chatType", "topic", "members", "installedApps") and "@odata" not in name:
            raise bad_request(f"The property '{name}' is not accepted when a chat is created.")
    kind, topic = payload.get("chatType"), payload.get("topic")
    if kind not in ("oneOnOne", "group"):
        raise bad_request("chatType must be oneOnOne or group.")
    if not isinstance(topic, str | None):
        raise bad_request("topic must be a string.")
    if topic is not None and kind == "oneOnOne":
        raise bad_request("Only a group chat has a topic.")
    return kind, topic


def _new_members(call: Call, payload: Json, kind: str) -> list[Member]:
    wanted = payload.get("members")
    if not isinstance(wanted, list) or not wanted:
        raise bad_request("members must list every participant.")
    members = [_member(call, item) for item in wanted]
    users = [member.user for member in members]
    if len({user.id for user in users}) != len(users):
        raise bad_request("A participant is listed twice.")
    if call.user() not in users:
        raise bad_request("The caller must be listed among the members.")
    if kind == "oneOnOne" and len(users) != 2:
        raise bad_request("A one-on-one chat has exactly two members.")
    if len(users) < 2:
        raise bad_request("A chat has at least two members.")
    return members


def _member(call: Call, item: Any) -> Member:
    if not isinstance(item, dict) or item.get("@odata.type") != "#microsoft.graph.aadUserConversationMember":
        raise bad_request("A member must be a #microsoft.graph.aadUserConversationMember.")
    roles = item.get("roles")
    if roles not in (["owner"], ["guest"]):
        raise bad_request("A member's roles must be ['owner'] or ['guest'].")
    tenant = _tenant(call, item.get("tenantId"))
    return Member(_bound_user(call, item.get("user@odata.bind"), tenant), roles)


def _tenant(call: Call, tenant_id: Any) -> Tenant:
    if tenant_id is None:
        return call.principal.tenant
    try:
        tenant = call.state.directory.tenant(str(UUID(tenant_id)))
    except (ValueError, TypeError, AttributeError) as error:
        raise bad_request("tenantId is not a GUID.") from error
    if tenant is None:
        raise bad_request("The tenant of a member was not found.")
    return tenant


def _bound_user(call: Call, bind: Any, tenant: Tenant) -> User:
    match = _BIND.match(bind) if isinstance(bind, str) else None
    if match is None or match[1] not in (GRAPH_URL, call.state.base):
        raise bad_request("user@odata.bind is not the address of a user.")
    reference = match[2].replace("''", "'") if match[2] else match[3]
    directory = call.state.directory
    own = tenant is call.principal.tenant
    user = directory.user(tenant, reference) if own else directory.user_by_address(tenant, reference)
    if user is None:
        raise not_found("A user to be made a member was not found.")
    return user


def _since(call: Call, payload: Json) -> Any:
    text = payload.get("visibleHistoryStartDateTime")
    if text is None:
        return call.state.clock.now()
    moment = Comparison("visibleHistoryStartDateTime", "eq", str(text)).moment()
    return max(moment, ALL_HISTORY)
