"""Sorting a day's talk by what a sponsor has to do about it."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from entrabot_email.changes import PROTECTED
from entrabot_email.summary.entries import Entry

EXCERPT = 160
_ASKS = re.compile(
    r"\?|\b(?:please|can you|could you|would you|will you|need(?:s|ed)?|urgent(?:ly)?|asap|deadline|approv\w+|confirm|"
    r"let me know|waiting for|respond|reply|by (?:today|tomorrow|tonight|noon|monday|tuesday|wednesday|thursday|friday|"
    r"eod)|action required|help|sign)\b",
    re.IGNORECASE,
)
_BOUNCE = re.compile(r"^(?:Subject: )?(?:undeliverable|delivery has failed|returned mail)", re.IGNORECASE)
_SUBJECT = re.compile(r"^Subject: (?P<subject>.*?)(?:\n+(?P<text>.*))?$", re.DOTALL)
_PROTECTED = PROTECTED[:40]
"""How a mail that cannot be read is known in the log, where texts are cut off."""
_GROUPS = {"teams_group": "Teams group", "teams_dm": "Teams chat", "email": "mail", "terminal": "terminal"}


@dataclass(frozen=True, kw_only=True)
class Item:
    """One conversation, as a summary tells it. received and sent: how many messages."""

    who: str
    place: str
    at: datetime
    excerpt: str
    why: str
    received: int
    sent: int

    def line(self) -> str:
        """Return it in one line."""
        counts = ", ".join(f"{number} {word}" for number, word in ((self.received, "in"), (self.sent, "out")) if number)
        return f"{self.who} ({self.place}; {counts}): {self.why}" + (f": {self.excerpt}" if self.excerpt else "")


@dataclass(frozen=True)
class Triage:
    """A day, sorted; what came last stands first."""

    needs_you: tuple[Item, ...] = ()
    handled: tuple[Item, ...] = ()
    heads_up: tuple[Item, ...] = ()
    total: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """How much there is of each."""
        return {
            "needs_you": len(self.needs_you),
            "handled": len(self.handled),
            "heads_up": len(self.heads_up),
            "interactions": self.total,
        }


@dataclass
class _Talk:
    """What was said in one place."""

    channel: str
    who: str = ""
    sponsor: bool = False
    received: list[Entry] = field(default_factory=list)
    sent: list[Entry] = field(default_factory=list)

    @property
    def last(self) -> Entry:
        return max([*self.received, *self.sent], key=lambda entry: entry.at)


def triage(entries: Iterable[Entry]) -> Triage:
    """Sort entries, oldest first, into what needs a person, what was handled, and what is good to know."""
    sections: dict[str, list[Item]] = {"needs_you": [], "handled": [], "heads_up": []}
    entries = list(entries)
    for talk in _talks(entries):
        section, why = _verdict(talk)
        sections[section].append(_item(talk, why))
    newest_first = {
        name: tuple(sorted(items, key=lambda item: item.at, reverse=True)) for name, items in sections.items()
    }
    return Triage(**newest_first, total=len(entries))


def _talks(entries: list[Entry]) -> list[_Talk]:
    talks: dict[tuple[str, str], _Talk] = {}
    for entry in entries:
        for place in _places(entry, talks):
            talk = talks.setdefault(place, _Talk(entry.channel))
            if entry.inbound:
                talk.received.append(entry)
                talk.who = entry.sender or talk.who
                talk.sponsor |= entry.metadata.get("sponsor") is True
                talk.channel = entry.channel
            else:
                talk.sent.append(entry)
                talk.who = talk.who or (entry.recipient if entry.channel == "email" else "")
    return list(talks.values())


def _places(entry: Entry, known: Container[tuple[str, str]]) -> list[tuple[str, str]]:
    """Where an entry belongs: a chat; with mail each person written to who wrote before, else all of them at once."""
    if entry.channel != "email":
        chat = str(entry.metadata.get("chat_id") or "") if entry.inbound else entry.recipient
        return [("chat", chat or entry.recipient or entry.sender)]
    if entry.inbound:
        return [("email", entry.sender.lower())]
    people = [("email", word.strip().lower()) for word in entry.recipient.split(",") if word.strip()]
    return [place for place in people if place in known] or [("email", entry.recipient.lower())]


def _verdict(talk: _Talk) -> tuple[str, str]:
    if not talk.received:
        waits = "?" in talk.sent[-1].summary
        return ("heads_up", "asked, no answer yet") if waits else ("handled", "written")
    asked, answered = talk.received[-1], talk.sent[-1] if talk.sent else None
    if answered is not None and answered.at >= asked.at:
        if talk.sponsor and "?" in answered.summary:
            return "needs_you", "asked you something and has no answer yet"
        return "handled", "answered"
    if _PROTECTED in asked.summary:
        return "needs_you", "encrypted, so it has to be opened in Outlook"
    if _BOUNCE.search(asked.summary):
        return "heads_up", "a mail did not arrive"
    if _ASKS.search(asked.summary):
        return "needs_you", "not answered yet"
    return "heads_up", "came in"


def _item(talk: _Talk, why: str) -> Item:
    last = talk.last
    return Item(
        who=" ".join(talk.who.split())[:80] or ("somebody" if talk.received else "Your agent"),
        place=_GROUPS.get(talk.channel, "Teams" if talk.channel.startswith("teams") else talk.channel),
        at=last.at,
        excerpt=_excerpt(last.summary),
        why=why,
        received=len(talk.received),
        sent=len(talk.sent),
    )


def _excerpt(text: str) -> str:
    match = _SUBJECT.match(text.partition(_PROTECTED)[0])
    if match:
        text = ": ".join(part for part in (match["subject"].strip(), (match["text"] or "").strip()) if part)
    line = " ".join(text.split())
    return line if len(line) <= EXCERPT else f"{line[: EXCERPT - 1]}…"
