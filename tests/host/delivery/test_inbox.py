"""Delivery, case by case, on real files."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

from entrabot_host.delivery import lease
from entrabot_host.delivery.record import INSTALLATION_KEY, record_key
from entrabot_host.errors import GraphForbidden, GraphUnavailable, StorageError
from entrabot_host.host import Conversation
from tests.host.delivery.parts import CHAT, START, Clock, Crash, Session, message

New = Callable[[], Session]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def new(tmp_path: Path, clock: Clock) -> AsyncIterator[New]:
    made: list[Session] = []

    def make() -> Session:
        made.append(Session(tmp_path, clock))
        return made[-1]

    yield make
    for session in made:
        await session.close()


@pytest.fixture
async def one(new: New) -> Session:
    session = new()
    await session.inbox.position(CHAT)
    return session


async def test_new_messages_are_pushed_once_oldest_first_and_recorded(one: Session, clock: Clock) -> None:
    first, second = message("1", clock.advance(1)), message("2", clock.advance(1), sender_id="bob", sender_name="Bob")
    assert await one.deliver(second, first) == (["1", "2"], [])
    assert await one.deliver(first, second) == ([], [])
    assert one.pipe.ids == ["1", "2"]
    assert [meta["sponsor"] for meta in one.pipe.pushed] == ["yes", "no"]
    assert one.told == [("1", "ann", True), ("2", "", True)]
    record = one.record()
    assert list(record.ids) == ["1", "2"]
    assert (record.owner, record.in_hand, record.epoch) == ("", {}, 1)
    assert record.preferred == one.inbox.session_id


async def test_a_quiet_beat_touches_no_storage(one: Session, clock: Clock) -> None:
    old = message("1", clock.advance(1))
    await one.deliver(old)
    reads, writes = one.store.reads, one.store.writes
    for _ in range(5):
        clock.advance(100)
        await one.inbox.position(CHAT)
        assert await one.deliver(old) == ([], [])
        assert await one.deliver() == ([], [])
    assert (one.store.reads, one.store.writes) == (reads, writes)


async def test_the_floor_moves_in_memory_and_is_recorded_with_the_next_write(one: Session, clock: Clock) -> None:
    recorded = one.record().floor
    clock.advance(3600)
    await one.deliver()
    position = await one.inbox.position(CHAT)
    assert position.floor == clock() - lease.TRAIL
    assert one.record().floor == recorded
    await one.deliver(message("1", clock.advance(10)))
    assert one.record().floor == clock() - lease.TRAIL


async def test_the_floor_never_passes_what_was_not_handed_over(one: Session, clock: Clock) -> None:
    waiting = message("1", clock.advance(1))
    one.pipe.ready = False
    clock.advance(7200)
    assert await one.deliver(waiting) == ([], ["1"])
    assert (await one.inbox.position(CHAT)).floor < waiting.created
    one.pipe.ready = True
    assert await one.deliver(waiting) == (["1"], [])
    assert one.record().floor == clock() - lease.TRAIL


async def test_ids_below_the_floor_are_forgotten(one: Session, clock: Clock) -> None:
    for number in range(60):
        await one.deliver(message(str(number), clock.advance(30)))
    assert list(one.record().ids) == [str(number) for number in range(50, 60)]


async def test_a_promise_about_the_future_is_not_believed(one: Session, clock: Clock) -> None:
    await one.inbox.deliver(CHAT, [], clock() + timedelta(days=1))
    assert (await one.inbox.position(CHAT)).floor <= clock()
    assert await one.deliver(message("1", clock.advance(1))) == (["1"], [])


async def test_late_visible_edited_and_equal_times(one: Session, clock: Clock) -> None:
    at = clock.advance(100)
    assert await one.deliver(message("1", at), message("2", at), message("2", at)) == (["1", "2"], [])
    late = message("3", at - timedelta(seconds=60))
    clock.advance(120)
    await one.deliver()
    assert await one.deliver(late, message("1", at, "edited")) == (["3"], [])


async def test_a_burst_goes_in_batches(one: Session, clock: Clock) -> None:
    messages = [message(f"{number:03}", clock.advance(1)) for number in range(45)]
    assert await one.deliver(*messages) == ([item.id for item in messages], [])
    assert one.pipe.ids == [item.id for item in messages]
    assert one.record().epoch == 3
    assert {live for _, _, live in one.told} == {True}


async def test_a_backlog_comes_as_one_digest_and_is_not_live(one: Session, clock: Clock) -> None:
    messages = [message(f"{number:03}", clock.advance(10), f"text {number}", sender_name="Ann") for number in range(45)]
    handed, left = await one.deliver(*messages)
    assert handed == [item.id for item in messages]
    assert left == []
    assert one.record().epoch == 2
    assert [live for _, _, live in one.told] == [False] * 32 + [True] * 13
    assert one.pipe.ids == [item.id for item in messages[31:]]
    digest = one.pipe.contents[0]
    assert one.pipe.pushed[0]["messages"] == "32"
    assert one.pipe.pushed[0]["sponsor"] == "no"
    assert "32 messages" in digest
    assert "Ann (32)" in digest
    assert "between 2026-11-30 12:00 UTC and 2026-11-30 12:05 UTC" in digest
    assert "read_teams_messages" in digest
    assert "text 31" in digest
    assert "text 30" not in digest
    assert await one.deliver(*messages) == ([], [])


async def test_five_old_messages_are_no_backlog(one: Session, clock: Clock) -> None:
    old = [message(str(number), clock.advance(1)) for number in range(5)]
    clock.advance(3600)
    assert await one.deliver(*old) == (["0", "1", "2", "3", "4"], [])
    assert one.pipe.ids == ["0", "1", "2", "3", "4"]
    assert {live for _, _, live in one.told} == {False}


# --- where a chat starts -----------------------------------------------------------------------------------------


async def test_a_first_message_in_a_new_chat_is_heard(new: New, clock: Clock) -> None:
    session = new()
    await session.inbox.position(CHAT)
    created = clock.advance(3600)
    chat = Conversation.chat("19:new")
    await session.inbox.position(chat, created)
    handed, _ = await session.deliver(
        message("before", created - timedelta(seconds=1)), message("first", created), chat=chat
    )
    assert handed == ["first"]


async def test_an_old_groups_history_is_not_heard_and_the_start_is_kept(new: New, clock: Clock) -> None:
    session = new()
    created = START - timedelta(days=400)
    position = await session.inbox.position(CHAT, created)
    assert position.floor < START <= position.floor + timedelta(seconds=1)
    clock.advance(3 * 86400)
    missed = message("1", START + timedelta(days=1))
    other = Conversation.chat("19:other")
    assert (await session.inbox.position(other, created)).floor > missed.created
    assert await new().deliver(missed) == (["1"], [])
    assert json.loads((session.folder / INSTALLATION_KEY).read_bytes())["first_run"] == START.isoformat()


async def test_the_predecessors_cursor_is_read_once_and_never_written(new: New, clock: Clock, tmp_path: Path) -> None:
    last = START - timedelta(days=2)
    path = tmp_path / "chat_cursors" / "19%3Aone%40unq.gbl.spaces.json"
    path.parent.mkdir()
    cursor = {"last_ts": last.isoformat().replace("+00:00", "Z"), "seen_ids_tail": ["a", "b"], "bootstrapped": True}
    path.write_text(json.dumps(cursor), encoding="utf-8")
    session = new()
    handed, _ = await session.deliver(
        message("a", last), message("b", last - timedelta(seconds=9)), message("c", last + timedelta(seconds=1))
    )
    assert handed == ["c"]
    path.write_text("{", encoding="utf-8")
    assert (await new().inbox.position(CHAT)).floor > last
    assert path.read_text(encoding="utf-8") == "{"


@pytest.mark.parametrize("content", ["{", "[]", '{"bootstrapped": false, "last_ts": "2020-01-01"}', '{"last_ts": 3}'])
async def test_a_cursor_without_sense_starts_afresh(new: New, tmp_path: Path, content: str) -> None:
    path = tmp_path / "chat_cursors" / "19%3Aone%40unq.gbl.spaces.json"
    path.parent.mkdir()
    path.write_text(content, encoding="utf-8")
    assert (await new().inbox.position(CHAT)).floor > START - timedelta(seconds=1)


async def test_a_record_without_sense_delivers_nothing(one: Session, clock: Clock) -> None:
    (one.folder / record_key(CHAT)).write_bytes(b"{}")
    one.inbox.forget_records()
    with pytest.raises(StorageError, match="makes no sense"):
        await one.deliver(message("1", clock.advance(1)))
    assert one.pipe.ids == []


# --- failures ----------------------------------------------------------------------------------------------------


async def test_a_closed_pipe_claims_nothing_more_and_loses_nothing(one: Session, clock: Clock) -> None:
    one.pipe.closed = True
    waiting = message("1", clock.advance(1))
    assert await one.deliver(waiting) == ([], ["1"])
    record = one.record()
    assert (record.owner, record.in_hand, record.ids) == ("", {}, {})
    one.pipe.ready = False
    epoch = record.epoch
    await one.deliver(waiting)
    assert one.record().epoch == epoch


async def test_a_pipe_that_closes_half_way_keeps_the_rest(one: Session, new: New, clock: Clock) -> None:
    def close() -> None:
        one.pipe.closed, one.pipe.ready = True, False

    one.pipe.after = close
    messages = [message(str(number), clock.advance(1)) for number in range(3)]
    assert await one.deliver(*messages) == (["0"], ["1", "2"])
    two = new()
    assert await two.deliver(*messages) == ([], ["1", "2"])
    clock.advance(8)
    assert await two.deliver(*messages) == (["1", "2"], [])
    assert two.pipe.repeated == []


async def test_a_record_that_cannot_be_written_is_written_later_without_another_push(
    one: Session, clock: Clock
) -> None:
    def break_store() -> None:
        one.store.broken = True

    one.pipe.after = break_store
    messages = [message("1", clock.advance(1))]
    with pytest.raises(StorageError):
        await one.deliver(*messages)
    assert one.pipe.ids == ["1"]
    assert one.told == [("1", "ann", True)]
    one.store.broken, one.pipe.after = False, None
    assert await one.deliver(*messages, message("2", clock.advance(1))) == (["2"], [])
    assert one.pipe.ids == ["1", "2"]
    assert list(one.record().ids) == ["1", "2"]


async def test_no_message_waits_to_bind_for_what_is_written_of_another(one: Session, clock: Clock) -> None:
    written = asyncio.Event()
    one.after_told = written.wait
    first, second = message("1", clock.advance(1), sender_id="bob"), message("2", clock.advance(1))
    delivering = asyncio.create_task(one.deliver(first, second))
    with anyio.fail_after(5):
        while len(one.told) < 2:
            await asyncio.sleep(0.01)
    assert one.told == [("1", "", True), ("2", "ann", True)]
    assert not delivering.done()
    written.set()
    assert await delivering == (["1", "2"], [])


async def test_what_is_written_of_a_backlog_is_written_one_by_one(one: Session, clock: Clock) -> None:
    written = asyncio.Event()
    one.after_told = written.wait
    old = [message(str(number), clock.advance(1)) for number in range(3)]
    clock.advance(600)
    delivering = asyncio.create_task(one.deliver(*old, message("3", clock.advance(1))))
    with anyio.fail_after(5):
        while len(one.told) < 2:
            await asyncio.sleep(0.01)
    assert one.told == [("0", "ann", False), ("3", "ann", True)]
    written.set()
    await delivering
    assert one.told == [("0", "ann", False), ("3", "ann", True), ("1", "ann", False), ("2", "ann", False)]


async def test_a_fenced_session_does_not_end_the_lease_of_the_other(one: Session, new: New, clock: Clock) -> None:
    two = new()
    old = message("1", clock.advance(1))
    pushing, go_on = asyncio.Event(), asyncio.Event()
    tasks: list[asyncio.Task[tuple[list[str], list[str]]]] = []

    async def hang() -> None:
        pushing.set()
        await go_on.wait()

    async def fence() -> None:
        one.age_record(60)
        two.pipe.before = hang
        tasks.append(asyncio.create_task(two.deliver(old)))
        await pushing.wait()

    one.pipe.after = fence
    async with asyncio.timeout(15):
        assert await one.deliver(old) == (["1"], [])
        record = one.record()
        assert (record.owner, list(record.in_hand), record.epoch) == (two.inbox.session_id, ["1"], 2)
        go_on.set()
        assert await tasks[0] == (["1"], [])
    assert two.pipe.repeated == ["1"]


async def test_a_claim_that_landed_although_it_failed_is_claimed_again_unmarked(one: Session, clock: Clock) -> None:
    def fail(key: str) -> None:
        one.store.after_write = None
        raise StorageError("the answer was lost")

    one.store.after_write = fail
    messages = [message("1", clock.advance(1))]
    with pytest.raises(StorageError):
        await one.deliver(*messages)
    assert one.record().owner == one.inbox.session_id
    assert await one.deliver(*messages) == (["1"], [])
    assert one.pipe.repeated == []


async def test_a_send_during_a_push_is_merged(one: Session, clock: Clock) -> None:
    one.pipe.after = lambda: one.inbox.spoke(CHAT, "mine")
    assert await one.deliver(message("1", clock.advance(1))) == (["1"], [])
    record = one.record()
    assert (list(record.ids), record.sent, record.owner) == (["1"], ("mine",), "")


async def test_death_between_push_and_record_hands_over_exactly_that_again(
    one: Session, new: New, clock: Clock
) -> None:
    def die() -> None:
        one.store.broken = True
        raise Crash

    one.pipe.after = die
    old = [message("1", clock.advance(1)), message("2", clock.advance(1))]
    with pytest.raises(Crash):
        await one.deliver(*old)
    await one.close()
    two = new()
    assert await two.deliver(*old, message("3", clock.advance(1))) == (["1", "2", "3"], [])
    assert two.pipe.repeated == ["1", "2"]
    assert [live for _, _, live in two.told] == [False, False, True]


async def test_what_was_left_behind_stays_marked_until_its_text_comes(one: Session, new: New, clock: Clock) -> None:
    def die() -> None:
        one.store.broken = True
        raise Crash

    one.pipe.after = die
    lost = message("1", clock.advance(1))
    with pytest.raises(Crash):
        await one.deliver(lost)
    await one.close()
    two = new()
    clock.advance(1)
    assert await two.inbox.deliver(CHAT, [message("2", clock())], START)
    assert list(two.record().in_hand) == ["1"]
    await two.close()
    three = new()
    assert await three.deliver(lost) == (["1"], [])
    assert three.pipe.repeated == ["1"]
    assert three.record().in_hand == {}


async def test_another_sessions_live_lease_is_respected_until_it_runs_out(one: Session, new: New, clock: Clock) -> None:
    two = new()
    await two.inbox.position(CHAT)
    seen: list[tuple[list[str], list[str]]] = []
    old = message("1", clock.advance(1))

    async def meanwhile() -> None:
        seen.append(await two.deliver(old))

    one.pipe.before = meanwhile
    assert await one.deliver(old) == (["1"], [])
    assert seen == [([], ["1"])]
    assert two.pipe.ids == []
    assert [item.message.id for item in await two.inbox.unseen(5)] == ["1"]
    assert await two.deliver(old) == ([], [])
    assert list(await two.inbox.unseen(5)) == []


async def test_a_stalled_owner_is_fenced_stops_pushing_and_records_later(one: Session, new: New, clock: Clock) -> None:
    two = new()
    await two.inbox.position(CHAT)
    messages = [message("1", clock.advance(1)), message("2", clock.advance(1))]

    async def sleep_a_night() -> None:
        clock.advance(9 * 3600)
        one.age_record(9 * 3600)
        assert await two.deliver(*messages) == (["1", "2"], [])

    one.pipe.after = sleep_a_night
    assert await one.deliver(*messages) == (["1"], [])
    assert one.pipe.ids == ["1"]
    assert two.pipe.repeated == ["1", "2"]
    assert await one.deliver(*messages) == ([], [])
    assert one.record().floor > messages[-1].created


async def test_what_a_fenced_session_pushed_is_recorded_without_another_push(
    one: Session, new: New, clock: Clock
) -> None:
    two = new()
    await two.inbox.position(CHAT)
    first, second = message("1", clock.advance(1)), message("2", clock.advance(1))

    async def fence() -> None:
        one.pipe.after = None
        one.age_record(60)
        two.pipe.closed = True  # it claims, and finds its host gone
        await two.deliver(first)

    one.pipe.after = fence
    assert await one.deliver(first) == (["1"], [])
    record = one.record()
    assert (record.epoch, list(record.ids), record.in_hand) == (2, ["1"], {})
    assert await one.deliver(first, second) == (["2"], [])
    assert one.pipe.ids == ["1", "2"]
    assert set(one.record().ids) == {"1", "2"}


async def test_a_push_that_hangs_is_cut_off_and_counts_as_a_repeat(
    one: Session, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "PUSH_SECONDS", 0.2)
    one.pipe.before = lambda: asyncio.sleep(60)
    old = message("1", clock.advance(1))
    assert await one.deliver(old) == ([], ["1"])
    one.pipe.before = None
    assert await one.deliver(old) == (["1"], [])
    assert one.pipe.repeated == ["1"]


async def test_a_cancelled_delivery_records_what_it_pushed(one: Session, clock: Clock) -> None:
    messages = [message("1", clock.advance(1)), message("2", clock.advance(1))]
    hanging = asyncio.Event()

    async def hang() -> None:
        if one.pipe.ids:
            hanging.set()
            await asyncio.sleep(60)

    one.pipe.before = hang
    task = asyncio.create_task(one.deliver(*messages))
    async with asyncio.timeout(10):
        await hanging.wait()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()
    record = one.record()
    assert (list(record.ids), record.owner, list(record.in_hand)) == (["1"], "", ["2"])


async def test_a_sponsor_check_that_fails_delivers_nothing_and_one_that_is_forbidden_proves_nobody(
    one: Session, clock: Clock
) -> None:
    async def unavailable(user_id: str, tenant: str) -> None:
        raise GraphUnavailable("no answer")

    async def forbidden(user_id: str, tenant: str) -> None:
        raise GraphForbidden("no permission", status=403)

    old = message("1", clock.advance(1))
    one.inbox._judge.__dict__["sponsor_of"] = unavailable
    with pytest.raises(GraphUnavailable):
        await one.deliver(old)
    assert one.record().epoch == 0
    one.inbox._judge.__dict__["sponsor_of"] = forbidden
    assert await one.deliver(old) == (["1"], [])
    assert one.pipe.pushed[0]["sponsor"] == "no"


# --- sending, waiting, what is unseen ----------------------------------------------------------------------------


async def test_what_was_sent_here_is_not_new_and_the_list_is_bounded(one: Session, new: New, clock: Clock) -> None:
    for number in range(60):
        await one.inbox.spoke(CHAT, f"mine{number}")
    two = new()
    position = await two.inbox.position(CHAT)
    assert {f"mine{number}" for number in range(10, 60)} == position.ids
    assert await two.deliver(message("mine59", clock.advance(1))) == ([], [])
    assert one.record().preferred == one.inbox.session_id


async def test_sending_before_the_first_look_does_not_decide_where_a_chat_starts(new: New, clock: Clock) -> None:
    session = new()
    await session.inbox.spoke(CHAT, "mine")
    added = clock.advance(5)
    position = await session.inbox.position(CHAT, added)
    assert position.ids == {"mine"}
    assert position.floor < added <= position.floor + timedelta(seconds=1)
    assert session.record().sent == ("mine",)


async def test_a_wait_is_cancelled_at_once(one: Session, clock: Clock) -> None:
    with anyio.move_on_after(0.05) as scope:
        await one.inbox.wait(None, clock(), 600)
    assert scope.cancelled_caught


async def test_unseen_is_what_waits_oldest_first(one: Session, clock: Clock) -> None:
    mail = Conversation.mail("agent@example.org")
    await one.inbox.position(mail, START)
    one.pipe.ready = False
    first, second, third = (message(str(number), clock.advance(1)) for number in range(3))
    await one.deliver(second, chat=mail)
    await one.deliver(first, third)
    seen = await one.inbox.unseen(2)
    assert [(item.conversation, item.message.id, item.sponsor) for item in seen] == [
        (CHAT, "0", True),
        (mail, "1", True),
    ]
    one.pipe.ready = True
    await one.deliver(first, third)
    assert [(item.conversation, item.message.id) for item in await one.inbox.unseen(9)] == [(mail, "1")]
    assert (one.folder / record_key(mail)).exists()


async def test_a_later_session_never_starts_a_mailbox_anew(one: Session, clock: Clock) -> None:
    mailbox = Conversation.mail("agent@contoso.example")
    first = await one.inbox.position(mailbox, start=clock())
    clock.advance(60)

    assert (await one.inbox.position(mailbox, start=clock())).floor == first.floor
