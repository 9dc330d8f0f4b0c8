"""The lease on a conversation, checked exhaustively: two processes, two messages, whatever may go wrong, anywhere.

A record per conversation says what was handed over (``done``), who claimed what (``owner``, ``hand``, whether the lease
has run out) and who took part last (``preferred``). Every write is compare-and-swap: one that was computed from an old
record changes nothing, and the process reads again. A process claims what is not done while no other holds a live
lease, pushes it, and records it. It remembers what it pushed until the record says so.

Besides crash, stall and expiry there are: a send, which changes ``preferred`` between any two steps of the other; and
a write that landed although its answer was a conflict, as happens when a request is repeated after a lost answer.

Checked in every state that can be reached:

- a message that can be seen is pushed in the end, unless every process died;
- no process pushes a message twice; of all pushes of one message at most one does not say that it is a repeat;
- a repeat has a cause: a process died, or its lease ran out, between its claim and its record;
- ``preferred`` is whoever sent or recorded last: no write is overwritten unseen.

``python delivery_lease.py`` prints the counts; ``python delivery_lease.py broken`` lets a process forget what it pushed
when its record is refused, to show that the check can fail. The exit status says whether all was well.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

MESSAGES = (1, 2)
BOTH = (0, 1)
SENDS, BAD_EXPIRIES, LOST_ANSWERS = 1, 2, 1
"""How often each may happen in one run."""

Ids = frozenset[int]
NOTHING: Ids = frozenset()


@dataclass(frozen=True)
class Record:
    """What is stored. expired: the lease has run out by the store's clock."""

    done: Ids = NOTHING
    owner: int | None = None
    hand: Ids = NOTHING
    expired: bool = False
    preferred: int | None = None


@dataclass(frozen=True)
class Process:
    """fresh: it has seen the newest record. hand: what it claimed, repeated: what of it may have been handed over.

    pushed: what it remembers to have pushed while no record says so.
    """

    step: str = "idle"
    fresh: bool = True
    hand: Ids = NOTHING
    repeated: Ids = NOTHING
    pushed: Ids = NOTHING
    alive: bool = True


@dataclass(frozen=True)
class State:
    """pushes: sorted, each (message, by whom, marked as a repeat). last: who sent or recorded last. The rest counts."""

    record: Record = Record()
    processes: tuple[Process, ...] = (Process(), Process())
    visible: Ids = NOTHING
    pushes: tuple[tuple[int, int, bool], ...] = ()
    last: int | None = None
    sends: int = 0
    bad_expiries: int = 0
    lost_answers: int = 0
    deaths_in_between: int = 0

    def with_process(self, i: int, process: Process) -> State:
        """Replace one process."""
        return replace(self, processes=tuple(process if j == i else other for j, other in enumerate(self.processes)))

    def written(self, i: int, record: Record, process: Process) -> State:
        """Process ``i`` has written; whoever read before knows an old record now."""
        others = tuple(process if j == i else replace(other, fresh=False) for j, other in enumerate(self.processes))
        return replace(self, record=record, processes=others)


Step = tuple[str, State]


def steps(state: State, forgets: bool) -> Iterator[Step]:
    """Return all that may happen next."""
    yield from surroundings(state)
    for i in BOTH:
        process = state.processes[i]
        if process.alive:
            yield from misfortunes(state, i)
            yield from work(state, i, forgets)


def surroundings(state: State) -> Iterator[Step]:
    """Messages become visible in any order, and leases run out."""
    for message in MESSAGES:
        if message not in state.visible:
            yield f"{message} appears", replace(state, visible=state.visible | {message})
    record = state.record
    if record.owner is not None and not record.expired:
        owner = state.processes[record.owner]
        bad = owner.alive and owner.step != "idle"
        if state.bad_expiries + bad <= BAD_EXPIRIES:
            expired = replace(state, record=replace(record, expired=True))
            yield "expires", replace(expired, bad_expiries=state.bad_expiries + bad)


def misfortunes(state: State, i: int) -> Iterator[Step]:
    """A process dies; one may, so that somebody is left. Or it sends, in the middle of whatever it does."""
    process = state.processes[i]
    if state.processes[1 - i].alive:
        between = process.step != "idle" or bool(process.pushed)
        dead = state.with_process(i, replace(process, alive=False))
        yield f"{i} dies", replace(dead, deaths_in_between=state.deaths_in_between + between)
    if state.sends < SENDS:
        sent = state.written(i, replace(state.record, preferred=i), process)
        yield f"{i} sends", replace(sent, sends=state.sends + 1, last=i)


