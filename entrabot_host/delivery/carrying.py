"""Messages on their way to the model in the results of calls: claimed for a call, recorded once its result has left."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from entrabot_host.delivery import aside, lease
from entrabot_host.delivery.capability import Capability, texts_of
from entrabot_host.delivery.cargo import CURRENT, Cargo, Piece
from entrabot_host.delivery.chores import Chores
from entrabot_host.delivery.claims import Kind, ride_delay, wait_delay
from entrabot_host.delivery.digest import Digest, backlog, is_live
from entrabot_host.delivery.handover import Judge, Sender, Told, sender
from entrabot_host.delivery.lease import Claim
from entrabot_host.delivery.ledger import Ledger, View
from entrabot_host.delivery.talk import Shown, Talk
from entrabot_host.errors import EntrabotError
from entrabot_host.host import Conversation, ConversationKind, Message, Received, Sponsor

log = logging.getLogger(__name__)

COLLECT_SECONDS = 5.0
RIDE_SECONDS = 3.0
LOOK_AGAIN_SECONDS = 1.0
CONFIRM_SECONDS = 10.0
"""How long a confirmation may wait for another write of the record to go with."""

Talks = Mapping[Conversation, Talk]
Delay = Callable[[Kind | None], float | None]
"""From the rival's kind to the seconds after which this session may take a message."""


@dataclass(eq=False)
class _Want:
    """A wait under way."""

    conversation: Conversation | None

    def covers(self, talk: Talk) -> bool:
        """Whether the wait may end with a message of this conversation. Mail ends only a wait for mail."""
        if self.conversation is None:
            return talk.conversation.kind is ConversationKind.CHAT
        return self.is_about(talk)

    def is_about(self, talk: Talk) -> bool:
        """Whether the call is about this very conversation."""
        return self.conversation == talk.conversation


class _Load:
    """What one wait, or one ride, adds to the cargo of its call."""

    def __init__(self, cargo: Cargo) -> None:
        self.shown: list[Shown] = []
        self._cargo = cargo

    def add(self, pieces: Sequence[Piece]) -> None:
        """The call will carry these."""
        self.shown.extend(piece.shown for piece in pieces)
        self._cargo.add(pieces)


