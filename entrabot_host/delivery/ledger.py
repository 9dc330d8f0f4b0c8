"""The record's writes: look, claim, settle. Every one is compare-and-swap, and begins anew after a conflict."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from entrabot_host.delivery import lease
from entrabot_host.delivery.book import Book, Known
from entrabot_host.delivery.claims import Kind
from entrabot_host.delivery.lease import Claim
from entrabot_host.delivery.record import Record, Times
from entrabot_host.delivery.sessions import Sessions
from entrabot_host.delivery.start import Beginnings
from entrabot_host.delivery.talk import Talk
from entrabot_host.errors import ConcurrencyError
from entrabot_host.host import ConversationKind, Message
from entrabot_host.storage.backend import MemoryBackend

log = logging.getLogger(__name__)

ATTEMPTS = 8
UNCONFIRMED_REACH = timedelta(hours=24)
"""For so long it is kept in mind that a host may not have shown something."""


@dataclass(frozen=True)
class View:
    """A record, seen from this session, with the messages at hand.

    new: those to be handed over, oldest first. elsewhere: those that another live session was handed and may not have
    shown. rival: the kind of the other live session that is preferred. forsaken: handed to a session that died.
    """

    known: Known
    new: tuple[Message, ...]
    elsewhere: tuple[Message, ...]
    rival: Kind | None
    forsaken: frozenset[str]


Choose = Callable[[View], Sequence[Message]]
"""Picks what to claim."""


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """Reads and writes records for this session."""

    book: Book
    beginnings: Beginnings
    sessions: Sessions

    async def open(self, talk: Talk, start: datetime | None = None, *, fresh: bool = False) -> Known:
        """Return the record, made if need be; read again while another session may be changing it."""

        async def first(backend: MemoryBackend) -> Record:
            return await self.beginnings.record(backend, talk.conversation, start)

        known = await self.book.open(talk.conversation, first, fresh=fresh)
        if fresh or known.record.owner in ("", self.sessions.id):
            return known
        return await self.book.open(talk.conversation, first, fresh=True)

    async def look(self, talk: Talk, messages: Sequence[Message], *, fresh: bool = False) -> View:
        """Return what this session sees. Raises `StorageError`."""
        known = await self.open(talk, fresh=fresh)
        record = known.record
        talk.memory.forget(record, self.sessions.id)
        dead = await self._dead(known)
        forsaken = frozenset(record.unconfirmed_by(dead))
        if not fresh and any(message.id in forsaken for message in messages):
            return await self.look(talk, messages, fresh=True)  # they may have been confirmed in the meantime
        living = record.unconfirmed_by(other for other in record.unconfirmed if other not in {*dead, self.sessions.id})
        new = [
            message
            for message in lease.new_messages(record, messages, forsaken)
            if message.id not in talk.memory.pushed and message.id not in talk.carried
        ]
        return View(
            known=known,
            new=tuple(new),
            elsewhere=tuple(message for message in messages if message.id in living),
            rival=await self._rival(known) if new else None,
            forsaken=forsaken,
        )

    async def forsaken(self, talk: Talk) -> Times:
        """Return what sessions that died were handed and may not have shown. Raises `StorageError`."""
        known = await self.open(talk)
        return known.record.unconfirmed_by(await self._dead(known))

    async def claim(self, talk: Talk, messages: Sequence[Message], choose: Choose) -> Claim | None:
        """Write a claim; None when another session holds the conversation, or nothing is chosen."""
        await self.sessions.start()
        me = self.sessions.id
        for _ in range(ATTEMPTS):
            view = await self.look(talk, messages)
            if await self._held_by_other(view.known):
                return None
            batch = choose(view)
            if not batch:
                return None
            record = view.known.record
            claim = lease.claim(record, me, batch, talk.memory, carried=talk.carried, forsaken=view.forsaken)
            talk.memory.doubtful |= lease.left_behind(record, me, talk.memory)
            if await self._swapped(talk, view.known, claim.record):
                return claim
        return None

    async def settle(self, talk: Talk, messages: Sequence[Message] = (), covered_to: datetime | None = None) -> None:
        """Record what was handed over and end the lease, if there is anything to write.

        With ``covered_to`` the floor moves, too. While another session holds the conversation nothing is written; what
        was handed over is remembered, and recorded later without being handed over again. Raises `StorageError`.
        """
        for _ in range(ATTEMPTS):
            known = await self.open(talk)
            if await self._held_by_other(known):
                return
            record = lease.settled(known.record, self.sessions.id, talk.memory, talk.carried)
            if covered_to is not None and record != known.record:
                record = self._with_floor(talk, record, messages, covered_to)
            if record == known.record:
                return
            if await self._swapped(talk, known, record):
                talk.memory.forget(record, self.sessions.id)
                return

    async def note_sent(self, talk: Talk) -> None:
        """Write down what was sent.

        A chat gets its record now if it has none: the answer is this session's, also where another reads it first.
        What was sent by mail is kept until its mailbox has a record.
        """
        await self.sessions.start()
        for _ in range(ATTEMPTS):
            is_chat = talk.conversation.kind is ConversationKind.CHAT
            known = await (self.open(talk) if is_chat else self.book.find(talk.conversation))
            spoken = tuple(talk.spoken)
            if known is None or not spoken:
                return
            if await self._swapped(talk, known, known.record.with_sent(self.sessions.id, spoken)):
                talk.spoken = [item for item in talk.spoken if item not in spoken]

    def _with_floor(self, talk: Talk, record: Record, messages: Sequence[Message], covered_to: datetime) -> Record:
        record = record.without_old_unconfirmed(covered_to - UNCONFIRMED_REACH)
        still_open = [message.created for message in lease.new_messages(record, messages)]
        in_doubt = record.unconfirmed_by(record.unconfirmed).values()
        floor = lease.next_floor(max(record.floor, talk.floor), covered_to, [*still_open, *in_doubt])
        return record.with_floor(floor)

    async def _dead(self, known: Known) -> set[str]:
        others = [other for other in known.record.unconfirmed if other != self.sessions.id]
        return {other for other in others if await self.sessions.look(other, known.age) is None}

    async def _rival(self, known: Known) -> Kind | None:
        preferred = known.record.preferred
        return None if preferred in ("", self.sessions.id) else await self.sessions.look(preferred, known.age)

    async def _held_by_other(self, known: Known) -> bool:
        owner = known.record.owner
        if owner in ("", self.sessions.id):
            return False
        alive = await self.sessions.look(owner, known.age) is not None
        return lease.is_held(known.record, self.sessions.id, known.age, alive)

    async def _swapped(self, talk: Talk, known: Known, record: Record) -> bool:
        try:
            await self.book.swap(talk.conversation, known, record)
        except ConcurrencyError:
            return False
        return True
