"""One conversation's messages on their way to the host by pushes: claim, push, record."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from entrabot_host.delivery import lease
from entrabot_host.delivery.capability import Capability
from entrabot_host.delivery.channel import ChannelClosed, ChannelSink, channel_params, digest_params
from entrabot_host.delivery.chores import Chores, finished
from entrabot_host.delivery.claims import PUSH_RIVAL_SECONDS, Kind, push_delay
from entrabot_host.delivery.digest import Digest, backlog, is_live
from entrabot_host.delivery.lease import Claim
from entrabot_host.delivery.ledger import Ledger, View
from entrabot_host.delivery.talk import Shown, Talk
from entrabot_host.errors import EntrabotError, GraphForbidden, GraphNotFound, StorageError
from entrabot_host.host import Conversation, Message, Received, Sponsor

log = logging.getLogger(__name__)

RECORD_SECONDS = 5.0

Sender = tuple[str, str]
"""Object id and tenant."""
Verdict = Callable[[str, str], Awaitable[Sponsor | None]]
"""From a sender's object id and tenant to the sponsor whom they prove."""
OnDelivered = Callable[[Conversation, Message, Sponsor | None, bool], Awaitable[None]]
"""Called after a message was handed over; the last argument says whether it is live, not a backlog or a repeat."""


class Told(NamedTuple):
    """A message that was handed over, as the rest of the server is told."""

    conversation: Conversation
    message: Message
    sponsor: Sponsor | None
    live: bool


@dataclass(frozen=True, kw_only=True)
class Judge:
    """Says who is a sponsor, and tells the rest of the server what was handed over."""

    sponsor_of: Verdict
    on_delivered: OnDelivered

    async def verdicts(self, messages: Sequence[Message]) -> dict[Sender, Sponsor | None]:
        """Return whom each sender proves. Raises what the check raises, unless it says that nobody can be told."""
        return {key: await self._verdict(key) for key in dict.fromkeys(map(sender, messages))}

    async def tell(self, handed: Sequence[Told]) -> None:
        """Say that messages were handed over.

        Live ones are told at once, so that what a sponsor's word binds does not wait for what is written of the others.
        """
        one_by_one = asyncio.Lock()

        async def tell(one: Told) -> None:
            async with nullcontext() if one.live else one_by_one:
                await self._tell(one)

        await asyncio.gather(*map(tell, handed))

    async def _tell(self, told: Told) -> None:
        try:
            await self.on_delivered(*told)
        except EntrabotError as error:
            log.warning("A message was handed over, but what follows it failed: %s", error.message)

    async def _verdict(self, key: Sender) -> Sponsor | None:
        try:
            return await self.sponsor_of(*key)
        except (GraphForbidden, GraphNotFound) as error:
            log.warning("Nobody can be told to be a sponsor: %s", error.message)
            return None


@dataclass(frozen=True)
class _Lot:
    """What was claimed at once, and since when; ``digest`` when it is pushed as one line."""

    claim: Claim
    digest: Digest | None
    verdicts: Mapping[Sender, Sponsor | None]
    began: float


