"""The file of promises, and due times."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from entrabot_promises.due import check_due, deadline, iso
from entrabot_promises.log import Log, Promise
from hypothesis import given, settings
from hypothesis import strategies as st

from entrabot_host import InvalidArgument

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
TEXT = st.text(max_size=20)
PROMISES = st.builds(
    Promise,
    id=st.sampled_from(["a", "b", "c", "d", "ü"]),
    created_at=st.just("2026-01-01T00:00:00Z"),
    chat_id=TEXT,
    description=TEXT,
    due_by=st.sampled_from(["", "2026-05-01", "2026-07-01T10:00:00Z"]),
    status=st.sampled_from(["open", "resolved"]),
    resolved_at=st.sampled_from(["", "2026-05-31T00:00:00Z", "2020-01-01T00:00:00Z", "2020-01-01T00:00:00", "?"]),
    resolution=TEXT,
    extra=st.dictionaries(st.sampled_from(["later", "more"]), st.integers(), max_size=2),
)
GARBAGE = st.sampled_from([b'{"id": "a", "chat_', b"\xff\xfe", b"[]", b'{"id": 3}', b"null", b"{}"])
LINES = st.lists(st.one_of(PROMISES.map(Promise.line), GARBAGE), max_size=25)


@settings(deadline=None)
@given(PROMISES)
def test_a_line_reads_back(promise: Promise) -> None:
    assert Log.parse(promise.line() + b"\n").promises() == {promise.id: promise}
    fields = json.loads(promise.line())
    assert all(fields[name] for name in fields if name not in promise.extra)


@settings(deadline=None)
@given(LINES)
def test_the_last_line_of_an_id_counts_and_garbage_says_nothing(lines: list[bytes]) -> None:
    log = Log.parse(b"\n".join(lines))
    expected: dict[str, Promise] = {}
    for line in lines:
        expected.update(Log((line,)).promises())
    assert log.promises() == expected
    assert Log.parse(log.dump()) == log


@settings(deadline=None)
@given(LINES, st.integers(1, 100))
def test_compaction_loses_no_open_promise_and_no_line_it_does_not_understand(lines: list[bytes], days: int) -> None:
    log = Log.parse(b"\n".join(lines))
    before, compacted = log.promises(), log.compacted(NOW, days)
    after = compacted.promises()
    assert {key: value for key, value in before.items() if value.is_open} == {
        key: value for key, value in after.items() if value.is_open
    }
    assert all(after[key] == before[key] for key in after)
    gone = before.keys() - after.keys()
    assert all(before[key].resolved_at.startswith("2020") for key in gone) or days < 2
    assert compacted.unreadable() == log.unreadable()
    assert compacted.compacted(NOW, days) == compacted


def test_history_goes_after_a_while() -> None:
    old = Promise(id="a", created_at="", chat_id="c", description="d", status="resolved", resolved_at="2026-01-01")
    new = Promise(id="b", created_at="", chat_id="c", description="d", status="resolved", resolved_at=iso(NOW))
    owed = Promise(id="c", created_at="", chat_id="c", description="d", due_by="2020-01-01")
    log = Log((old.line(), new.line(), owed.line()))
    assert list(log.compacted(NOW, 30).promises()) == ["b", "c"]


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("", ""),
        ("  ", ""),
        ("2026-06-01", "2026-06-01"),
        ("2026-06-02T10:00", "2026-06-02T10:00:00Z"),
        ("2026-06-02 10:00:00", "2026-06-02T10:00:00Z"),
        ("2026-06-02T10:00:00.5z", "2026-06-02T10:00:00Z"),
        ("2026-06-02T10:00:00+02:00", "2026-06-02T08:00:00Z"),
        ("2026-06-02T10:00-0700", "2026-06-02T17:00:00Z"),
    ],
)
def test_due_times(text: str, stored: str) -> None:
    assert check_due(text, NOW) == stored


@pytest.mark.parametrize(
    "text",
    [
        *("tomorrow", "2026-13-01", "2026-06-31", "06/01/2026", "2026-W23-1", "20260602", "2026-06-02T25:00"),
        *("2026-06-02T10", "٢٠٢٦-06-02", "9999-12-31T23:59:00-10:00"),
    ],
)
def test_other_forms_are_refused_with_the_forms(text: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        check_due(text, NOW)
    assert "2026-12-24T17:00:00Z" in refused.value.remedy
    assert text not in refused.value.message


@pytest.mark.parametrize("text", ["2026-05-30", "2026-06-01T11:00:00Z", "0001-01-01"])
def test_the_past_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="past"):
        check_due(text, NOW)


def test_a_day_lasts_as_long_as_it_does_anywhere() -> None:
    assert check_due("2026-06-01", datetime(2026, 6, 2, 11, 0, tzinfo=UTC)) == "2026-06-01"


@settings(deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_taken_or_refused(text: str) -> None:
    assert deadline(text) is None or deadline(text).tzinfo is UTC  # type: ignore[union-attr]


def test_overdue() -> None:
    def due(text: str, **more: str) -> bool:
        return Promise(id="a", created_at="", chat_id="c", description="d", due_by=text, **more).is_overdue(NOW)

    assert due("2026-05-31")
    assert not due("2026-06-01")
    assert due(iso(NOW - timedelta(seconds=1)))
    assert not due(iso(NOW + timedelta(seconds=1)))
    assert not due("2026-05-31", status="resolved")
    assert not due("")
    assert not due("someday")
