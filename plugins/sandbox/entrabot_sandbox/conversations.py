"""Chats, their members and their messages: the state behind both Graph and the people at their own clients."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from entrabot_sandbox.clock import Clock, at_milliseconds
from entrabot_sandbox.directory import Tenant, User

ALL_HISTORY = datetime(1, 1, 1, tzinfo=UTC)


@dataclass
class Member:
    """Somebody's membership; what was written before ``since`` is hidden from him."""

    user: User
    roles: list[str]
    since: datetime = ALL_HISTORY
    id: str = field(default_factory=lambda: base64.b64encode(uuid4().bytes + uuid4().bytes).decode().replace("/", "-"))


@dataclass
class Draft:
    """The content of a message before it has a place in a chat. application: the bot that says it, if none of us."""

    content: str
    content_type: str = "html"
    mentions: list[dict[str, Any]] = field(default_factory=list)
    attachments: list[dict[str, Any]] = field(default_factory=list)
    hosted: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    importance: str = "normal"
    subject: str | None = None
    application: str = ""


@dataclass
class Reaction:
    """One person's reaction."""

    kind: str
    user: User
    created: datetime


@dataclass
class Message:
    """A message or, with ``event``, a system event. ``visible_at`` is on the monotonic clock."""

    id: str
    sender: User | None
    draft: Draft
    created: datetime
    modified: datetime
    etag: str
    visible_at: float
    event: dict[str, Any] | None = None
    edited: datetime | None = None
    deleted: datetime | None = None
    reactions: list[Reaction] = field(default_factory=list)


@dataclass
class Chat:
    """A conversation of one of Graph's kinds: oneOnOne, group or meeting."""

    id: str
    kind: str
    topic: str | None
    tenant: Tenant
    created: datetime
    updated: datetime
    members: list[Member] = field(default_factory=list)
    messages: dict[str, Message] = field(default_factory=dict)
    last_stamp: int = 0

    def member(self, user: User) -> Member | None:
        """That user object's membership."""
        return next((m for m in self.members if m.user is user), None)

    def visible_to(self, member: Member) -> Iterator[Message]:
        """The messages a member may see now."""
        now = time.monotonic()
        return (m for m in self.messages.values() if m.visible_at <= now and m.created >= member.since)


@dataclass
class Conversations:
    """Every chat of every tenant, and the changes people and programs make to them."""

    clock: Clock
    visibility_delay: float = 0.0
    chats: dict[str, Chat] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def of(self, user: User) -> list[Chat]:
        """The chats a user object is a member of."""
        return [chat for chat in self.chats.values() if chat.member(user)]

    def create(self, kind: str, creator: User, members: list[Member], topic: str | None = None) -> Chat:
        """A new chat; an existing one-on-one chat of the same two is returned as it is."""
        chat_id = _chat_id(kind, [member.user.id for member in members])
        if chat_id in self.chats:
            return self.chats[chat_id]
        now = self.clock.now()
        chat = Chat(chat_id, kind, topic, creator.tenant, now, now, members)
        self.chats[chat_id] = chat
        if kind != "oneOnOne":
            self._event(chat, creator, "membersAdded", _added([m.user for m in members], ALL_HISTORY))
        self._announce()
        return chat

    def post(self, chat: Chat, sender: User, draft: Draft) -> Message:
        """Add a message."""
        return self._append(chat, sender, draft, None)

    def edit(self, chat: Chat, message: Message, draft: Draft) -> None:
        """Replace a message's content."""
        message.draft = draft
        self._touch(chat, message)
        message.edited = message.modified

    def delete(self, chat: Chat, message: Message) -> None:
        """Mark a message deleted; it stays listed without its content."""
        if message.deleted is None:
            self._touch(chat, message)
            message.deleted = message.modified

    def restore(self, chat: Chat, message: Message) -> None:
        """Undo a deletion."""
        if message.deleted is not None:
            self._touch(chat, message)
            message.deleted = None

    def react(self, chat: Chat, message: Message, user: User, kind: str) -> None:
        """Add somebody's reaction; a second one of the same person replaces the first."""
        self._touch(chat, message)
        self._drop_reaction(message, user)
        message.reactions.append(Reaction(kind, user, message.modified))

    def unreact(self, chat: Chat, message: Message, user: User) -> None:
        """Take somebody's reaction back."""
        self._touch(chat, message)
        self._drop_reaction(message, user)

    def rename(self, chat: Chat, by: User, topic: str | None) -> None:
        """Change a group chat's topic."""
        chat.topic = topic
        chat.updated = self.clock.now()
        self._event(chat, by, "chatRenamed", {"chatId": chat.id, "chatDisplayName": topic})

    def add_member(self, chat: Chat, by: User, member: Member) -> None:
        """Let somebody in."""
        chat.members.append(member)
        chat.updated = self.clock.now()
        self._event(chat, by, "membersAdded", _added([member.user], member.since))

    def remove_member(self, chat: Chat, by: User, user: User) -> None:
        """Show somebody out."""
        chat.members = [member for member in chat.members if member.user is not user]
        chat.updated = self.clock.now()
        self._event(chat, by, "membersDeleted", {"members": [user]})

    async def next_change(self, seconds: float) -> bool:
        """Wait until anything changes; False when the time ran out."""
        try:
            await asyncio.wait_for(self.changed.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def _append(self, chat: Chat, sender: User | None, draft: Draft, event: dict[str, Any] | None) -> Message:
        stamp = self._stamp(chat)
        moment = at_milliseconds(stamp)
        visible_at = time.monotonic() + self.visibility_delay
        message = Message(str(stamp), sender, draft, moment, moment, str(stamp), visible_at, event)
        chat.messages[message.id] = message
        self._announce()
        return message

    def _event(self, chat: Chat, initiator: User, kind: str, detail: dict[str, Any]) -> None:
        self._append(chat, None, Draft("<systemEventMessage/>"), {"kind": kind, "initiator": initiator, **detail})

    def _stamp(self, chat: Chat) -> int:
        chat.last_stamp = max(int(self.clock.time() * 1000), chat.last_stamp + 1)
        return chat.last_stamp

    def _touch(self, chat: Chat, message: Message) -> None:
        stamp = self._stamp(chat)
        message.modified, message.etag = at_milliseconds(stamp), str(stamp)
        self._announce()

    def _drop_reaction(self, message: Message, user: User) -> None:
        message.reactions = [reaction for reaction in message.reactions if reaction.user is not user]

    def _announce(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


def _chat_id(kind: str, user_ids: Iterable[str]) -> str:
    if kind == "oneOnOne":
        return f"19:{'_'.join(sorted(user_ids))}@unq.gbl.spaces"
    if kind == "meeting":
        return f"19:meeting_{base64.urlsafe_b64encode(str(uuid4()).encode()).decode().rstrip('=')}@thread.v2"
    return f"19:{uuid4().hex}@thread.v2"


def _added(users: list[User], since: datetime) -> dict[str, Any]:
    return {"members": users, "since": since}
