"""The record's stored form, and the lease's steps."""

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrabot_host.delivery import lease
from entrabot_host.delivery.record import Record, dump, parse, record_key
from entrabot_host.errors import StorageError
from entrabot_host.host import Conversation

TIMES = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
IDS = st.dictionaries(st.text(max_size=8), TIMES, max_size=4)
RECORDS = st.builds(
    Record,
    floor=TIMES,
    ids=IDS,
    epoch=st.integers(0, 10**6),
    owner=st.text(max_size=8),
    in_hand=IDS,
    unconfirmed=st.dictionaries(st.text(max_size=8), IDS, max_size=2),
    sent=st.lists(st.text(max_size=8), max_size=4).map(tuple),
    preferred=st.text(max_size=8),
    extra=st.just({"of_a_later_version": {"x": [1]}}),
)


@given(RECORDS)
def test_what_is_stored_is_read(record: Record) -> None:
    again = parse(dump(record), "key")
    assert again == record
    assert list(again.in_hand) == list(record.in_hand)


def test_missing_fields_have_defaults_and_times_without_a_zone_are_utc() -> None:
    record = parse(b'{"floor": "2026-11-30T12:00:00", "new": 1}', "key")
    assert record == Record(floor=datetime(2026, 11, 30, 12, tzinfo=UTC), extra={"new": 1})
    assert json.loads(dump(record))["new"] == 1
    zoned = parse(b'{"floor": "2026-11-30T12:00:00-07:00"}', "key").floor
    assert zoned == datetime(2026, 11, 30, 12, tzinfo=timezone(timedelta(hours=-7)))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b"null",
        b'{"floor": 1}',
        b'{"floor": "x"}',
        b"\xff",
        b'{"floor": "2026-01-01", "ids": []}',
        b'{"floor": "2026-01-01", "unconfirmed": {"1": "2026-01-01"}}',
    ],
)
def test_nonsense_is_an_error_that_names_the_file(data: bytes) -> None:
    with pytest.raises(StorageError, match=r"chats/x\.json"):
        parse(data, "chats/x.json")


def test_keys() -> None:
    assert record_key(Conversation.chat("19:a@thread.v2")) == "chats/19%3Aa%40thread.v2.json"
    assert record_key(Conversation.mail("Agent@Example.org")) == "mail/Agent%40Example.org.json"


@given(TIMES, TIMES, st.lists(TIMES))
def test_the_floor_goes_up_only_and_below_what_is_open(
    floor: datetime, covered: datetime, still: list[datetime]
) -> None:
    moved = lease.next_floor(floor, covered, still)
    assert moved >= floor
    if moved > floor:
        assert moved <= covered - lease.TRAIL
        assert all(moved < created for created in still)


def test_a_lease_lasts_thirty_seconds_and_dies_with_its_owner() -> None:
    record = Record(floor=datetime(2026, 1, 1, tzinfo=UTC), owner="other")
    assert lease.is_held(record, "me", 29.9, True)
    assert not lease.is_held(record, "me", 30.0, True)
    assert not lease.is_held(record, "me", 1.0, False)
    assert not lease.is_held(record, "other", 1.0, True)
    assert lease.PUSH_SECONDS + 5 < lease.LEASE_SECONDS
    assert timedelta(seconds=lease.LEASE_SECONDS) < lease.TRAIL
