"""The requests to Graph that Teams needs, in one place: paths, queries and page shapes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode

from entrabot_host import BatchRequest, GraphError, GraphForbidden, GraphNotFound, GraphResponse, Host
from entrabot_teams.ids import CHAT_ID_REMEDY, chat_path
from entrabot_teams.people import AddressBook
from entrabot_teams.wire import http_moment, iso

PAGE = 50
"""The largest page that Graph serves for chats and messages."""

_NEW_KINDS = {"Prefer": "include-unknown-enum-members"}
_MEMBER = "#microsoft.graph.aadUserConversationMember"


@dataclass(frozen=True)
class Page:
    """One page of a collection. served: when, on Graph's clock in whole seconds; None when the answer has no date."""

    rows: list[Any]
    next: str
    served: datetime | None


class ChatApi:
    """Chats, messages and members over the host's Graph facet. Methods raise `GraphError` and its kinds.

    people: the addresses of everybody who was listed as a member of some chat.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._ahead = timedelta()
        self.people = AddressBook()

    def now(self) -> datetime:
        """Return the time by Graph's clock as its last answer told it, up to a second slow."""
        return datetime.now(UTC) + self._ahead

    async def chats(self, *, ordered: bool, top: int = PAGE) -> Page:
        """Return the first page of our chats with their previews; ordered: those with the newest message first."""
        params = {"$expand": "lastMessagePreview", "$top": str(top)}
        if ordered:
            params["$orderby"] = "lastMessagePreview/createdDateTime desc"
        return await self._page("/me/chats", params)

    async def newest_messages(self, chat_id: str, count: int) -> Page:
        """Return a chat's messages, the newest first by creation."""
        return await self._page(
            chat_path(chat_id, "messages"), {"$top": str(count), "$orderby": "createdDateTime desc"}
        )

    async def changed_messages(self, chat_id: str, since: datetime) -> Page:
        """Return a chat's messages that were written or changed after ``since``, the last changed first."""
        params = {
            "$top": str(PAGE),
            "$orderby": "lastModifiedDateTime desc",
            "$filter": f"lastModifiedDateTime gt {iso(since)}",
        }
        return await self._page(chat_path(chat_id, "messages"), params)

    async def next_page(self, link: str) -> Page:
        """Follow a page's ``next``."""
        return await self._page(link, None)

    async def _page(self, path: str, params: dict[str, str] | None) -> Page:
        answer = await self._host.graph.request("GET", path, params=params, headers=_NEW_KINDS)
        body = answer.body if isinstance(answer.body, dict) else {}
        rows, link = body.get("value"), body.get("@odata.nextLink")
        served = http_moment(answer.headers.get("date", ""))
        if served:
            self._ahead = served - datetime.now(UTC)
        return Page(rows if isinstance(rows, list) else [], link if isinstance(link, str) else "", served)

    async def last_messages(self, chat_ids: Sequence[str]) -> list[GraphResponse | GraphError]:
        """Ask for the newest message of each chat in batches; one answer per chat, failures are values."""
        query = urlencode({"$top": "1", "$orderby": "createdDateTime desc"}, quote_via=quote, safe="$")
        parts = [BatchRequest(f"{chat_path(chat_id, 'messages')}?{query}") for chat_id in chat_ids]
        return await self._host.graph.batch(parts)

    async def members(self, chat_id: str) -> list[dict[str, Any]]:
        """Return all members of a chat."""
        pages = self._host.graph.pages(chat_path(chat_id, "members"))
        rows = [row async for page in pages for row in page if isinstance(row, dict)]
        self.people.learn(rows)
        return rows

    async def post_message(self, chat_id: str, message: dict[str, Any]) -> dict[str, Any]:
        """Send a message and return it as Graph made it."""
        answer = await self._host.graph.request("POST", chat_path(chat_id, "messages"), json=message)
        return answer.body if isinstance(answer.body, dict) else {}

    async def message(self, chat_id: str, message_id: str) -> dict[str, Any]:
        """Return one message."""
        path = chat_path(chat_id, "messages", message_id)
        answer = await self._host.graph.request("GET", path, headers=_NEW_KINDS)
        return answer.body if isinstance(answer.body, dict) else {}

    async def edit_message(
        self, chat_id: str, message_id: str, message: dict[str, Any], timeout: float = 30.0
    ) -> datetime:
        """Put other content into a message; return when, on Graph's clock, at most a second late."""
        path = chat_path(chat_id, "messages", message_id)
        answer = await self._host.graph.request("PATCH", path, json=message, timeout=timeout)
        served = http_moment(answer.headers.get("date", ""))
        return served + timedelta(seconds=1) if served else self.now()

    async def delete_message(self, chat_id: str, message_id: str) -> None:
        """Delete a message. Graph knows this below a user only; below ``/chats`` it answers 405."""
        await self._host.graph.request("POST", f"/me{chat_path(chat_id, 'messages', message_id, 'softDelete')}")

    async def add_member(self, chat_id: str, user: str, tenant_id: str = "") -> None:
        """Let somebody into a chat, who sees only what follows. Parameters as for `create_one_on_one`."""
        member = self._member(user) | ({"tenantId": tenant_id} if tenant_id else {})
        await self._host.graph.request("POST", chat_path(chat_id, "members"), json=member)

    async def create_one_on_one(self, own_id: str, user: str, tenant_id: str = "") -> dict[str, Any]:
        """Create the chat of two people, or return the one they have.

        user: sign-in name or object id. tenant_id: the user's home tenant if it is another one than ours.
        """
        other = self._member(user) | ({"tenantId": tenant_id} if tenant_id else {})
        chat = {"chatType": "oneOnOne", "members": [self._member(own_id), other]}
        answer = await self._host.graph.request("POST", "/chats", json=chat)
        return answer.body if isinstance(answer.body, dict) else {}

    def _member(self, user: str) -> dict[str, Any]:
        """``user`` holds no character but those of sign-in names, so doubling apostrophes is all the escaping."""
        escaped = user.replace("'", "''")
        bind = f"{self._host.graph.root}/users('{escaped}')"
        return {"@odata.type": _MEMBER, "roles": ["owner"], "user@odata.bind": bind}


@contextmanager
def explained() -> Iterator[None]:
    """Give Graph's refusals of a chat a remedy that fits."""
    try:
        yield
    except GraphNotFound as error:
        error.remedy = f"There is no such chat, or it cannot be seen by this identity. {CHAT_ID_REMEDY}"
        raise
    except GraphForbidden as error:
        error.remedy = "The agent is not a member of this chat, or its Teams permissions are missing (see whoami)."
        raise
