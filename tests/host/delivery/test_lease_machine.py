"""The lease against real files, with deaths, lost writes and lost answers anywhere: nothing lost, repeats marked."""

import asyncio
import tempfile
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from entrabot_host.delivery import lease
from entrabot_host.delivery.cargo import Cargo
from entrabot_host.delivery.record import record_key
from entrabot_host.errors import ConcurrencyError, StorageError
from entrabot_host.host import Message
from tests.host.delivery.parts import CHAT, Clock, Crash, Session, message

KINDS = [("on", ""), ("auto", "claude-code"), ("off", "")]
SESSIONS = st.integers(0, len(KINDS) - 1)
FAILURES = st.sampled_from(["refused", "landed", "landed, conflict", "conflict"])
MORE = st.integers(1, 3)
POINTS = st.sampled_from(["before write", "after write", "before push", "after push"])
OUTCOMES = st.sampled_from(["shown", "lost", "in doubt"])


class Delivery(RuleBasedStateMachine):
    """Three processes on one folder: a host known to show pushes, one assumed to, and one that does not.

    A dead one is followed by a new one of its kind.
    """

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = Clock()
        self.messages: list[Message] = []
        self.all: list[Session] = []
        self.calls: list[tuple[Session, Cargo]] = []
        self.causes = 0
        self.sent: list[str] = []

    def new(self, who: int) -> Session:
        push, client = KINDS[who]
        session = Session(Path(self.folder.name), self.clock, push, client)
        self.all.append(session)
        return session

    @initialize()
    def begin(self) -> None:
        self.sessions = [self.new(who) for who in range(len(KINDS))]
        self.runner.run(self.sessions[0].inbox.position(CHAT, self.clock()))

    @rule(seconds=st.sampled_from([1, 10, 70, 400]))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(seconds)
        stalled = seconds > lease.LEASE_SECONDS and self.calls
        self.causes += bool(stalled)  # who carries something for so long is overtaken

    @rule(how_late=st.integers(0, 200), more=MORE)
    def messages_appear(self, how_late: int, more: int) -> None:
        for _ in range(more):
            created = max(self.clock.advance(1) - timedelta(seconds=how_late), self.first)
            self.messages.append(message(f"m{len(self.messages)}", created))

    @property
    def first(self) -> datetime:
        return self.messages[0].created if self.messages else self.clock()

    @rule(who=SESSIONS)
    def deliver(self, who: int) -> None:
        self.attempt(who)

    @rule(who=SESSIONS, wait=st.booleans(), named=st.booleans(), more=st.integers(0, 2))
    def call_begins(self, who: int, wait: bool, named: bool, more: int) -> None:
        self.messages_appear(0, more)
        arguments = {"message_id": self.messages[-1].id} if named and self.messages else {}
        session = self.sessions[who]
        self.attempt(who)
        _, cargo = self.runner.run(session.call_begins(wait=wait, **arguments))
        self.calls.append((session, cargo))

    @precondition(lambda self: self.calls)
    @rule(which=st.integers(0, 5), outcome=OUTCOMES)
    def call_ends(self, which: int, outcome: str) -> None:
        """A result that may have left gives cause for a repeat."""
        session, cargo = self.calls.pop(which % len(self.calls))
        if session in self.sessions:
            self.causes += outcome == "in doubt"
            self.runner.run(session.call_ends(cargo, outcome))

    @rule(who=SESSIONS, failure=FAILURES, at=st.integers(0, 2), more=MORE, calling=st.booleans())
    def hand_over_with_a_failing_write(self, who: int, failure: str, at: int, more: int, calling: bool) -> None:
        self.messages_appear(0, more)
        store = self.sessions[who].store
        countdown = [at]

        def hook(when: str) -> None:
            if countdown[0] == 0 and when == ("before" if failure in ("refused", "conflict") else "after"):
                countdown[0] = -1
                raise (ConcurrencyError if "conflict" in failure else StorageError)("injected")
            countdown[0] -= when == "after"

        store.before_write = lambda key: hook("before")
        store.after_write = lambda key: hook("after")
        self.attempt(who)
        if calling:
            self.runner.run(self.sessions[who].call(wait=True))
        store.before_write = store.after_write = None

    @rule(who=SESSIONS, point=POINTS, at=st.integers(0, 1), more=MORE)
    def deliver_and_die(self, who: int, point: str, at: int, more: int) -> None:
        self.messages_appear(0, more)
        session = self.sessions[who]
        countdown = [at]

        def hook(*_: object) -> None:
            countdown[0] -= 1
            if countdown[0] == -1:
                session.store.broken = session.pipe.closed = True
                session.pipe.before = session.pipe.after = None
                raise Crash

        where, what = point.split()
        if what == "write":
            setattr(session.store, f"{where}_write", hook)
        else:
            setattr(session.pipe, where, hook)
        self.attempt(who)
        session.store.before_write = session.store.after_write = None
        self.replace(who)

    @rule(who=SESSIONS)
    def die(self, who: int) -> None:
        self.replace(who)

    @rule(who=SESSIONS, at=st.integers(0, 2), more=MORE)
    def deliver_while_the_pipe_closes(self, who: int, at: int, more: int) -> None:
        self.messages_appear(0, more)
        pipe = self.sessions[who].pipe
        before = len(pipe.pushed)

        def close() -> None:
            pipe.closed = len(pipe.pushed) - before > at

        pipe.before = pipe.after = close
        self.attempt(who)
        pipe.before = pipe.after = None
        pipe.closed = False

    @rule(who=SESSIONS, ready=st.booleans())
    def host_reads_or_not(self, who: int, ready: bool) -> None:
        self.sessions[who].pipe.ready = ready

    @rule(who=SESSIONS)
    def send(self, who: int) -> None:
        identifier = f"own{len(self.sent)}"
        self.sent.append(identifier)
        self.runner.run(self.sessions[who].inbox.spoke(CHAT, identifier))
        self.messages.append(message(identifier, self.clock.advance(1)))

    @rule(who=SESSIONS)
    def records_are_forgotten(self, who: int) -> None:
        self.sessions[who].inbox.forget_records()

    @rule(who=SESSIONS)
    def confirmations_are_written(self, who: int) -> None:
        self.runner.run(self.sessions[who].confirmations_are_written())

    @precondition(lambda self: len(self.messages) > 2)
    @rule(calling=st.booleans())
    def all_at_once(self, calling: bool) -> None:
        async def race() -> None:
            work = [session.deliver(*self.messages) for session in self.sessions]
            calls = [session.call(wait=True) for session in self.sessions] if calling else []
            await asyncio.gather(*work, *calls)

        self.runner.run(race())

    @invariant()
    def one_session_is_handed_a_message_once(self) -> None:
        if self.causes:
            return
        for session in self.all:
            ids = [identifier for identifier, _ in session.handed]
            assert len(ids) == len(set(ids))

    @invariant()
    def repeats_are_marked_and_have_a_cause(self) -> None:
        handed = [one for session in self.all for one in session.handed]
        unmarked = [identifier for identifier, marked in handed if not marked]
        assert len(unmarked) == len(set(unmarked))
        assert self.causes or not any(marked for _, marked in handed)
        assert not {identifier for identifier, _ in handed} & set(self.sent)

    @invariant()
    def the_floor_covers_only_what_was_handed_over(self) -> None:
        if not (Path(self.folder.name) / record_key(CHAT)).exists():
            return
        record = self.all[0].record()
        done = {identifier for session in self.all for identifier, _ in self.seen(session)} | set(self.sent)
        for item in self.messages:
            if item.created <= record.floor:
                assert item.id in done
        assert all(created > record.floor for created in record.ids.values())
        assert all(created > record.floor for times in record.unconfirmed.values() for created in times.values())

    def seen(self, session: Session) -> list[tuple[str, bool]]:
        """What a host was handed, a digest opened into what it stands for."""
        return session.handed + [(identifier, True) for identifier in session.digested]

    def attempt(self, who: int) -> None:
        with suppress(StorageError, Crash):
            self.runner.run(self.sessions[who].deliver(*self.messages))

    def replace(self, who: int) -> None:
        self.causes += 1
        self.runner.run(self.sessions[who].die())
        self.sessions[who] = self.new(who)

    async def finish(self) -> None:
        for session, cargo in self.calls:
            if session in self.sessions:
                await session.call_ends(cargo, "lost")
        for _ in range(3):
            for session in self.sessions:
                session.pipe.ready = True
                self.clock.advance(70)
                await session.deliver(*self.messages)
                await session.call()
                await session.call()

    def teardown(self) -> None:
        try:
            if hasattr(self, "sessions"):
                self.runner.run(self.finish())
                seen = {identifier for session in self.all for identifier, _ in self.seen(session)}
                lost = {item.id for item in self.messages} - seen - set(self.sent)
                assert not lost
                self.repeats_are_marked_and_have_a_cause()
                self.the_floor_covers_only_what_was_handed_over()
                for session in self.sessions:
                    self.runner.run(session.confirmations_are_written())
                assert self.all[0].record().unconfirmed == {}
        finally:
            for session in self.all:
                self.runner.run(session.close())
            self.runner.close()
            self.folder.cleanup()


TestDelivery = Delivery.TestCase
TestDelivery.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
