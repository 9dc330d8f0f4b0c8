"""What this session keeps of one conversation, besides the record."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from entrabot_host.delivery.claims import Kind
from entrabot_host.delivery.lease import LEASE_SECONDS, Memory
from entrabot_host.delivery.record import SENT_KEPT
from entrabot_host.host import Conversation, Message, Received

T = TypeVar("T")
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
UNPROVEN_KEPT = 50
RECENT_KEPT = 20
COURTESY_KEPT = 200


@dataclass(frozen=True)
class Shown:
    """What the model sees as one thing: a message, or a digest that stands for several ``messages``."""

    received: Received
    messages: tuple[Message, ...]

    @property
    def id(self) -> str:
        """The id under which it is shown."""
        return self.received.message.id


@dataclass
class Talk:
    """One conversation. One delivery or claim at a time (``lock``); sending does not wait for it.

    floor: how far it is done as far as is known without writing. spoken: sent ids that are not written down yet.
    first_seen: when this session first saw what is still to be handed over, on the boot clock. waiting: those messages
    themselves. rival: the kind of the other live session that is preferred, at the last look. carried: claimed for a
    running call, since when. courtesy: pushed to a host that may not show it, which counts for nothing.
    recent: what was pushed lately and no call has carried since. unproven: pushed to a host that is only assumed to
    show pushes. riding: those of them that a result carries.
    """

    conversation: Conversation
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    memory: Memory = field(default_factory=Memory)
    floor: datetime = _LONG_AGO
    spoken: list[str] = field(default_factory=list)
    first_seen: dict[str, float] = field(default_factory=dict)
    waiting: tuple[Message, ...] = ()
    rival: Kind | None = None
    carried: dict[str, float] = field(default_factory=dict)
    courtesy: dict[str, datetime] = field(default_factory=dict)
    recent: dict[str, Shown] = field(default_factory=dict)
    unproven: dict[str, Shown] = field(default_factory=dict)
    riding: set[str] = field(default_factory=set)

    def saw(self, messages: Sequence[Message], rival: Kind | None, at: float) -> None:
        """Note all messages that are still to be handed over; those known already keep their time."""
        self.first_seen = {message.id: self.first_seen.get(message.id, at) for message in messages}
        self.waiting, self.rival = tuple(messages), rival

    def due(self, messages: Iterable[Message], delay: float | None, at: float) -> list[Message]:
        """Return those that this session saw ``delay`` seconds ago or earlier; none for no delay."""
        if delay is None:
            return []
        return [message for message in messages if at - self.first_seen.get(message.id, at) >= delay]

    def said(self, message_id: str) -> None:
        """Note a message that this session sent."""
        self.spoken = [*self.spoken, message_id][-SENT_KEPT:]

    def carry(self, messages: Iterable[Message], at: float) -> None:
        """Note what was claimed for a running call."""
        self.carried.update({message.id: at for message in messages})
        self.waiting = tuple(message for message in self.waiting if message.id not in self.carried)

    def let_go_of_stalled_calls(self, at: float) -> None:
        """Wait no longer for calls that outlived the lease: what they carry is to be handed over again, marked."""
        stalled = {key for key, since in self.carried.items() if at - since > LEASE_SECONDS}
        self.memory.doubtful |= stalled
        self.carried = {key: since for key, since in self.carried.items() if key not in stalled}

    def note_courtesy(self, message: Message) -> None:
        """Note a push that counts for nothing."""
        _keep(self.courtesy, message.id, message.created, COURTESY_KEPT)

    def note_push(self, shown: Shown, *, proven: bool) -> None:
        """Note a push. proven: the host is known to show it."""
        _keep(self.recent, shown.id, shown, RECENT_KEPT)
        if not proven:
            _keep(self.unproven, shown.id, shown, UNPROVEN_KEPT)

    def confirm(self, message_id: str) -> bool:
        """The host has shown this push. False when it was not in doubt."""
        shown = self.unproven.pop(message_id, None)
        if shown is None:
            return False
        self.riding.discard(message_id)
        self.memory.confirmed.update(message.id for message in shown.messages)
        return True


def _keep(kept: dict[str, T], key: str, value: T, most: int) -> None:
    kept[key] = value
    while len(kept) > most:
        del kept[next(iter(kept))]
