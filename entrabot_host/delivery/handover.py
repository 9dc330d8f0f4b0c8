"""One conversation's messages on their way to the host: claim, push, record."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import anyio

from entrabot_host.delivery import lease
from entrabot_host.delivery.book import Book, Known, boot_clock
from entrabot_host.delivery.channel import ChannelClosed, ChannelSink, channel_params
from entrabot_host.delivery.lease import Claim, Memory
from entrabot_host.delivery.record import Record
from entrabot_host.delivery.sessions import Sessions
from entrabot_host.delivery.start import Beginnings
from entrabot_host.errors import ConcurrencyError, EntrabotError, GraphForbidden, GraphNotFound, StorageError
from entrabot_host.host import Conversation, Message, Sponsor
from entrabot_host.storage.backend import MemoryBackend

log = logging.getLogger(__name__)

ATTEMPTS = 8
RECORD_SECONDS = 5.0
LIVE = timedelta(seconds=120)
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)

Sender = tuple[str, str]
"""Object id and tenant."""
Verdict = Callable[[str, str], Awaitable[Sponsor | None]]
"""From a sender's object id and tenant to the sponsor whom they prove."""
OnDelivered = Callable[[Conversation, Message, Sponsor | None, bool], Awaitable[None]]
"""Called after a message was handed over; the last argument says whether it is live, not a backlog or a repeat."""


