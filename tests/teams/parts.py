"""A host of trivial facets around the real Graph client, for the Teams plugin against a sandbox tenant."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
from pydantic import BaseModel

from entrabot_host import (
    Attribution,
    ConcurrencyError,
    Conversation,
    Delivery,
    Entry,
    Interaction,
    Message,
    Outcome,
    Position,
    Principal,
    Received,
    Sponsor,
    StorageError,
)

DISCOVERY = "/v2.0/.well-known/openid-configuration"


class MemoryStore:
    """A store with real etags. Faults: ``broken`` refuses everything, ``rival`` writes before our next write."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.etags: dict[str, int] = {}
        self.owned: list[str] = []
        self.broken = False
        self.rival: bytes | None = None
        self.reads = self.writes = 0

    def own(self, *keys: str) -> None:
        self.owned += keys

    async def read(self, key: str) -> Entry | None:
        self.reads += 1
        if self.broken:
            raise StorageError("The disk is gone.")
        return Entry(self.values[key], str(self.etags[key]), 0.0) if key in self.values else None

    async def write(self, key: str, data: bytes, *, if_match: str = "", if_absent: bool = False) -> str:
        if self.broken:
            raise StorageError("The disk is gone.")
        if self.rival is not None:
            rival, self.rival = self.rival, None
            self._put(key, rival)
        if (if_absent and key in self.values) or (if_match and if_match != str(self.etags.get(key))):
            raise ConcurrencyError("Another version is there.")
        self.writes += 1
        return self._put(key, data)

    def _put(self, key: str, data: bytes) -> str:
        self.values[key] = data
        self.etags[key] = self.etags.get(key, 0) + 1
        return str(self.etags[key])


class MemoryInbox:
    """Takes everything, or nothing while ``takes`` is false; a chat starts where it is asked to.

    A wait returns what was left and what is delivered while it runs; ``sponsors`` are the object ids of sponsors.
    """

    def __init__(self) -> None:
        self.takes = True
        self.shows_pushes = True
        self.sponsors: frozenset[str] = frozenset()
        self.left: dict[tuple[str, str], Message] = {}
        self.waits: list[tuple[str, datetime, float]] = []
        self._waiting = 0
        self._news = asyncio.Event()
        self.broken_for = ""
        self.done: dict[str, dict[str, Message]] = {}
        self.floors: dict[str, datetime] = {}
        self.spoken: list[tuple[str, str]] = []
        self.positions = 0
        self.offers = 0
        self.covered: list[datetime] = []

    async def position(self, conversation: Conversation, start: datetime | None = None) -> Position:
        self.positions += 1
        if conversation.id == self.broken_for:
            raise StorageError("The record cannot be read.")
        beginning = (start or datetime.now(UTC) - timedelta(hours=24)) - timedelta(milliseconds=1)
        floor = self.floors.setdefault(conversation.id, beginning)
        own = {message_id for chat_id, message_id in self.spoken if chat_id == conversation.id}
        return Position(floor, frozenset({*self.done.get(conversation.id, {}), *own}))

    async def deliver(self, conversation: Conversation, messages: Sequence[Message], covered_to: datetime) -> Delivery:
        self.offers += 1
        self.covered.append(covered_to)
        if self._waiting or not self.takes:
            done = self.done.get(conversation.id, {})
            left = [message for message in messages if message.id not in done]
            self.left.update({(conversation.id, message.id): message for message in left})
            self._news.set()
            return Delivery((), tuple(message.id for message in left))
        done = self.done.setdefault(conversation.id, {})
        fresh = [message for message in messages if message.id not in done]
        done.update({message.id: message for message in fresh})
        return Delivery(tuple(message.id for message in fresh))

    async def wait(self, conversation: Conversation | None, after: datetime, timeout: float) -> Sequence[Received]:
        self.waits.append((conversation.id if conversation else "", after, timeout))
        self._waiting += 1
        try:
            async with asyncio.timeout(timeout):
                while not (found := self._wanted(conversation)):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return []
        finally:
            self._waiting -= 1
        for one in found:
            self.done.setdefault(one.conversation.id, {})[one.message.id] = one.message
            del self.left[one.conversation.id, one.message.id]
        return found

    def _wanted(self, conversation: Conversation | None) -> list[Received]:
        return [
            Received(Conversation.chat(chat_id), message, message.sender_id in self.sponsors)
            for (chat_id, _), message in self.left.items()
            if conversation is None or conversation.id == chat_id
        ]

    def pushes(self) -> bool:
        return self.shows_pushes

    async def spoke(self, conversation: Conversation, message_id: str) -> None:
        self.spoken.append((conversation.id, message_id))

    def texts(self, chat_id: str = "") -> list[str]:
        chats = [chat_id] if chat_id else list(self.done)
        return [message.text for chat in chats for message in self.done.get(chat, {}).values()]


