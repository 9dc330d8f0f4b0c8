"""One summary a day, however many servers run, and one that was missed made up for once."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Any

from entrabot_email.settings import EmailSettings, parse_zone
from entrabot_email.summary.daily import ACTION, DailySummary
from entrabot_host import ConcurrencyError, EntrabotError, Entry, GraphUnavailable, Host, Outcome

KEY = "summary.json"
LONGEST_PAUSE = 300.0
CLAIM_SECONDS = 900.0
ATTEMPTS = 50
"""Some hours of tries, five minutes apart."""

CLAIMED = "claimed"
"""Somebody makes it. Another server takes over when nothing comes of it."""
SENDING = "sending"
"""It may have been sent; nobody sends it again."""
SENT = "sent"
GIVEN_UP = "given up"
BEGUN = "begun"
"""This installation's first day: there was nothing to summarise."""


@dataclass(frozen=True)
class Marker:
    """How far the summary of a day is. by: the session that works on it."""

    day: str
    state: str
    by: str = ""
    attempts: int = 0

    @classmethod
    def parse(cls, entry: Entry) -> Marker:
        """Read the stored form; what makes no sense counts as a day long ago."""
        try:
            value = json.loads(entry.data)
            return cls(str(value["day"]), str(value["state"]), str(value.get("by", "")), int(value.get("attempts", 0)))
        except (ValueError, TypeError, KeyError, AttributeError):
            return cls("", SENT)

    def dump(self) -> bytes:
        """Return the stored form."""
        value: dict[str, Any] = {"day": self.day, "state": self.state, "by": self.by, "attempts": self.attempts}
        return json.dumps(value).encode() + b"\n"


def last_due(now: datetime, hour: int, zone: tzinfo) -> datetime:
    """Return the latest moment at or before ``now`` at which a summary was due."""
    local = now.astimezone(zone)
    for back in (0, 1):
        due = datetime.combine(local.date() - timedelta(days=back), time(hour), zone)
        if due <= now:
            return due
    return due


def next_due(now: datetime, hour: int, zone: tzinfo) -> datetime:
    """Return the first moment after ``now`` at which one is due."""
    day = last_due(now, hour, zone).astimezone(zone).date()
    return datetime.combine(day + timedelta(days=1), time(hour), zone)


class SummaryClock:
    """The background task. now: the time of day, with its zone."""

    def __init__(
        self, host: Host, daily: DailySummary, settings: EmailSettings, now: Callable[[], datetime] | None = None
    ) -> None:
        self._host = host
        self._daily = daily
        self._hour = settings.summary_hour
        self._zone = parse_zone(settings.summary_zone)
        self._now = now or (lambda: datetime.now(UTC))
        self._me = secrets.token_hex(6)

    async def beat(self) -> float:
        """Make and send the summary that is due, if nobody else did; return the seconds until the next look.

        The pause is short even when the next one is hours away: a machine that sleeps stops the clock of pauses.
        """
        now = self._now()
        due = last_due(now, self._hour, self._zone)
        claim = await self._claim(due.date().isoformat())
        if claim is not None:
            await self._work(claim, due)
        left = (next_due(now, self._hour, self._zone) - now).total_seconds()
        return max(1.0, min(LONGEST_PAUSE, left))

    async def _claim(self, day: str) -> tuple[Marker, str] | None:
        """Take the day's summary upon this session; None when it is done, begun by others, or not ours to make."""
        entry = await self._host.store.read(KEY)
        if entry is None:
            await self._write(Marker(day, BEGUN), "")
            return None
        marker = Marker.parse(entry)
        if marker.day > day or (marker.day == day and marker.state != CLAIMED):
            return None
        if marker.day < day:
            return await self._write(Marker(day, CLAIMED, self._me), entry.etag)
        if marker.by != self._me and entry.age < CLAIM_SECONDS:
            return None
        state = CLAIMED if marker.attempts < ATTEMPTS else GIVEN_UP
        written = await self._write(replace(marker, state=state, by=self._me), entry.etag)
        return written if state == CLAIMED else None

    async def _write(self, marker: Marker, etag: str) -> tuple[Marker, str] | None:
        """Write the marker; None when another session was faster."""
        try:
            return marker, await self._host.store.write(KEY, marker.dump(), if_match=etag, if_absent=not etag)
        except ConcurrencyError:
            return None

    async def _work(self, claim: tuple[Marker, str], due: datetime) -> None:
        """Make, then send. What fails before the send, or is refused, is tried again; a doubtful send is not."""
        marker, etag = claim
        marker = replace(marker, attempts=marker.attempts + 1)
        counted = await self._write(marker, etag)
        if counted is None:
            return
        start = last_due(due - timedelta(seconds=1), self._hour, self._zone)
        summary = await self._daily.make(marker.day, start, due)
        recipient = await self._daily.recipient()
        await self._host.records.audit(ACTION, recipient, Outcome.PENDING, {"day": marker.day})
        sending = await self._write(replace(marker, state=SENDING), counted[1])
        if sending is None:
            return
        try:
            await self._daily.send(summary)
        except EntrabotError as error:
            doubtful = isinstance(error, GraphUnavailable) and error.outcome_unknown
            await self._host.records.audit(
                ACTION, recipient, Outcome.FAILURE, {"day": marker.day, "error": type(error).__name__}
            )
            if not doubtful:
                await self._write(marker, sending[1])
            raise
        await self._write(replace(marker, state=SENT), sending[1])
        await self._host.records.audit(ACTION, recipient, Outcome.SUCCESS, {"day": marker.day})
