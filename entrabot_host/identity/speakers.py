"""Who is in a chat, and who spoke in it since some moment, as Graph tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from entrabot_host.errors import GraphError, GraphForbidden, GraphNotFound
from entrabot_host.host import Graph, Sponsor
from entrabot_host.identity.addresses import address_forms
from entrabot_host.identity.sponsor_sources import USER_FIELDS

_MAX_PAGES = 20
_SYSTEM = ("systemEventMessage", "unknownFutureValue")


@dataclass(frozen=True)
class Speaker:
    """Who wrote a message. An empty id: a bot, a connector, or nobody that Graph names."""

    user_id: str
    tenant_id: str


class TooMuchToRead(Exception):
    """The chat moved on so far that not everybody who spoke could be looked at."""


async def is_member(graph: Graph, chat_id: str, sponsor: Sponsor, own_tenant: str) -> bool:
    """Whether the sponsor is in the chat, by object id: here, or at home. Addresses and names do not count."""
    here = (sponsor.object_id, {"", own_tenant, sponsor.home_tenant})
    home = (sponsor.home_id, {"", sponsor.home_tenant})
    pages = graph.pages(f"/chats/{quote(chat_id, safe='')}/members", max_pages=_MAX_PAGES)
    members = [
        (_lower(member.get("userId")), _lower(member.get("tenantId"))) async for page in pages for member in page
    ]
    return any(
        known_id and user_id == known_id and tenant_id in tenants
        for user_id, tenant_id in members
        for known_id, tenants in (here, home)
    )


async def speakers_since(graph: Graph, chat_id: str, since: datetime) -> set[Speaker]:
    """Return those who wrote or edited a message at or after ``since``; a deleted message counts too.

    Raises `GraphError`, or `TooMuchToRead` when the messages do not end within the pages that are read.
    """
    edge = since - timedelta(seconds=1)
    params = {
        "$top": "50",
        "$orderby": "lastModifiedDateTime desc",
        "$filter": f"lastModifiedDateTime gt {edge.astimezone(UTC):%Y-%m-%dT%H:%M:%S}Z",
    }
    found: set[Speaker] = set()
    count = 0
    async for page in graph.pages(f"/chats/{quote(chat_id, safe='')}/messages", params=params, max_pages=_MAX_PAGES):
        count += 1
        found |= {_speaker(message) for message in page if _spoke_since(message, since)}
        if page and all(_time(message.get("lastModifiedDateTime")) < edge for message in page):
            return found  # the filter was not applied, and what follows is older still
    if count >= _MAX_PAGES:
        raise TooMuchToRead
    return found


def _spoke_since(message: Mapping[str, Any], since: datetime) -> bool:
    if message.get("from") is None and message.get("messageType") in _SYSTEM:
        return False  # somebody joined, the chat was renamed and the like
    created = _time(message.get("createdDateTime"))
    edited = message.get("lastEditedDateTime")
    return created >= since or (edited is not None and _time(edited) >= since)


def _speaker(message: Mapping[str, Any]) -> Speaker:
    sender = message.get("from")
    user = sender.get("user") if isinstance(sender, Mapping) else None
    user = user if isinstance(user, Mapping) else {}
    return Speaker(_lower(user.get("id")), _lower(user.get("tenantId")))


async def addresses_of(graph: Graph, user_id: str) -> frozenset[str]:
    """Return the addresses under which the agent's own tenant knows a user.

    None when it does not know him or does not show all of them. What a chat's member list says is not asked:
    somebody else's tenant sets it.
    """
    try:
        answer = await graph.request("GET", f"/users/{quote(user_id, safe='')}", params={"$select": USER_FIELDS})
    except (GraphNotFound, GraphForbidden):
        return frozenset()
    if not isinstance(answer.body, Mapping) or _lower(answer.body.get("id")) != user_id:
        raise GraphError("Graph answered with another user than the one asked for.")
    shows_all = bool(answer.body.get("proxyAddresses"))  # empty also where the permission is for basic fields only
    return address_forms(answer.body) if shows_all else frozenset()


def _time(value: object) -> datetime:
    """Parse a time of Graph. Unreadable ones count as now or later, never as long past."""
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        return datetime.max.replace(tzinfo=UTC)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _lower(value: object) -> str:
    return value.lower() if isinstance(value, str) else ""
