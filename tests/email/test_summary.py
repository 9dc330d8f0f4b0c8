"""The daily summary: sorted, written, archived, sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from entrabot_email.changes import PROTECTED
from entrabot_email.summary.daily import _mail_of
from entrabot_email.summary.entries import Entry, entries_between, entry_of
from entrabot_email.summary.render import MOST, render, subject_of
from entrabot_email.summary.triage import Triage, triage
from hypothesis import given, settings
from hypothesis import strategies as st

from entrabot_host import EntrabotError, Sponsor
from entrabot_host.testing.agent import ToolFailed
from tests.email.conftest import Mailing
from tests.email.parts import inbox_of

DAY = datetime(2026, 6, 1, tzinfo=UTC)
CHAT = "19:a@thread.v2"
BOB = "bob@x.example"
PAGE = {"html", "head", "meta", "title", "body", "div", "table", "tr", "td", "h1", "h2", "p", "br", "span", "strong"}


def heard(minute: int, text: str, *, sender: str = "Alice", chat: str = CHAT, sponsor: bool = False) -> Entry:
    channel = "teams_dm" if chat else "email"
    metadata = {"chat_id": chat or "sati@contoso.example", "sponsor": sponsor}
    at = DAY + timedelta(minutes=minute)
    return Entry(at=at, channel=channel, inbound=True, sender=sender, summary=text, metadata=metadata)


def said(minute: int, text: str, *, recipient: str = CHAT) -> Entry:
    channel = "teams_dm" if recipient == CHAT else "email"
    at = DAY + timedelta(minutes=minute)
    return Entry(at=at, channel=channel, inbound=False, sender="sati", summary=text, recipient=recipient)


def mail(minute: int, sender: str, text: str) -> Entry:
    return heard(minute, text, sender=sender, chat="")


def only(found: Triage) -> tuple[str, str]:
    """The section and the reason of the only item."""
    ((name, item),) = [(name, item) for name in ("needs_you", "handled", "heads_up") for item in getattr(found, name)]
    return name, item.why


@pytest.mark.parametrize(
    ("entries", "section", "reason"),
    [
        ([heard(1, "Can you send the plan?")], "needs_you", "not answered"),
        ([heard(1, "Can you send the plan?"), said(2, "Here it is.")], "handled", "answered"),
        ([said(1, "Here."), heard(2, "Please redo it")], "needs_you", "not answered"),
        ([heard(1, "Thanks")], "heads_up", "came in"),
        ([heard(1, "Do it", sponsor=True), said(2, "Which one?")], "needs_you", "asked you"),
        ([heard(1, "Do it"), said(2, "Which one?")], "handled", "answered"),
        ([said(1, "Hello Bob")], "handled", "written"),
        ([said(1, "Bob, when?")], "heads_up", "no answer yet"),
        ([mail(1, "bob@x.example", f"Subject: Secret\n\n{PROTECTED}")], "needs_you", "encrypted"),
        (
            [mail(1, "postmaster@x.example", "Subject: Undeliverable: Hi\n\nwasn't found?")],
            "heads_up",
            "did not arrive",
        ),
        (
            [mail(1, "Bob@x.example", "Subject: Q\n\nWhen?"), said(2, "Now", recipient="bob@x.example")],
            "handled",
            "ans",
        ),
        (
            [mail(1, "bob@x.example", "When?"), said(2, "Now", recipient="eve@x.example, bob@x.example")],
            "handled",
            "answered",
        ),
    ],
)
def test_where_a_conversation_belongs(entries: list[Entry], section: str, reason: str) -> None:
    name, why = only(triage(entries))
    assert name == section
    assert reason in why


def test_a_day_is_sorted_with_the_last_first() -> None:
    entries = [
        mail(1, "bob@x.example", "Subject: Contract\n\nPlease sign"),
        mail(2, "eve@x.example", "Subject: Lunch\n\nWhen?"),
        heard(3, "ok"),
    ]
    found = triage(entries)
    assert [item.who for item in found.needs_you] == ["eve@x.example", "bob@x.example"]
    assert found.needs_you[1].excerpt == "Contract: Please sign"
    assert found.counts == {"needs_you": 2, "handled": 0, "heads_up": 1, "interactions": 3}
    assert "1 in" in found.needs_you[0].line()


def test_what_nobody_answered_is_the_agents_and_shows_no_id() -> None:
    (item,) = triage([said(1, "The boat is in the yard.")]).handled
    assert (item.who, item.excerpt) == ("Your agent", "The boat is in the yard.")


@pytest.mark.parametrize("cut", [200, len("Subject: Contract\n\n") + 50])
def test_mail_that_cannot_be_read_is_told_by_its_subject(cut: int) -> None:
    (item,) = triage([mail(1, "bob@x.example", f"Subject: Contract\n\n{PROTECTED}"[:cut])]).needs_you
    assert (item.excerpt, item.why) == ("Contract", "encrypted, so it has to be opened in Outlook")


TEXT = st.text(max_size=60)
ENTRY = st.builds(
    Entry,
    at=st.integers(0, 1439).map(lambda minute: DAY + timedelta(minutes=minute)),
    channel=st.sampled_from(["email", "teams_dm", "teams_unknown", "terminal", ""]),
    inbound=st.booleans(),
    sender=TEXT,
    summary=TEXT,
    recipient=TEXT,
    metadata=st.dictionaries(st.sampled_from(["chat_id", "sponsor"]), TEXT | st.booleans(), max_size=2),
)


class Texts(HTMLParser):
    """The elements of a page; fails when one is not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        assert not {"src", "onerror", "onclick"} & {name for name, _ in attrs}
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@settings(deadline=None)
@given(st.lists(ENTRY, max_size=20))
def test_any_day_becomes_a_page_that_holds_nothing_but_its_own_elements(entries: list[Entry]) -> None:
    found = triage(sorted(entries, key=lambda entry: entry.at))
    assert sum(found.counts.values()) - found.total <= len(entries) * 5
    page = render(found, "2026-06-01", "sati@contoso.example", UTC, "UTC")
    texts = Texts()
    texts.feed(page)
    texts.close()
    assert texts.open == []
    assert texts.seen <= PAGE
    assert "<script" not in page.lower()