@dataclass(frozen=True, kw_only=True)
class HandOver:
    """The steps of a delivery by pushes, with what they need. boot: the boot clock."""

    ledger: Ledger
    judge: Judge
    capability: Capability
    chores: Chores
    now: Callable[[], datetime]
    boot: Callable[[], float]
    sink: ChannelSink
    envelope: bool

    async def batch(
        self, talk: Talk, messages: Sequence[Message], covered_to: datetime, handed: list[Message], *, wanted: bool
    ) -> bool:
        """Push what may be pushed now, one lot of it, and add it to ``handed``; return whether more may follow.

        wanted: a running call waits for messages of this conversation and will carry them.
        """
        view = await self._look(talk, messages)
        due = self._due(talk, view)
        kind = self.capability.kind
        if not due or not self.sink.ready or wanted or not kind.pushes:
            await self.ledger.settle(talk)
            if due and self.sink.ready and not wanted:
                await self._push_in_courtesy(talk, messages, due)
            return False
        verdicts = await self.judge.verdicts(self._lot(due)[0])
        began, digest = self.boot(), None

        def choose(seen: View) -> Sequence[Message]:
            nonlocal digest
            lot, digest = self._lot(self._due(talk, seen))
            return lot

        claim = await self.ledger.claim(talk, messages, choose)
        if claim is None:
            return False
        pushed: list[Message] = []
        lot = _Lot(claim, digest, verdicts, began)
        try:
            await self._push(talk, lot, pushed)
        finally:
            handed += pushed
            # A model may act on a push at once, and what the sponsor's word binds must not wait for a slow store.
            telling = self.chores.start(self._tell(talk, lot, pushed))
            await finished(self._record(talk, messages, covered_to), RECORD_SECONDS)
        await asyncio.shield(telling)
        return len(pushed) == len(claim.messages)

    async def left(self, talk: Talk, messages: Sequence[Message], *, fresh: bool) -> View:
        """Return what is still to be handed over, by whomever."""
        view = await self.ledger.look(talk, messages, fresh=fresh)
        talk.saw(view.new, view.rival, self.boot())
        return view

    async def _look(self, talk: Talk, messages: Sequence[Message]) -> View:
        view = await self.left(talk, messages, fresh=False)
        if self.capability.kind is Kind.PROVEN and talk.courtesy:
            shown = {message.id for message in view.new if message.id in talk.courtesy}
            talk.memory.pushed.update({key: talk.courtesy[key] for key in shown})
            talk.courtesy.clear()
            view = await self.left(talk, messages, fresh=False)
        return view

    def _due(self, talk: Talk, view: View) -> list[Message]:
        return talk.due(view.new, push_delay(view.rival), self.boot())

    def _lot(self, due: Sequence[Message]) -> tuple[Sequence[Message], Digest | None]:
        """Return what is claimed at once: a backlog that becomes one digest, else so many messages."""
        digest = backlog(due, self.now())
        return (due[: lease.BATCH] if digest is None else digest.messages), digest

    async def _tell(self, talk: Talk, lot: _Lot, pushed: Sequence[Message]) -> None:
        told = []
        for message in pushed:
            live = lot.digest is None and message.id not in lot.claim.repeated and is_live(message, self.now())
            told.append(Told(talk.conversation, message, lot.verdicts.get(sender(message)), live))
        await self.judge.tell(told)

    async def _push_in_courtesy(self, talk: Talk, messages: Sequence[Message], due: Sequence[Message]) -> None:
        """Push to a host that is not expected to show it, once; nothing is claimed or recorded for it."""
        if all(message.id in talk.courtesy for message in due):
            return
        view = await self.left(talk, messages, fresh=True)  # no write would tell that it is another's
        due = talk.due(view.new, await self._courtesy_delay(view), self.boot())
        fresh = [message for message in due if message.id not in talk.courtesy][: lease.BATCH]
        verdicts = await self.judge.verdicts(fresh)
        for message in fresh:
            if not self.sink.ready:
                return
            talk.note_courtesy(message)
            try:
                async with asyncio.timeout(lease.PUSH_SECONDS):
                    await self.sink.push(self._params(talk, message, verdicts, repeated=False))
            except (TimeoutError, ChannelClosed):
                return
            self._note_pushed(talk, message)

    async def _courtesy_delay(self, view: View) -> float:
        """Where no session is preferred, push hosts that live beside this one claim at once: they get their beat."""
        sessions = self.ledger.sessions
        if view.rival is not None or view.known.record.preferred == sessions.id:
            return push_delay(view.rival)
        return PUSH_RIVAL_SECONDS if await sessions.others_push() else 0.0

    async def _push(self, talk: Talk, lot: _Lot, pushed: list[Message]) -> None:
        """Push one after another while the lease lasts and the host reads; add to ``pushed`` what was written."""
        claim, digest = lot.claim, lot.digest
        lines = [(message,) for message in claim.messages] if digest is None else [digest.messages]
        for messages in lines:
            repeated = any(message.id in claim.repeated for message in messages)
            if digest is None:
                params = self._params(talk, messages[0], lot.verdicts, repeated=repeated)
            else:
                params = digest_params(talk.conversation, digest, redelivered=repeated, envelope=self.envelope)
            if not await self._push_line(talk, messages, params, lot):
                return
            pushed.extend(messages)
            self._remember(talk, messages, lot)

    async def _push_line(self, talk: Talk, messages: Sequence[Message], params: dict[str, Any], lot: _Lot) -> bool:
        """Push one line, which stands for all of ``messages``; return whether it was written."""
        seconds = lease.PUSH_SECONDS - (self.boot() - lot.began)
        if seconds <= 0 or not self.sink.ready:
            return False
        ids = {message.id for message in messages}
        talk.memory.doubtful |= ids  # until its outcome is known: this may be cancelled
        try:
            async with asyncio.timeout(seconds):
                await self.sink.push(params)
        except TimeoutError:  # it may yet be written, so the next time counts as a repeat
            return False
        except ChannelClosed:
            talk.memory.doubtful -= ids - lot.claim.repeated
            return False
        talk.memory.doubtful -= ids
        talk.memory.pushed.update({message.id: message.created for message in messages})
        return True

    def _remember(self, talk: Talk, messages: tuple[Message, ...], lot: _Lot) -> None:
        """Note what was pushed, for waits and, when it is not known whether pushes are shown, for results of calls."""
        last = messages[-1]
        proven = self.capability.kind is Kind.PROVEN
        if not proven:
            talk.memory.unproven.update(message.id for message in messages)
        sponsor = lot.digest is None and lot.verdicts.get(sender(last)) is not None
        message = last if lot.digest is None else lot.digest.as_message(talk.conversation)
        talk.note_push(Shown(Received(talk.conversation, message, sponsor, redelivered=True), messages), proven=proven)
        self._note_pushed(talk, last)

    def _params(
        self, talk: Talk, message: Message, verdicts: Mapping[Sender, Sponsor | None], *, repeated: bool
    ) -> dict[str, Any]:
        sponsor = verdicts.get(sender(message)) is not None
        return channel_params(talk.conversation, message, sponsor=sponsor, redelivered=repeated, envelope=self.envelope)

    def _note_pushed(self, talk: Talk, message: Message) -> None:
        age = (self.now() - message.created).total_seconds()
        self.capability.pushed(talk.conversation.id, message.id, max(age, 0.0))

    async def _record(self, talk: Talk, messages: Sequence[Message], covered_to: datetime) -> None:
        """End the lease. What cannot be recorded is remembered, and recorded later without another push."""
        try:
            await self.ledger.settle(talk, messages, covered_to)
        except StorageError as error:
            log.warning("Messages were handed over but not recorded: %s", error.message)


def sender(message: Message) -> Sender:
    """Return what proves who wrote a message."""
    return message.sender_id, message.sender_tenant
