"""Reading one chat from where it is done: what people wrote, in a form the inbox takes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import anyio.to_thread

from entrabot_host import GraphError, Message, Position, Principal
from entrabot_teams.api import ChatApi, Page
from entrabot_teams.ids import interaction_channel
from entrabot_teams.people import AddressBook
from entrabot_teams.wire import ChatMessage, Kind, messages_of

MAX_PAGES = 40
NO_TEXT = "(a message without text)"
_SETTLED = timedelta(seconds=1)


@dataclass(frozen=True)
class Reading:
    """All messages of a chat that were written or changed after some moment, and when Graph said so."""

    messages: tuple[ChatMessage, ...]
    served: datetime | None

    @property
    def ids(self) -> frozenset[str]:
        """The ids of everything read, people's messages or not."""
        return frozenset(message.id for message in self.messages)

    def covered_to(self, position: Position) -> datetime:
        """Return the moment up to which nothing visible is missing, on Graph's clock."""
        if self.served:
            return max(position.floor, self.served - _SETTLED)
        return max([position.floor, *(message.created for message in self.messages)])


class ChatReader:
    """Reads chats back to a floor, by change where Graph takes that order, else by creation."""

    def __init__(self, api: ChatApi) -> None:
        self._api = api

    async def since(self, chat_id: str, floor: datetime) -> Reading:
        """Return what was written or changed after ``floor``. Raises `GraphError`."""
        try:
            page = await self._api.changed_messages(chat_id, floor)
        except GraphError as error:
            if error.status != 400:
                raise
            page = await self._api.newest_messages(chat_id, 50)
            return await self._back_to(floor, page, by_change=False)
        return await self._back_to(floor, page, by_change=True)

    async def _back_to(self, floor: datetime, page: Page, *, by_change: bool) -> Reading:
        served = page.served
        found: dict[str, ChatMessage] = {}
        for _ in range(MAX_PAGES):
            rows = messages_of(page.rows)
            found.update((message.id, message) for message in rows)
            times = [message.modified if by_change else message.created for message in rows]
            if not page.next or (times and min(times) <= floor):
                break
            page = await self._api.next_page(page.next)
        return Reading(tuple(found.values()), served)


async def news(reading: Reading, position: Position, me: Principal, chat_id: str, people: AddressBook) -> list[Message]:
    """Return what people wrote that is not done yet, oldest first.

    Left out are the agent's own messages, deleted ones, system events, bots, and all that was written before the
    agent was let into the chat.
    """
    found = await anyio.to_thread.run_sync(_news, reading, position, me, chat_id)
    return [
        replace(
            message,
            sender_name=message.sender_name or people.name_of(message.sender_id),
            sender_address=people.address_of(message.sender_id),
        )
        for message in found
    ]


def _news(reading: Reading, position: Position, me: Principal, chat_id: str) -> list[Message]:
    start = max([position.floor, *_admissions(reading.messages, me)])
    fresh = [
        message
        for message in reading.messages
        if message.kind is Kind.MESSAGE
        and message.created > start
        and message.id not in position.ids
        and not message.is_own(me)
    ]
    return [
        _heard(message, me, chat_id) for message in sorted(fresh, key=lambda message: (message.created, message.id))
    ]


def _admissions(messages: Iterable[ChatMessage], me: Principal) -> list[datetime]:
    """When the agent was added to the chat, if the events that say so were read."""
    return [message.created for message in messages if me.user_id in message.added]


def _heard(message: ChatMessage, me: Principal, chat_id: str) -> Message:
    return Message(
        id=message.id,
        created=message.created,
        text=message.text() or NO_TEXT,
        sender_id=message.sender_id,
        sender_tenant=message.sender_tenant,
        sender_name=message.sender_name,
        meta=_meta(message, me, chat_id),
    )


def _meta(message: ChatMessage, me: Principal, chat_id: str) -> dict[str, Any]:
    meta = {"chat_type": {"teams_dm": "oneOnOne", "teams_group": "group"}.get(interaction_channel(chat_id), "unknown")}
    if me.user_id in message.mentioned:
        meta["mentions_me"] = "yes"
    if message.quoted:
        meta["reply_to_ids"] = ",".join(message.quoted)
    return meta
