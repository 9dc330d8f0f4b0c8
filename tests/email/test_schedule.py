"""When the summary is due, and that it is sent once a day."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from entrabot_email.settings import EmailSettings, parse_zone
from entrabot_email.summary import schedule
from entrabot_email.summary.schedule import KEY, SummaryClock, last_due, next_due
from hypothesis import given, settings
from hypothesis import strategies as st

from entrabot_host import EntrabotError, GraphUnavailable
from entrabot_host.storage.facet import OwnedKeys, StoreFacet
from entrabot_host.storage.local import LocalBackend
from tests.email.conftest import Mailing
from tests.email.parts import inbox_of, until


class Daily:
    """Makes and sends nothing, but counts."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.made: list[tuple[str, datetime, datetime]] = []
        self.failing: BaseException | None = None
        self.slow = 0.0

    async def make(self, day: str, start: datetime, end: datetime) -> Any:
        self.made.append((day, start, end))
        await asyncio.sleep(self.slow)
        return SimpleNamespace(day=day)

    async def recipient(self) -> str:
        return "alice@contoso.example"

    async def send(self, summary: Any) -> str:
        if self.failing is not None:
            raise self.failing
        self.sent.append(summary.day)
        return "alice@contoso.example"


class Wall:
    """A clock on the wall."""

    def __init__(self, *moment: int) -> None:
        self.now = datetime(*moment, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def clock(folder: Path, daily: Daily, wall: Wall, **settings: Any) -> SummaryClock:
    backend = LocalBackend(folder)

    async def source() -> LocalBackend:
        return backend

    async def audit(*_: Any, **__: Any) -> str:
        return "event"

    host: Any = SimpleNamespace(
        store=StoreFacet("email", source, OwnedKeys()), records=SimpleNamespace(audit=audit), log=None
    )
    given: Any = daily
    return SummaryClock(host, given, EmailSettings(**settings), now=wall)


def marker(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "plugins" / "email" / KEY).read_bytes()))


MOMENTS = st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)).map(lambda moment: moment.replace(tzinfo=UTC))
ZONES = st.sampled_from(["UTC-7", "UTC", "UTC+5:30", "Europe/Berlin", "America/New_York", "UTC+14"])


@settings(deadline=None)
@given(MOMENTS, st.integers(0, 23), ZONES)
def test_one_is_due_every_day_at_the_hour(now: datetime, hour: int, zone_name: str) -> None:
    zone = parse_zone(zone_name)
    last, following = last_due(now, hour, zone), next_due(now, hour, zone)
    assert last <= now < following
    assert last.hour == following.hour == hour
    assert timedelta(hours=22) < following.astimezone(UTC) - last.astimezone(UTC) < timedelta(hours=26)


async def test_the_first_day_has_none_and_the_next_has_one(tmp_path: Path) -> None:
    daily, wall = Daily(), Wall(2026, 6, 1, 12)
    beats = clock(tmp_path, daily, wall)
    await beats.beat()
    assert marker(tmp_path)["state"] == "begun"
    assert daily.made == []
    wall.now = datetime(2026, 6, 1, 23, 59, 30, tzinfo=UTC)
    assert await beats.beat() == 30.0, "17:00 at UTC-7 is midnight in UTC"
    assert daily.sent == []
    for hours in (0, 1, 12):
        wall.now = datetime(2026, 6, 2, hours, 0, 1, tzinfo=UTC)
        await beats.beat()
    assert daily.sent == ["2026-06-01"]
    ((day, start, end),) = daily.made
    assert (day, start, end) == (
        "2026-06-01",
        datetime(2026, 6, 1, tzinfo=UTC),
        datetime(2026, 6, 2, tzinfo=UTC),
    )
    assert marker(tmp_path)["state"] == "sent"


async def test_hour_and_zone_are_settings(tmp_path: Path) -> None:
    daily, wall = Daily(), Wall(2026, 6, 1, 5)
    beats = clock(tmp_path, daily, wall, summary_hour=8, summary_zone="Europe/Berlin")
    await beats.beat()
    wall.now = datetime(2026, 6, 1, 6, 0, 1, tzinfo=UTC)
    await beats.beat()
    assert daily.sent == ["2026-06-01"]
    assert daily.made[0][1].astimezone(UTC) == datetime(2026, 5, 31, 6, tzinfo=UTC)


