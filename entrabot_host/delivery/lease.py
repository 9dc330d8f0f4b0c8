"""The lease on a conversation: claim, push, record, as pure steps from one record to the next.

Every step is written with compare-and-swap, so a step that was computed from an old record changes nothing. A session
claims messages that are not done while nobody else holds a live lease; it pushes them; it records them. One that died,
stalled or lost its write in between leaves ``in_hand`` behind, and whoever claims next hands exactly those over again,
marked as repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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

    pushed: handed over by this session, recorded by nobody yet. doubtful: perhaps handed over, by whomever.
    """

    pushed: dict[str, datetime] = field(default_factory=dict)
    doubtful: set[str] = field(default_factory=set)

    def forget(self, record: Record) -> None:
        """Drop what the record covers."""
        self.pushed = {key: created for key, created in self.pushed.items() if not is_done(record, key, created)}
        self.doubtful -= set(record.ids)


@dataclass(frozen=True)
class Claim:
    """A lease that this session has, once the record is written. ``repeated`` are the ids to mark."""

    record: Record
    messages: tuple[Message, ...]
    repeated: frozenset[str]


def is_done(record: Record, identifier: str, created: datetime) -> bool:
    """Whether a message needs no handing over: below the floor, recorded, or sent by the agent itself."""
    return created <= record.floor or identifier in record.ids or identifier in record.sent


def new_messages(record: Record, messages: Iterable[Message]) -> list[Message]:
    """Return the messages that are not done, each once, oldest first."""
    fresh = {message.id: message for message in messages if not is_done(record, message.id, message.created)}
    return sorted(fresh.values(), key=lambda message: (message.created, message.id))


def is_held(record: Record, me: str, age: float, owner_alive: bool) -> bool:
    """Whether another session holds a live lease. age: of the record, in seconds by the store's clock."""
    return record.owner not in ("", me) and owner_alive and age < LEASE_SECONDS


def left_behind(record: Record, me: str, memory: Memory) -> set[str]:
    """Return what may have been handed over without having been recorded, and not by a claim of this session."""
    return memory.doubtful | (set(record.in_hand) if record.owner != me else set())


def claim(record: Record, me: str, new: Sequence[Message], memory: Memory) -> Claim:
    """Take the lease for the first messages of ``new``.

    What others left in hand stays in hand until it is recorded, even when its text is not at hand this time.
    """
    doubtful = left_behind(record, me, memory)
    batch = tuple(message for message in new if message.id not in memory.pushed)[:BATCH]
    hand = {
        **{key: created for key, created in record.in_hand.items() if key in doubtful},
        **{message.id: message.created for message in batch},
    }
    claimed = replace(record, epoch=record.epoch + 1, owner=me, in_hand=hand)
    return Claim(claimed, batch, frozenset(doubtful & {message.id for message in batch}))


def still_mine(record: Record, claimed: Record) -> bool:
    """Whether a newer version of the record is still under the lease of that claim; if not, its owner is fenced."""
    return record.epoch == claimed.epoch and record.owner == claimed.owner


def finish(record: Record, me: str, memory: Memory, floor: datetime) -> Record:
    """End the lease: record what was pushed, keep only what is doubtful in hand, move the floor."""
    done = with_pushed(record, me, memory.pushed)
    hand = {key: created for key, created in done.in_hand.items() if key in memory.doubtful}
    return replace(done, owner="", in_hand=hand).with_floor(floor)


def with_pushed(record: Record, me: str, pushed: Times) -> Record:
    """Record messages as handed over; the session that was handed them last is preferred."""
    if not pushed:
        return record
    hand = {key: created for key, created in record.in_hand.items() if key not in pushed}
    return replace(record, ids={**record.ids, **pushed}, in_hand=hand, preferred=me)


def next_floor(floor: datetime, covered_to: datetime, open_messages: Iterable[datetime]) -> datetime:
    """Return how far everything is done: five minutes behind ``covered_to``, below every message still open.

    The five minutes are for messages that become visible late. open_messages: times of creation.
    """
    return max(floor, min((covered_to - TRAIL, *(created - _INSTANT for created in open_messages))))
