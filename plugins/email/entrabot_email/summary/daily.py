"""Making a summary: read, sort, archive, send."""

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from typing import Annotated, Any

import anyio.to_thread
from pydantic import Field

from entrabot_email.addresses import is_address
from entrabot_email.api import MailApi, explained
from entrabot_email.books import keep_books
from entrabot_email.settings import EmailSettings, parse_zone
from entrabot_email.summary.entries import TOOL, Entry, entries_between
from entrabot_email.summary.render import render, subject_of
from entrabot_email.summary.triage import Item, Triage, triage
from entrabot_host import Direction, EntrabotError, Host, Interaction, InvalidArgument, Sponsor

ACTION = "email.daily_summary"
FOLDER = "summaries/"
EXTERNAL = ("needs_you", "handled", "heads_up")
_SHOWN = 10


@dataclass(frozen=True)
class Summary:
    """A finished summary. day: under which it is archived; key: where."""

    day: str
    key: str
    sorted: Triage
    html: str


class DailySummary:
    """The tool, and what the scheduler uses of it."""

    def __init__(self, host: Host, api: MailApi, settings: EmailSettings) -> None:
        self._host = host
        self._api = api
        self._settings = settings

    async def run_daily_summary(
        self,
        day: Annotated[str, Field(description="UTC day, YYYY-MM-DD; empty for today")] = "",
        send: Annotated[bool, Field(description="false: only make and archive it")] = True,
    ) -> dict[str, Any]:
        """Sort a day's messages into needs_you, handled and heads_up, archive that, and mail it to your first sponsor.

        It is also sent by itself every evening.
        """
        chosen = _day(day)
        start = datetime.combine(chosen, time.min, UTC)
        summary = await self.make(chosen.isoformat(), start, start + timedelta(days=1))
        recipient = await self.send(summary) if send else ""
        return {
            "day": summary.day,
            "counts": summary.sorted.counts,
            "needs_you": _lines(summary.sorted.needs_you),
            "handled": _lines(summary.sorted.handled),
            "heads_up": _lines(summary.sorted.heads_up),
            "archived": summary.key,
            "sent": send,
            "to": recipient,
        }

    async def make(self, day: str, start: datetime, end: datetime) -> Summary:
        """Summarise what was said from ``start`` on and before ``end``, and archive it under ``day``."""
        me = await self._host.identity.me()
        entries = await entries_between(self._host.records, start, end)
        found, html = await anyio.to_thread.run_sync(self._written, entries, day, me.user_name)
        summary = Summary(day, f"{FOLDER}{day}.html", found, html)
        await self._host.store.write(summary.key, html.encode("utf-8", "replace"))
        facts = json.dumps({"day": day, "counts": found.counts})
        await self._host.store.write(f"{FOLDER}{day}.json", facts.encode() + b"\n")
        return summary

    def _written(self, entries: list[Entry], day: str, agent: str) -> tuple[Triage, str]:
        """Sort and write; takes a while on a busy day, so it runs in a worker thread."""
        found, zone = triage(entries), self._settings.summary_zone
        return found, render(found, day, agent, parse_zone(zone), zone)

    async def send(self, summary: Summary) -> str:
        """Mail it to the primary sponsor; return his address. Raises `EntrabotError` when there is none."""
        recipient = await self.recipient()
        subject = subject_of(summary.sorted, summary.day)
        message = {
            "subject": subject,
            "body": {"contentType": "html", "content": summary.html},
            "toRecipients": [{"emailAddress": {"address": recipient}}],
        }
        with explained():
            await self._api.send(message)
        await self._remember(summary, subject, recipient)
        return recipient

    async def _remember(self, summary: Summary, subject: str, recipient: str) -> None:
        """Write down that it was sent."""
        me = await self._host.identity.me()
        entry = Interaction(
            channel="email",
            direction=Direction.OUTBOUND,
            sender=me.user_name,
            summary=subject,
            recipient=recipient,
            action=TOOL,
            content_ref=summary.key,
            metadata={"subject": subject, "day": summary.day},
        )
        await keep_books(self._host, ACTION, recipient, (partial(self._host.records.interaction, entry),))

    async def recipient(self) -> str:
        """Return the primary sponsor's address: the first of the setting, else the first sponsor's own."""
        for address in self._settings.sponsor_mails:
            if is_address(address):
                return address
        for sponsor in await self._host.identity.sponsors():
            if address := _mail_of(sponsor):
                return address
        raise EntrabotError(
            "No sponsor's mail address is known, so the summary was not sent; it is archived.",
            remedy="Set ENTRABOT_HUMAN_USER_MAILS, or give the agent identity a sponsor.",
        )


def _mail_of(sponsor: Sponsor) -> str:
    """Return the address that most likely reaches a person: no guest's sign-in name, no technical domain."""
    usable = [address for address in sponsor.addresses if is_address(address) and "#ext#" not in address]
    return min(usable, key=lambda address: (".onmicrosoft." in address, len(address), address), default="")


def _day(text: str) -> date:
    today = datetime.now(UTC).date()
    if not text.strip():
        return today
    try:
        day = datetime.strptime(text.strip(), "%Y-%m-%d").date()
    except ValueError:
        day = None
    if day is None or day > today or day.year < 2000:
        raise InvalidArgument(
            f"day is no UTC day up to today ({today}).", remedy="Write it like 2026-05-01, or leave it empty."
        )
    return day


def _lines(items: tuple[Item, ...]) -> list[str]:
    shown = [item.line() for item in items[:_SHOWN]]
    return shown + ([f"and {len(items) - _SHOWN} more, in the archive"] if len(items) > _SHOWN else [])
