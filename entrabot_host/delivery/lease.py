"""The lease on a conversation: claim, push, record, as pure steps from one record to the next.

Every step is written with compare-and-swap, so a step that was computed from an old record changes nothing. A session
claims messages that are not done while nobody else holds a live lease; it hands them over, by a push or in the result
of a call; it records them. One that died, stalled or lost its write in between leaves ``in_hand`` behind, and whoever
claims next hands exactly those over again, marked as repeated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from entrabot_host.delivery.record import Record, Times
from entrabot_host.host import Message

LEASE_SECONDS = 30.0
PUSH_SECONDS = 20.0
"""How long after its claim a session may still push: well within the lease, so a living owner is never overtaken."""
TRAIL = timedelta(minutes=5)
BATCH = 20
_INSTANT = timedelta(microseconds=1)


@dataclass
class Memory:
    """What this session knows beyond the record. Lost with the process, which is why leftovers are doubtful.

    pushed: handed over by this session, recorded by nobody yet. unproven: those of them that went to a host which is
    only assumed to show pushes. doubtful: perhaps handed over, by whomever. confirmed: recorded as unconfirmed, and
    known to be shown by now.
    """

    pushed: dict[str, datetime] = field(default_factory=dict)
    unproven: set[str] = field(default_factory=set)
    doubtful: set[str] = field(default_factory=set)
    confirmed: set[str] = field(default_factory=set)

    def forget(self, record: Record, me: str) -> None:
        """Drop what the record covers."""
        others = record.unconfirmed_by(other for other in record.unconfirmed if other != me)
        self.pushed = {
            key: created for key, created in self.pushed.items() if key in others or not is_done(record, key, created)
        }
        self.unproven &= set(self.pushed)
        self.doubtful -= set(record.ids)
        self.confirmed &= {*self.pushed, *record.unconfirmed.get(me, ())}


@dataclass(frozen=True)
class Claim:
    """A lease that this session has, once the record is written. ``repeated`` are the ids to mark."""

    record: Record
    messages: tuple[Message, ...]
    repeated: frozenset[str]


def is_done(record: Record, identifier: str, created: datetime) -> bool:
    """Whether a message needs no handing over: below the floor, recorded, or sent by the agent itself."""
    return created <= record.floor or identifier in record.ids or identifier in record.sent


def new_messages(record: Record, messages: Iterable[Message], forsaken: Collection[str] = ()) -> list[Message]:
    """Return the messages that are not done, each once, oldest first.

    forsaken: handed to a session that died before anybody knew whether its host showed them.
    """
    fresh = {
        message.id: message
        for message in messages
        if message.id in forsaken or not is_done(record, message.id, message.created)
    }
    return sorted(fresh.values(), key=lambda message: (message.created, message.id))


def is_held(record: Record, me: str, age: float, owner_alive: bool) -> bool:
    """Whether another session holds a live lease. age: of the record, in seconds by the store's clock."""
    return record.owner not in ("", me) and owner_alive and age < LEASE_SECONDS


def left_behind(record: Record, me: str, memory: Memory) -> set[str]:
    """Return what may have been handed over without having been recorded, and not by a claim of this session."""
    return memory.doubtful | (set(record.in_hand) if record.owner != me else set())


def claim(
    record: Record,
    me: str,
    batch: Sequence[Message],
    memory: Memory,
    *,
    carried: Collection[str] = (),
    forsaken: Collection[str] = (),
) -> Claim:
    """Take the lease for ``batch``.

    What others left in hand stays in hand until it is recorded, even when its text is not at hand this time; so does
    what running calls of this session carry.
    """
    doubtful = left_behind(record, me, memory)
    hand = {
        **{key: created for key, created in record.in_hand.items() if key in doubtful or key in carried},
        **{message.id: message.created for message in batch},
    }
    claimed = replace(record, epoch=record.epoch + 1, owner=me, in_hand=hand)
    repeated = (doubtful | set(forsaken)) & {message.id for message in batch}
    return Claim(claimed, tuple(batch), frozenset(repeated))


def settled(record: Record, me: str, memory: Memory, carried: Collection[str] = ()) -> Record:
    """Record what was handed over; end this session's lease unless running calls still carry something of it.

    Only what is doubtful, or still carried, stays in hand.
    """
    done = with_pushed(record, me, memory)
    if done.owner != me:
        return done
    hand = {key: created for key, created in done.in_hand.items() if key in memory.doubtful or key in carried}
    return replace(done, owner=me if any(key in carried for key in hand) else "", in_hand=hand)


def with_pushed(record: Record, me: str, memory: Memory) -> Record:
    """Record messages as handed over; the session that was handed them last is preferred."""
    record = record.with_confirmed(me, memory.confirmed)
    if not memory.pushed:
        return record
    pushed: Times = memory.pushed
    hand = {key: created for key, created in record.in_hand.items() if key not in pushed}
    unproven = {key: pushed[key] for key in memory.unproven - memory.confirmed if key in pushed}
    handed = replace(record, ids={**record.ids, **pushed}, in_hand=hand, preferred=me)
    return handed.with_unconfirmed(me, unproven, settled=pushed)


def next_floor(floor: datetime, covered_to: datetime, open_messages: Iterable[datetime]) -> datetime:
    """Return how far everything is done: five minutes behind ``covered_to``, below every message still open.

    The five minutes are for messages that become visible late. open_messages: times of creation.
    """
    return max(floor, min((covered_to - TRAIL, *(created - _INSTANT for created in open_messages))))