def test_a_hostile_name_is_text() -> None:
    entries = [heard(1, "<script>alert(1)</script>?", sender='<img src=x onerror="x">')]
    page = render(triage(entries), "2026-06-01", "<b>", UTC, "UTC")
    assert "<script>" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page
    assert "<b>" not in page


def test_a_busy_day_is_cut_and_says_so() -> None:
    entries = [mail(number, f"p{number}@x.example", "When?") for number in range(MOST + 5)]
    page = render(triage(entries), "2026-06-01", "sati", UTC, "UTC")
    assert "and 5 more" in page
    assert f"Needs you ({MOST + 5})" in page
    assert subject_of(triage(entries), "2026-06-01") == f"Daily summary 2026-06-01: {MOST + 5} things need you"
    assert "Monday, 1 June 2026" in page


def test_times_are_those_of_the_zone() -> None:
    from entrabot_email.settings import parse_zone

    page = render(triage([heard(0, "x")]), "2026-06-01", "sati", parse_zone("UTC-7"), "UTC-7")
    assert "17:00" in page
    assert "Times are UTC-7" in page


async def test_a_host_that_cannot_read_its_log_says_so() -> None:
    with pytest.raises(EntrabotError, match="cannot read its interaction log") as refused:
        await entries_between(object(), DAY, DAY + timedelta(days=1))
    assert refused.value.remedy


async def test_entries_come_in_order_and_nonsense_not_at_all() -> None:
    start, end = DAY + timedelta(hours=12), DAY + timedelta(hours=36)

    async def interactions(since: datetime, until: datetime, *, limit: int) -> list[Any]:
        assert (since, until) == (start, end)
        times = (end, end - timedelta(hours=1), start, start - timedelta(seconds=1))
        lines = [{"ts": at.isoformat(), "channel": "email", "direction": "inbound", "summary": None} for at in times]
        return [*lines, {"ts": "nonsense"}, {"ts": None}, "garbage"]

    found = await entries_between(SimpleNamespace(interactions=interactions), start, end)
    assert [entry.at for entry in found] == [start, end - timedelta(hours=1)]
    assert all(entry.inbound for entry in found)
    assert entry_of({"ts": "2026-01-01T00:00:00"}).at.tzinfo is UTC  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("addresses", "best"),
    [
        (
            {"carol_fabrikam.example#ext#@contoso.onmicrosoft.example", "carol@fabrikam.example"},
            "carol@fabrikam.example",
        ),
        ({"a@contoso.onmicrosoft.com", "alice@contoso.com"}, "alice@contoso.com"),
        ({"x#ext#@contoso.com"}, ""),
        (set(), ""),
    ],
)
def test_the_address_that_reaches_a_person(addresses: set[str], best: str) -> None:
    assert _mail_of(Sponsor("id", "n", frozenset(addresses))) == best


# --- over the wire --------------------------------------------------------------------------------------------------