async def test_a_missed_one_is_made_up_for_once(tmp_path: Path) -> None:
    daily, wall = Daily(), Wall(2026, 6, 1, 12)
    await clock(tmp_path, daily, wall).beat()
    wall.now = datetime(2026, 6, 9, 3, tzinfo=UTC)
    later = clock(tmp_path, daily, wall)
    for _ in range(3):
        await later.beat()
    assert daily.sent == ["2026-06-08"]


async def test_many_servers_send_one(tmp_path: Path) -> None:
    daily, wall = Daily(), Wall(2026, 6, 1, 12)
    daily.slow = 0.05
    servers = [clock(tmp_path, daily, wall) for _ in range(8)]
    await asyncio.gather(*(server.beat() for server in servers))
    for day in range(2, 5):
        wall.now = datetime(2026, 6, day, 0, 0, 1, tzinfo=UTC)
        await asyncio.gather(*(server.beat() for server in servers))
        await asyncio.gather(*(server.beat() for server in servers))
    assert daily.sent == ["2026-06-01", "2026-06-02", "2026-06-03"]
    assert len(daily.made) == 3


async def test_what_is_refused_is_tried_again_and_what_is_doubtful_is_not(tmp_path: Path) -> None:
    daily, wall = Daily(), Wall(2026, 6, 1, 12)
    beats = clock(tmp_path, daily, wall)
    await beats.beat()
    wall.now = datetime(2026, 6, 2, 1, tzinfo=UTC)
    daily.failing = EntrabotError("refused")
    for _ in range(3):
        with pytest.raises(EntrabotError):
            await beats.beat()
    assert (marker(tmp_path)["state"], marker(tmp_path)["attempts"]) == ("claimed", 3)
    daily.failing = GraphUnavailable("lost", outcome_unknown=True)
    with pytest.raises(GraphUnavailable):
        await beats.beat()
    daily.failing = None
    await beats.beat()
    assert daily.sent == []
    assert marker(tmp_path)["state"] == "sending"
    wall.now = datetime(2026, 6, 3, 1, tzinfo=UTC)
    await beats.beat()
    assert daily.sent == ["2026-06-02"]


async def test_another_server_takes_over_from_one_that_died_before_sending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daily, wall = Daily(), Wall(2026, 6, 1, 12)
    dying, other = clock(tmp_path, daily, wall), clock(tmp_path, daily, wall)
    await dying.beat()
    wall.now = datetime(2026, 6, 2, 1, tzinfo=UTC)
    daily.slow = 60
    task = asyncio.create_task(dying.beat())

    async def making() -> bool:
        return bool(daily.made)

    await until(making)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    daily.slow = 0
    await other.beat()
    assert daily.sent == [], "the claim is still young"
    monkeypatch.setattr(schedule, "CLAIM_SECONDS", 0.0)
    await other.beat()
    assert daily.sent == ["2026-06-01"]


async def test_it_is_given_up_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "ATTEMPTS", 2)
    daily, wall = Daily(), Wall(2026, 6, 1, 12)
    beats = clock(tmp_path, daily, wall)
    await beats.beat()
    wall.now = datetime(2026, 6, 2, 1, tzinfo=UTC)
    daily.failing = EntrabotError("refused")
    for _ in range(2):
        with pytest.raises(EntrabotError):
            await beats.beat()
    await beats.beat()
    assert marker(tmp_path)["state"] == "given up"
    daily.failing = None
    await beats.beat()
    assert daily.sent == []


async def test_a_marker_that_makes_no_sense_stops_nothing(tmp_path: Path) -> None:
    path = tmp_path / "plugins" / "email" / KEY
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\xff{")
    daily, wall = Daily(), Wall(2026, 6, 2, 1)
    await clock(tmp_path, daily, wall).beat()
    assert daily.sent == ["2026-06-01"]


async def test_a_server_sends_the_one_that_was_missed(mailing: Mailing, tenant: Any, tmp_path: Path) -> None:
    path = tmp_path / "data" / "plugins" / "email" / KEY
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"day": "2026-01-01", "state": "sent"}), encoding="utf-8")
    async with mailing(settings={"ENTRABOT_EMAIL_SUMMARY": "on"}):
        (received,) = await until(lambda: inbox_of(tenant, "alice"))

        async def done() -> bool:
            return json.loads(path.read_bytes())["state"] == "sent" and b"2026-01-01" not in path.read_bytes()

        await until(done)
    assert received["subject"].startswith("Daily summary ")
    assert len(await inbox_of(tenant, "alice")) == 1