class MemoryRecords:
    def __init__(self) -> None:
        self.interactions: list[Interaction] = []
        self.audited: list[tuple[str, str, Outcome, Mapping[str, Any]]] = []

    async def audit(
        self, action: str, resource: str, outcome: Outcome, metadata: Mapping[str, Any] | None = None
    ) -> str:
        self.audited.append((action, resource, outcome, metadata or {}))
        return "event"

    async def interaction(self, entry: Interaction) -> None:
        self.interactions.append(entry)


class KnownIdentity:
    """Who the agent is by its settings; tenants are discovered on the wire."""

    def __init__(self, me: Principal, login_url: str, ca_bundle: str, sponsors: Sequence[Sponsor]) -> None:
        self.principal = me
        self._login_url = login_url
        self._ca_bundle = ca_bundle
        self._sponsors = sponsors
        self.learnt: list[tuple[str, str, str]] = []

    async def me(self) -> Principal:
        return self.principal

    async def sponsors(self) -> Sequence[Sponsor]:
        return self._sponsors

    async def learn_home(self, address: str, user_id: str, tenant_id: str) -> None:
        self.learnt.append((address, user_id, tenant_id))

    async def tenant_of(self, domain: str) -> str:
        import ssl

        context = ssl.create_default_context(cafile=self._ca_bundle)
        async with httpx.AsyncClient(verify=context, trust_env=False) as client:
            answer = await client.get(f"{self._login_url}/{domain}{DISCOVERY}")
        return answer.json()["issuer"].split("/")[-2] if answer.status_code == 200 else ""


class PlainSettings:
    def __init__(self, **values: Any) -> None:
        self._values = values

    def load(self, model: type[BaseModel]) -> BaseModel:
        return model.model_validate(self._values)


@dataclass
class PlainHost:
    """Implements as much of `entrabot_host.Host` as the Teams plugin uses."""

    graph: Any
    identity: Any
    store: MemoryStore = field(default_factory=MemoryStore)
    records: MemoryRecords = field(default_factory=MemoryRecords)
    inbox: MemoryInbox = field(default_factory=MemoryInbox)
    settings: PlainSettings = field(default_factory=PlainSettings)
    plugin: str = "teams"
    log: logging.Logger = field(default_factory=lambda: logging.getLogger("entrabot.teams"))
    made: dict[Any, Any] = field(default_factory=dict)

    def shared(self, make: Any) -> Any:
        if make not in self.made:
            self.made[make] = make(self)
        return self.made[make]


class Clock:
    """A monotonic clock that only tests move on: nothing depends on how fast they run."""

    def __init__(self) -> None:
        self.offset = 0.0

    def __call__(self) -> float:
        return 1_000.0 + self.offset


def principal(environment: dict[str, str], attribution: Attribution = Attribution.AGENT) -> Principal:
    return Principal(
        user_id=environment["ENTRABOT_AGENT_USER_ID"],
        user_name=environment["ENTRABOT_AGENT_UPN"],
        tenant_id=environment["ENTRABOT_TENANT_ID"],
        agent_id=environment["ENTRABOT_AGENT_ID"],
        attribution=attribution,
        provider="test",
    )


def sponsor_of(person: dict[str, Any]) -> Sponsor:
    addresses = {person["mail"].lower(), person["upn"].lower()}
    return Sponsor(person["guest_id"] or person["id"], person["name"], frozenset(addresses))