@dataclass
class Talk:
    """What this session keeps of one conversation. One delivery at a time; sending does not wait for it.

    floor: how far it is done as far as is known without writing. spoken: sent ids that are not written down yet.
    """

    conversation: Conversation
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    memory: Memory = field(default_factory=Memory)
    floor: datetime = _LONG_AGO
    spoken: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class HandOver:
    """The steps of a delivery, with what they need."""

    book: Book
    beginnings: Beginnings
    sessions: Sessions
    now: Callable[[], datetime]
    sink: ChannelSink
    sponsor_of: Verdict
    on_delivered: OnDelivered
    envelope: bool

    async def batch(self, talk: Talk, messages: Sequence[Message], covered_to: datetime, handed: list[Message]) -> bool:
        """Hand over up to `lease.BATCH` messages and add them to ``handed``; return whether more may follow."""
        fresh = await self.left(talk, messages)
        if not fresh or not self.sink.ready:
            await self._record_pushed(talk)
            return False
        verdicts = await self._verdicts(fresh[: lease.BATCH])
        began = boot_clock()
        claim = await self._claim(talk, messages)
        if claim is None:
            return False
        pushed: list[Message] = []
        try:
            await self._push(talk, claim, verdicts, began, pushed)
        finally:
            handed += pushed
            with anyio.move_on_after(RECORD_SECONDS, shield=True):
                await self._record(talk, claim, messages, covered_to)
        for message in pushed:
            live = message.id not in claim.repeated and self.now() - message.created <= LIVE
            await self._tell(talk.conversation, message, verdicts.get(_sender(message)), live)
        return len(pushed) == len(claim.messages)

    async def left(self, talk: Talk, messages: Sequence[Message]) -> list[Message]:
        """Return what neither the record nor this session's memory counts as handed over, oldest first."""
        record = (await self.open(talk)).record
        talk.memory.forget(record)
        return _not_pushed(record, talk, messages)

    async def open(self, talk: Talk, start: datetime | None = None) -> Known:
        """Return the record, made if need be; read again while another session may be changing it."""

        async def first(backend: MemoryBackend) -> Record:
            return await self.beginnings.record(backend, talk.conversation, start)

        known = await self.book.open(talk.conversation, first)
        if known.record.owner in ("", self.sessions.id):
            return known
        return await self.book.open(talk.conversation, first, fresh=True)

    async def note_sent(self, talk: Talk) -> None:
        """Write down what was sent; while the conversation has no record it is kept for when it gets one."""
        await self.sessions.start()
        for _ in range(ATTEMPTS):
            known = await self.book.find(talk.conversation)
            spoken = tuple(talk.spoken)
            if known is None or not spoken:
                return
            if await self._swapped(talk, known, known.record.with_sent(self.sessions.id, spoken)):
                talk.spoken = [item for item in talk.spoken if item not in spoken]

    async def _claim(self, talk: Talk, messages: Sequence[Message]) -> Claim | None:
        """Write a claim; None when another session holds the conversation or has dealt with it."""
        await self.sessions.start()
        for _ in range(ATTEMPTS):
            known = await self.open(talk)
            if await self._held_by_other(known):
                return None
            new = lease.new_messages(known.record, messages)
            claim = lease.claim(known.record, self.sessions.id, new, talk.memory)
            if not claim.messages:
                return None
            talk.memory.doubtful |= lease.left_behind(known.record, self.sessions.id, talk.memory)
            if await self._swapped(talk, known, claim.record):
                return claim
        return None

    async def _push(
        self,
        talk: Talk,
        claim: Claim,
        verdicts: Mapping[Sender, Sponsor | None],
        began: float,
        pushed: list[Message],
    ) -> None:
        """Push one after another while the lease lasts and the host reads; add to ``pushed`` what was written."""
        for message in claim.messages:
            seconds = lease.PUSH_SECONDS - (boot_clock() - began)
            if seconds <= 0 or not self.sink.ready:
                return
            repeated = message.id in claim.repeated
            sponsor = verdicts.get(_sender(message)) is not None
            params = channel_params(
                talk.conversation, message, sponsor=sponsor, redelivered=repeated, envelope=self.envelope
            )
            talk.memory.doubtful.add(message.id)  # until its outcome is known: this may be cancelled
            try:
                async with asyncio.timeout(seconds):
                    await self.sink.push(params)
            except TimeoutError:  # it may yet be written, so the next time counts as a repeat
                return
            except ChannelClosed:
                if not repeated:
                    talk.memory.doubtful.discard(message.id)
                return
            talk.memory.doubtful.discard(message.id)
            talk.memory.pushed[message.id] = message.created
            pushed.append(message)

    async def _record(self, talk: Talk, claim: Claim, messages: Sequence[Message], covered_to: datetime) -> None:
        """End the lease. What cannot be recorded is remembered, and recorded later without another push."""
        try:
            for _ in range(ATTEMPTS):
                known = await self.open(talk)
                if not lease.still_mine(known.record, claim.record):
                    return
                still_open = _times(_not_pushed(known.record, talk, messages))
                floor = lease.next_floor(max(known.record.floor, talk.floor), covered_to, still_open)
                finished = lease.finish(known.record, self.sessions.id, talk.memory, floor)
                if await self._swapped(talk, known, finished):
                    talk.memory.forget(finished)
                    return
        except StorageError as error:
            log.warning("Messages were handed over but not recorded: %s", error.message)

    async def _record_pushed(self, talk: Talk) -> None:
        """Record what was pushed under a lease that was lost before it could be recorded."""
        for _ in range(ATTEMPTS):
            if not talk.memory.pushed:
                return
            known = await self.open(talk)
            if await self._held_by_other(known):
                return
            record = lease.with_pushed(known.record, self.sessions.id, talk.memory.pushed)
            if await self._swapped(talk, known, record):
                talk.memory.forget(record)

    async def _held_by_other(self, known: Known) -> bool:
        owner = known.record.owner
        if owner in ("", self.sessions.id):
            return False
        return lease.is_held(known.record, self.sessions.id, known.age, await self.sessions.alive(owner))

    async def _swapped(self, talk: Talk, known: Known, record: Record) -> bool:
        try:
            await self.book.swap(talk.conversation, known, record)
        except ConcurrencyError:
            return False
        return True

    async def _verdicts(self, messages: Sequence[Message]) -> dict[Sender, Sponsor | None]:
        senders = dict.fromkeys(_sender(message) for message in messages)
        return {sender: await self._verdict(sender) for sender in senders}

    async def _verdict(self, sender: Sender) -> Sponsor | None:
        try:
            return await self.sponsor_of(*sender)
        except (GraphForbidden, GraphNotFound) as error:
            log.warning("Nobody can be told to be a sponsor: %s", error.message)
            return None

    async def _tell(self, conversation: Conversation, message: Message, sponsor: Sponsor | None, live: bool) -> None:
        try:
            await self.on_delivered(conversation, message, sponsor, live)
        except EntrabotError as error:
            log.warning("A message was handed over, but what follows it failed: %s", error.message)


def _not_pushed(record: Record, talk: Talk, messages: Sequence[Message]) -> list[Message]:
    return [message for message in lease.new_messages(record, messages) if message.id not in talk.memory.pushed]


def _times(messages: Sequence[Message]) -> list[datetime]:
    return [message.created for message in messages]


def _sender(message: Message) -> Sender:
    return message.sender_id, message.sender_tenant
