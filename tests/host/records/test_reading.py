"""Reading the interaction log: the newest first, what cannot match skipped, torn and strange lines passed over."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrabot_host.records import reading
from entrabot_host.records.interactions import InteractionLog
from entrabot_host.records.reading import Search, Wanted
from entrabot_host.storage.backend import MemoryBackend
from entrabot_host.storage.local import LocalBackend

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
WEEK = NOON - timedelta(days=7)


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncIterator[LocalBackend]:
    backend = LocalBackend(tmp_path)
    yield backend
    await backend.aclose()


@pytest.fixture
def log(backend: LocalBackend) -> InteractionLog:
    async def source() -> MemoryBackend:
        return backend

    return InteractionLog(source)


def line(number: int, when: datetime, **more: Any) -> dict[str, Any]:
    return {"id": str(number), "ts": when.isoformat(), "direction": "inbound", "sender": "Ann", "summary": "s", **more}


async def put(backend: LocalBackend, lines: list[dict[str, Any]], *, raw: bytes = b"") -> None:
    by_day: dict[str, list[dict[str, Any]]] = {}
    for one in lines:
        by_day.setdefault(one["ts"][:10], []).append(one)
    for day, ones in by_day.items():
        text = "".join(json.dumps(one) + "\n" for one in ones)
        await backend.write(f"interactions/{day}.jsonl", text.encode() + raw)


def wanted(**filters: Any) -> Wanted:
    return Wanted(**{"since": WEEK, "until": NOON + timedelta(days=1), **filters})


async def found(log: InteractionLog, limit: int = 10, **filters: Any) -> list[str]:
    return [one["id"] for one in await log.read(wanted(**filters), limit)]


async def test_the_newest_come_first_over_several_days(backend: LocalBackend, log: InteractionLog) -> None:
    await put(backend, [line(number, NOON - timedelta(hours=20 * number)) for number in range(9)][::-1])
    assert await found(log) == [str(number) for number in range(9)]
    assert await found(log, limit=3) == ["0", "1", "2"]
    assert await found(log, since=NOON - timedelta(hours=40)) == ["0", "1", "2"]
    assert await found(log, until=NOON - timedelta(hours=40)) == ["3", "4", "5", "6", "7", "8"]


async def test_filters_meet_both_directions(backend: LocalBackend, log: InteractionLog) -> None:
    await put(
        backend,
        [
            line(1, NOON, metadata={"chat_id": "19:a@thread.v2"}),
            line(2, NOON, direction="outbound", sender="agent", recipient="19:a@thread.v2", action="send"),
            line(3, NOON, metadata={"chat_id": "19:b@thread.v2"}, sender="bob@CONTOSO.com"),
            line(4, NOON, direction="outbound", sender="agent", recipient="19:b@thread.v2", action="send_card"),
            line(5, NOON, summary="19:a@thread.v2 send outbound bob@contoso.com"),
            line(6, NOON, metadata={"chat_id": "19:A@thread.v2"}, sender="Zoë \U0001f600"),
        ],
    )
    assert set(await found(log, chat_id="19:a@thread.v2")) == {"1", "2"}
    assert await found(log, chat_id="19:a@thread.v2", direction="outbound") == ["2"]
    assert await found(log, sender="Bob@contoso.COM") == ["3"]
    assert await found(log, sender="bob") == []
    assert await found(log, sender="zoë \U0001f600") == ["6"]
    assert await found(log, action="send") == ["2"]
    assert set(await found(log, direction="outbound")) == {"2", "4"}
    assert await found(log, chat_id="19:z@thread.v2") == []


async def test_strange_lines_are_passed_over(backend: LocalBackend, log: InteractionLog) -> None:
    strange = b'{"torn": \n[]\n"x"\nnull\n\xff\n{"ts": 7}\n{"ts": "never", "id": "9"}\n\n' + b"[" * 100_000
    await put(backend, [line(1, NOON), line(2, NOON, metadata="no object", sender=None)], raw=strange)
    assert set(await found(log)) == {"1", "2"}
    tally = await log.tally(NOON.date())
    assert tally.directions["inbound"] == 2


async def test_lines_of_another_writer_are_understood(backend: LocalBackend, log: InteractionLog) -> None:
    """Other escapes, other spaces, times with Z or without a zone."""
    text = (
        '{"id":"1","ts":"2026-03-10T11:00:00Z","direction":"inbound","sender":"Zoë","summary":"",'
        '"metadata":{"chat_id":"19:a\\u002fb@thread.v2"}}\n'
        '{"id":"2","ts":"2026-03-10T11:30:00","direction":"inbound","sender":"x","summary":""}\n'
    )
    await backend.write("interactions/2026-03-10.jsonl", text.encode())
    assert await found(log) == ["2", "1"]
    assert await found(log, chat_id="19:a/b@thread.v2") == ["1"]
    assert await found(log, sender="zoë") == ["1"]


async def test_lines_longer_than_a_block_are_whole(backend: LocalBackend, log: InteractionLog) -> None:
    lines = [line(number, NOON, summary="x" * 300_000 * (number % 2)) for number in range(12)]
    await put(backend, lines)
    assert sorted(await found(log, limit=100), key=int) == [str(number) for number in range(12)]


async def test_reading_stops_when_it_has_enough_and_at_the_time_asked_for(
    backend: LocalBackend, log: InteractionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [line(number, NOON - timedelta(minutes=20_000 - number), summary="x" * 500) for number in range(20_000)]
    await put(backend, lines)
    parsed: list[bytes] = []
    real = reading.parse

    def parse(text: bytes) -> dict[str, Any] | None:
        parsed.append(text)
        return real(text)

    monkeypatch.setattr(reading, "parse", parse)
    assert await found(log, limit=10, since=WEEK) == [str(number) for number in range(19_999, 19_989, -1)]
    assert len(parsed) < 12
    parsed.clear()
    assert await found(log, chat_id="19:absent@thread.v2") == []
    assert len(parsed) < 100  # one for each block, to see how old it is
    parsed.clear()
    assert len(await found(log, limit=1000, since=NOON - timedelta(hours=1))) == 60
    assert len(parsed) < 1000


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "sender": st.sampled_from(["Ann", "ann ", "Zoë", 'q"uo\\te', "\ud800", "a/b", ""]),
                "chat": st.sampled_from(["19:a@thread.v2", "19:b@thread.v2", "é", "a", "\n", '"']),
                "action": st.sampled_from(["", "send", 'x"y']),
                "direction": st.sampled_from(["inbound", "outbound"]),
            }
        ),
        max_size=12,
    ),
    st.fixed_dictionaries(
        {},
        optional={
            "sender": st.sampled_from(["ann", "ZOË", 'q"uo\\te', "a/b"]),
            "chat_id": st.sampled_from(["19:a@thread.v2", "é", "a", '"']),
            "action": st.sampled_from(["send", 'x"y']),
            "direction": st.sampled_from(["inbound", "outbound"]),
        },
    ),
)
def test_skipping_changes_no_answer(entries: list[dict[str, str]], filters: dict[str, str]) -> None:
    lines = [
        line(n, NOON, sender=e["sender"], action=e["action"], direction=e["direction"], metadata={"chat_id": e["chat"]})
        for n, e in enumerate(entries)
    ]
    search = Search(wanted(**filters), 100)
    search.look("".join(json.dumps(one) + "\n" for one in lines).encode())
    plain = [one["id"] for one in reversed(lines) if wanted(**filters).matches(one)]
    assert [one["id"] for one in search.found] == plain


async def test_old_days_are_deleted_and_nothing_else(backend: LocalBackend, log: InteractionLog) -> None:
    keys = [f"interactions/2026-03-{day:02d}.jsonl" for day in range(1, 11)]
    others = ["interactions/notes.jsonl", "interactions/2026-02-31.jsonl", "chats/2026-03-01.jsonl"]
    for key in [*keys, *others]:
        await backend.write(key, b"{}\n")
    assert await log.prune(datetime(2026, 3, 4).date()) == keys[:3]
    assert await backend.list() == sorted([*keys[3:], *others])