@dataclass(kw_only=True)
class Carrying:
    """Waits, what rides along on results, and what becomes of both."""

    ledger: Ledger
    judge: Judge
    capability: Capability
    talks: Talks
    chores: Chores
    now: Callable[[], datetime]
    boot: Callable[[], float]
    envelope: bool
    rides: bool
    _wants: list[_Want] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _open: dict[Conversation, Talk] = field(default_factory=dict)
    _problem: str = ""
    _awaiting: dict[tuple[Conversation, str], Talk] = field(default_factory=dict)

    # --- what the rest of delivery tells --------------------------------------------------------------------------

    def changed(self, talk: Talk) -> None:
        """Something of this conversation waits, or does not any more."""
        if talk.waiting or talk.unproven:
            self._open[talk.conversation] = talk
        else:
            self._open.pop(talk.conversation, None)
        if talk.waiting or talk.recent:
            self._announce()

    def wanted(self, talk: Talk) -> bool:
        """Whether a wait will carry what is new in this conversation."""
        kind = self.capability.kind
        return any(
            want.covers(talk) and wait_delay(kind, talk.rival, own=want.is_about(talk)) == 0.0 for want in self._wants
        )

    # --- waits ----------------------------------------------------------------------------------------------------

    async def wait(self, conversation: Conversation | None, after: datetime, timeout: float) -> list[Received]:
        """Wait for messages that the running call may carry; see `entrabot_host.host.Inbox.wait`."""
        cargo = CURRENT.get(None)
        own = cargo or Cargo(self._ended)
        want = _Want(conversation)
        self._wants.append(want)
        try:
            found = await self._found(want, after, timeout, own)
        except BaseException:
            if cargo is None:
                own.lost()
            raise
        finally:
            self._wants.remove(want)
        if cargo is None:
            own.shown()  # outside of any call nobody will say when it is shown
        return found

    async def _found(self, want: _Want, after: datetime, timeout: float, cargo: Cargo) -> list[Received]:
        until = self.boot() + max(timeout, 0.0)
        while True:
            news = self._news
            if found := await self._collect(want, after, cargo):
                return found
            left = until - self.boot()
            if left <= 0:
                return []
            pause = min(left, LOOK_AGAIN_SECONDS) if self._open else left
            try:
                async with asyncio.timeout(pause):
                    await news.wait()
            except TimeoutError:
                continue

    async def _collect(self, want: _Want, after: datetime, cargo: Cargo) -> list[Received]:
        """Take all that the wait may have now. A chat that fails does not keep the others from being heard."""
        load = _Load(cargo)
        load.add(self._pushed_since(want, after))
        async with self._bounded(COLLECT_SECONDS):
            for talk in [*self._open.values()]:
                if want.covers(talk):
                    await self._take_for(want, talk, load)
        found = [shown.received for shown in load.shown]
        return sorted(found, key=lambda received: (received.message.created, received.message.id))

    async def _take_for(self, want: _Want, talk: Talk, load: _Load) -> None:
        kind, own = self.capability.kind, want.is_about(talk)
        await self._take(talk, load, lambda rival: wait_delay(kind, rival, own=own), lease.BATCH)

    def _pushed_since(self, want: _Want, after: datetime) -> list[Piece]:
        """Return what was pushed after the mark: a host in the middle of a call may show pushes only later."""
        pieces = []
        for talk in self.talks.values():
            for shown in [*talk.recent.values()] if want.covers(talk) else ():
                if shown.received.message.created > after and len(shown.messages) == 1:
                    pieces.append(self._again(talk, shown))
        return pieces

    def _again(self, talk: Talk, shown: Shown) -> Piece:
        talk.recent.pop(shown.id, None)
        if shown.id in talk.unproven:
            talk.riding.add(shown.id)
        return Piece(talk, shown, again=True)

    # --- claiming for a call --------------------------------------------------------------------------------------

    async def _take(self, talk: Talk, load: _Load, delay: Delay, most: int, *, digests: bool = False) -> None:
        """Claim what the running call may carry, and add it to its load."""
        if not talk.due(talk.waiting, delay(talk.rival), self.boot()):
            return
        digest: Digest | None = None

        def choose(view: View) -> Sequence[Message]:
            nonlocal digest
            due = talk.due(view.new, delay(view.rival), self.boot())
            digest = backlog(due, self.now()) if digests else None
            return due[:most] if digest is None else digest.messages

        async with talk.lock:
            verdicts = await self.judge.verdicts(talk.waiting)
            try:
                claim = await self.ledger.claim(talk, talk.waiting, choose)
            except BaseException:
                self.chores.start(self._settle(talk))  # it may have been written
                raise
            if claim is None:
                await self._look_again(talk)
                return
            talk.carry(claim.messages, self.boot())
            load.add(_pieces(talk, claim, digest, verdicts))

    async def _look_again(self, talk: Talk) -> None:
        """Somebody else has the messages by now, or will have them."""
        view = await self.ledger.look(talk, talk.waiting, fresh=True)
        talk.saw(view.new, view.rival, self.boot())
        self.changed(talk)

    @asynccontextmanager
    async def _bounded(self, seconds: float) -> AsyncIterator[None]:
        """Bound claims for a call in time; a failure is no reason for the call to fail, and is logged once."""
        problem = ""
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            problem = f"the storage did not answer within {seconds:g} seconds"
        except EntrabotError as error:
            problem = error.message
        if problem and problem != self._problem:
            log.warning("Messages could not be claimed for a call: %s", problem)
        self._problem = problem

    # --- the boundary around calls --------------------------------------------------------------------------------

    def load(self, arguments: Mapping[str, Any]) -> Cargo:
        """A call has come in: learn from it what the host has shown, and return the call's empty cargo."""
        if self._awaiting:
            awaiting, self._awaiting = self._awaiting, {}
            self._confirm((talk, key) for (_, key), talk in awaiting.items())
        named = texts_of(arguments)
        proven = self.capability.called(named)
        for talk in [*self._open.values()] if self._open else ():
            self._confirm((talk, key) for key in [*talk.unproven] if proven or key in named)
        return Cargo(self._ended)

    def riders(self) -> bool:
        """Whether something may ride along on a result now. Costs nothing when nothing waits."""
        return bool(self._open) and self.rides and self.capability.kind is not Kind.PROVEN

    async def ride(self, cargo: Cargo) -> str:
        """Take along what the host may not have shown; return the block, empty when there is nothing."""
        load, kind = _Load(cargo), self.capability.kind
        load.add(self._unproven())
        async with self._bounded(RIDE_SECONDS):
            for talk in [*self._open.values()]:
                if (room := aside.MOST - len(load.shown)) > 0:
                    await self._take(talk, load, lambda rival: ride_delay(kind, rival), room, digests=True)
        return aside.block(load.shown, self._more(kind), envelope=self.envelope) if load.shown else ""

    def answered(self, text: str) -> None:
        """A result goes out with this text."""
        self.capability.answered(text)

    def _unproven(self) -> list[Piece]:
        doubted = [
            (talk, shown)
            for talk in self._open.values()
            for shown in talk.unproven.values()
            if shown.id not in talk.riding
        ]
        return [self._again(talk, shown) for talk, shown in doubted[: aside.MOST]]

    def _more(self, kind: Kind) -> int:
        at = self.boot()
        due = sum(len(talk.due(talk.waiting, ride_delay(kind, talk.rival), at)) for talk in self._open.values())
        return due + sum(len(talk.unproven.keys() - talk.riding) for talk in self._open.values())

    # --- afterwards -----------------------------------------------------------------------------------------------

    def _ended(self, pieces: Sequence[Piece], shown: bool, in_doubt: bool) -> None:
        """The outcome of a call is known: what it carried counts as handed over, or is given back."""
        for piece in pieces:
            if piece.again:
                self._ended_again(piece, shown)
            else:
                self._ended_claimed(piece, shown, in_doubt)
        self.chores.start(self._record(pieces, shown))

    def _ended_again(self, piece: Piece, shown: bool) -> None:
        talk, key = piece.talk, piece.shown.id
        if shown and key in talk.unproven:
            self._awaiting[talk.conversation, key] = talk
        elif not shown:
            talk.riding.discard(key)
            talk.recent[key] = piece.shown
            self._announce()

    def _ended_claimed(self, piece: Piece, shown: bool, in_doubt: bool) -> None:
        talk = piece.talk
        for message in piece.shown.messages:
            talk.carried.pop(message.id, None)
            if shown:
                talk.memory.doubtful.discard(message.id)
                talk.memory.pushed[message.id] = message.created
            elif in_doubt:
                talk.memory.doubtful.add(message.id)

    async def _record(self, pieces: Sequence[Piece], shown: bool) -> None:
        claimed = [piece for piece in pieces if not piece.again]
        if shown:
            await self.judge.tell([told for piece in claimed for told in self._told(piece)])
        for talk in {id(piece.talk): piece.talk for piece in claimed}.values():
            await self._settle(talk)
            if not shown:
                self._give_back(talk, [piece for piece in claimed if piece.talk is talk])

    def _told(self, piece: Piece) -> Iterator[Told]:
        shown = piece.shown
        alone = len(shown.messages) == 1
        for message in shown.messages:
            live = alone and not shown.received.redelivered and is_live(message, self.now())
            yield Told(piece.talk.conversation, message, piece.sponsor if alone else None, live)

    def _give_back(self, talk: Talk, pieces: Iterable[Piece]) -> None:
        known = {message.id: message for piece in pieces for message in piece.shown.messages}
        known |= {message.id: message for message in talk.waiting}
        talk.waiting = tuple(sorted(known.values(), key=lambda message: (message.created, message.id)))
        self.changed(talk)

    async def _settle(self, talk: Talk) -> None:
        async with talk.lock:
            try:
                await self.ledger.settle(talk)
            except EntrabotError as error:
                log.warning("What was handed over is not recorded yet: %s", error.message)

    def _confirm(self, keys: Iterable[tuple[Talk, str]]) -> None:
        confirmed = {id(talk): talk for talk, key in keys if talk.confirm(key)}
        for talk in confirmed.values():
            self.changed(talk)
            self.chores.later(talk.conversation, CONFIRM_SECONDS, partial(self._settle, talk))

    def _announce(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


def _pieces(talk: Talk, claim: Claim, digest: Digest | None, verdicts: Mapping[Sender, Sponsor | None]) -> list[Piece]:
    """Return what the model will see of a claim: its messages one by one, or their digest."""
    if digest is not None:
        repeated = bool(claim.repeated)
        received = Received(talk.conversation, digest.as_message(talk.conversation), False, repeated)
        return [Piece(talk, Shown(received, claim.messages))]
    pieces = []
    for message in claim.messages:
        sponsor = verdicts.get(sender(message))
        received = Received(talk.conversation, message, sponsor is not None, message.id in claim.repeated)
        pieces.append(Piece(talk, Shown(received, (message,)), sponsor))
    return pieces
