"""The lease against real files, with deaths, lost writes and lost answers anywhere: nothing lost, repeats marked."""

import asyncio
import tempfile
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from entrabot_host.delivery.record import record_key
from entrabot_host.errors import ConcurrencyError, StorageError
from entrabot_host.host import Message
from tests.host.delivery.parts import CHAT, Clock, Crash, Session, message

SESSIONS = st.integers(0, 1)
FAILURES = st.sampled_from(["refused", "landed", "landed, conflict", "conflict"])
MORE = st.integers(1, 3)
POINTS = st.sampled_from(["before write", "after write", "before push", "after push"])


class Delivery(RuleBasedStateMachine):
    """Two processes on one folder. A dead one is followed by a new one."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = Clock()
        self.messages: list[Message] = []
        self.all: list[Session] = []
        self.crashes = 0
        self.sent: list[str] = []

    def new(self) -> Session:
        session = Session(Path(self.folder.name), self.clock)
        self.all.append(session)
        return session

    @initialize()
    def begin(self) -> None:
        self.sessions = [self.new(), self.new()]
        self.runner.run(self.sessions[0].inbox.position(CHAT, self.clock()))

    @rule(seconds=st.integers(1, 400))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(seconds)

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

    @rule(who=SESSIONS, failure=FAILURES, at=st.integers(0, 2), more=MORE)
    def deliver_with_a_failing_write(self, who: int, failure: str, at: int, more: int) -> None:
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
        own = message(identifier, self.clock.advance(1))
        self.messages.append(own)

    @rule(who=SESSIONS)
    def records_are_forgotten(self, who: int) -> None:
        self.sessions[who].inbox.forget_records()

    @precondition(lambda self: len(self.messages) > 2)
    @rule(who=SESSIONS)
    def both_at_once(self, who: int) -> None:
        async def race() -> None:
            await asyncio.gather(*(session.deliver(*self.messages) for session in self.sessions))

        self.runner.run(race())

    @invariant()
    def repeats_are_marked_and_have_a_cause(self) -> None:
        seen: set[str] = set()
        for session in self.all:
            ids = session.pipe.ids
            assert len(ids) == len(set(ids)), "one session pushed a message twice"
        for meta in self.pushes():
            if meta["message_id"] in seen:
                assert meta.get("redelivered") == "yes", meta
            seen.add(meta["message_id"])
        repeats = len(self.pushes()) - len(seen)
        assert repeats == 0 or self.crashes
        assert not [meta for meta in self.pushes() if meta.get("redelivered") == "yes"] or self.crashes
        assert not seen & set(self.sent)

    @invariant()
    def the_floor_covers_only_what_was_handed_over(self) -> None:
        if not (Path(self.folder.name) / record_key(CHAT)).exists():
            return
        record = self.all[0].record()
        done = {meta["message_id"] for meta in self.pushes()} | set(self.sent)
        for item in self.messages:
            if item.created <= record.floor:
                assert item.id in done
        assert all(created > record.floor for created in record.ids.values())

    def pushes(self) -> list[dict[str, str]]:
        """All pushes; within one session in order, sessions in the order of their starts."""
        return sorted(
            (meta for session in self.all for meta in session.pipe.pushed), key=lambda meta: meta.get("redelivered", "")
        )

    def attempt(self, who: int) -> None:
        with suppress(StorageError, Crash):
            self.runner.run(self.sessions[who].deliver(*self.messages))

    def replace(self, who: int) -> None:
        self.crashes += 1
        self.runner.run(self.sessions[who].close())
        self.sessions[who] = self.new()

    def teardown(self) -> None:
        for session in getattr(self, "sessions", []):
            session.pipe.ready = True
            self.runner.run(session.deliver(*self.messages))
            self.runner.run(session.deliver(*self.messages))
        handed = {meta["message_id"] for meta in self.pushes()}
        lost = {item.id for item in self.messages} - handed - set(self.sent)
        self.repeats_are_marked_and_have_a_cause()
        self.the_floor_covers_only_what_was_handed_over()
        for session in self.all:
            self.runner.run(session.close())
        self.runner.close()
        self.folder.cleanup()
        assert not lost


TestDelivery = Delivery.TestCase
TestDelivery.settings = settings(
    max_examples=30, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