def log(folder: Path, *lines: dict[str, Any]) -> str:
    """Write today's interactions; return the day."""
    now = datetime.now(UTC)
    path = folder / "data" / "interactions" / f"{now:%Y-%m-%d}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    entries = [
        {"id": str(number), "ts": now.isoformat(), "sender": "x", "summary": "", **line}
        for number, line in enumerate(lines)
    ]
    with path.open("a", encoding="utf-8") as stream:
        stream.writelines(json.dumps(entry) + "\n" for entry in entries)
    return f"{now:%Y-%m-%d}"


ASKED = {"channel": "email", "direction": "inbound", "sender": "bob@x.example", "summary": "Subject: Plan\n\nWhen?"}
WROTE = {"channel": "teams_dm", "direction": "outbound", "recipient": CHAT, "summary": "Done."}


async def test_a_summary_is_sorted_archived_and_mailed(
    mailing: Mailing, tenant: Any, tmp_path: Path, entrabot_audit: Callable[[], list[dict[str, Any]]]
) -> None:
    async with mailing() as agent:
        day = log(tmp_path, ASKED, WROTE)
        found = await agent.call("run_daily_summary")
    assert (found["day"], found["sent"], found["to"]) == (day, True, "alice@contoso.example")
    assert found["counts"] == {"needs_you": 1, "handled": 1, "heads_up": 0, "interactions": 2}
    assert "bob@x.example" in found["needs_you"][0]
    assert found["needs_you"][0].startswith("<external-content-envelope ")
    (received,) = await inbox_of(tenant, "alice")
    assert received["subject"] == f"Daily summary {day}: 1 thing needs you"
    assert "Plan: When?" in received["body"]["content"]
    archived = tmp_path / "data" / "summaries"
    assert (archived / f"{day}.html").read_text(encoding="utf-8") == received["body"]["content"]
    facts = json.loads((archived / f"{day}.json").read_bytes())
    assert (facts["day"], facts["counts"]) == (day, found["counts"])
    actions = [line["action"] for line in entrabot_audit() if line["outcome"] == "success"]
    assert actions == ["email.daily_summary"]


async def test_a_summary_is_written_down_and_answers_nobody(mailing: Mailing, tenant: Any, tmp_path: Path) -> None:
    async with mailing() as agent:
        log(tmp_path, {**ASKED, "sender": "alice@contoso.example"})
        assert (await agent.call("run_daily_summary"))["counts"]["needs_you"] == 1
        (line,) = (await agent.call("read_interactions", direction="outbound"))["interactions"]
        assert (line["channel"], line["action"], line["recipient"]) == (
            "email",
            "run_daily_summary",
            "alice@contoso.example",
        )
        assert "1 thing needs you" in line["summary"]
        again = await agent.call("run_daily_summary", send=False)
        assert again["counts"] == {"needs_you": 1, "handled": 0, "heads_up": 0, "interactions": 1}
        assert len((await agent.call("read_interactions", direction="outbound"))["interactions"]) == 1


async def test_it_may_be_made_without_being_sent_and_of_another_day(
    mailing: Mailing, tenant: Any, tmp_path: Path
) -> None:
    async with mailing(settings={"ENTRABOT_HUMAN_USER_MAILS": "carol@fabrikam.example"}) as agent:
        found = await agent.call("run_daily_summary", day="2026-01-01", send=False)
        assert (found["counts"]["interactions"], found["sent"], found["to"]) == (0, False, "")
        assert (tmp_path / "data" / "summaries" / "2026-01-01.html").exists()
        assert await inbox_of(tenant, "carol") == []
        await agent.call("run_daily_summary", day="2026-01-01")
        assert len(await inbox_of(tenant, "carol")) == 1
        tomorrow = (datetime.now(UTC) + timedelta(days=2)).date().isoformat()
        for wrong in (tomorrow, "yesterday", "2026-1-1x", "1999-01-01"):
            with pytest.raises(ToolFailed, match="no UTC day"):
                await agent.call("run_daily_summary", day=wrong)


async def test_without_any_sponsor_it_is_archived_and_says_so(mailing: Mailing, tenant: Any, tmp_path: Path) -> None:
    await tenant.control("PUT", "/sponsors", json={"sponsors": []})
    async with mailing() as agent:
        with pytest.raises(ToolFailed, match="No sponsor") as refused:
            await agent.call("run_daily_summary")
    assert "ENTRABOT_HUMAN_USER_MAILS" in refused.value.remedy
    assert len(list((tmp_path / "data" / "summaries").glob("*.html"))) == 1