def work(state: State, i: int, forgets: bool) -> Iterator[Step]:
    """What a process does by itself."""
    process = state.processes[i]
    if process.step == "claimed":
        yield f"{i} pushes", pushed(state, i)
    elif not process.fresh:
        yield f"{i} reads", state.with_process(i, replace(process, fresh=True))
    elif process.step == "pushed" or process.pushed - state.record.done:
        yield from records(state, i, forgets)
    elif is_free(state.record, i) and (new := state.visible - state.record.done):
        yield from claims(state, i, new)


def is_free(record: Record, i: int) -> bool:
    """Whether no other process holds a live lease. That of a dead one runs out, too."""
    return record.owner in (None, i) or record.expired


def claims(state: State, i: int, new: Ids) -> Iterator[Step]:
    """Take the lease. What another left in hand may have been handed over."""
    process, record = state.processes[i], state.record
    left_behind = record.hand if record.owner != i else process.repeated
    claimed = replace(record, owner=i, hand=new, expired=False)
    repeated = new & left_behind
    yield f"{i} claims", state.written(i, claimed, replace(process, step="claimed", hand=new, repeated=repeated))
    if state.lost_answers < LOST_ANSWERS:  # it landed, and the process is told of a conflict
        unsure = state.written(i, claimed, replace(process, fresh=False, repeated=repeated))
        yield f"{i} claims, told of a conflict", replace(unsure, lost_answers=state.lost_answers + 1)


def pushed(state: State, i: int) -> State:
    """Push all that was claimed."""
    process = state.processes[i]
    pushes = [(message, i, message in process.repeated) for message in process.hand]
    moved = replace(process, step="pushed", pushed=process.pushed | process.hand, hand=NOTHING, repeated=NOTHING)
    return replace(state.with_process(i, moved), pushes=tuple(sorted([*state.pushes, *pushes])))


def records(state: State, i: int, forgets: bool) -> Iterator[Step]:
    """Record what was pushed; while another holds a live lease, later."""
    process, record = state.processes[i], state.record
    if not is_free(record, i):
        if process.step == "pushed":
            kept = NOTHING if forgets else process.pushed
            yield f"{i} is fenced", state.with_process(i, replace(process, step="idle", pushed=kept))
        return
    hand = record.hand - process.pushed
    done = record.done | process.pushed
    if record.owner == i:
        after = replace(record, done=done, owner=None, hand=NOTHING, preferred=i)
    else:
        after = replace(record, done=done, hand=hand, preferred=i)
    over = replace(process, step="idle", pushed=NOTHING)
    yield f"{i} records", replace(state.written(i, after, over), last=i)
    if state.lost_answers < LOST_ANSWERS:  # it landed, and the process is told of a conflict: it finds it all done
        unsure = replace(process, step="idle", fresh=False, pushed=NOTHING if forgets else process.pushed)
        told = replace(state.written(i, after, unsure), last=i, lost_answers=state.lost_answers + 1)
        yield f"{i} records, told of a conflict", told


def faults(state: State, following: list[Step]) -> Iterator[str]:
    """Return what is wrong with a state."""
    by = Counter((message, process) for message, process, _ in state.pushes)
    of = Counter(message for message, _, _ in state.pushes)
    unmarked = Counter(message for message, _, marked in state.pushes if not marked)
    if max(by.values(), default=0) > 1:
        yield "a process pushed a message twice"
    if max(unmarked.values(), default=0) > 1:
        yield "a repeat does not say that it is one"
    if max(of.values(), default=0) > 1 and not (state.bad_expiries or state.deaths_in_between):
        yield "a repeat without a cause"
    if state.record.preferred != state.last:
        yield "a write was overwritten unseen"
    goes_on = [name for name, _ in following if not name.endswith(("dies", "sends"))]
    if not goes_on and state.visible - of.keys():
        yield "a message is never pushed"


def check(*, forgets: bool = False) -> tuple[int, Counter[str]]:
    """Visit every state that can be reached; return how many there are and in how many what is wrong.

    With ``forgets`` the first fault is enough.
    """
    start = State()
    seen, queue, found = {start}, deque([start]), Counter[str]()
    while queue:
        state = queue.popleft()
        following = list(steps(state, forgets))
        found.update(faults(state, following))
        if forgets and found:
            break
        for _, after in following:
            if after not in seen:
                seen.add(after)
                queue.append(after)
    return len(seen), found


def main() -> int:
    """Print the verdict."""
    number, found = check(forgets=sys.argv[1:] == ["broken"])
    print(f"{number} states")
    for fault, states in found.most_common():
        print(f"in {states} of them {fault}")
    print("something is wrong" if found else "nothing is lost, repeated without cause or mark, or overwritten")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
