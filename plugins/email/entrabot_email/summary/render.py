"""The summary as a mail: tables and inline styles, which are all that every mail client shows alike."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo
from html import escape

from entrabot_email.summary.triage import Item, Triage

MOST = 30
_FONT = "font-family:'Segoe UI',Arial,Helvetica,sans-serif"
_SECTIONS = (
    ("needs_you", "Needs you", "#b3261e", "Nothing needs you."),
    ("handled", "Handled", "#1b6e3c", "Nothing was handled."),
    ("heads_up", "Heads-up", "#8a5a00", "Nothing else to know."),
)
_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
</head>
<body style="margin:0;padding:0;background-color:#f3f3f3">
<div style="display:none;max-height:0;overflow:hidden">{preheader}</div>
<table role="presentation" width="100%" cellpadding="0" cellspacing="0" style="background-color:#f3f3f3">
<tr><td align="center" style="padding:24px 12px">
<table role="presentation" width="640" cellpadding="0" cellspacing="0" \
style="width:100%;max-width:640px;background-color:#ffffff;border:1px solid #dddddd;{font}">
<tr><td style="padding:24px 28px 8px 28px">
<h1 style="margin:0;font-size:22px;line-height:28px;color:#1b1b1b;font-weight:600">{heading}</h1>
<p style="margin:6px 0 0 0;font-size:14px;line-height:20px;color:#5c5c5c">{lead}</p>
</td></tr>
{sections}
<tr><td style="padding:16px 28px 24px 28px;border-top:1px solid #e5e5e5">
<p style="margin:0;font-size:12px;line-height:18px;color:#707070">{footer}</p>
</td></tr>
</table>
</td></tr>
</table>
</body>
</html>
"""


def subject_of(triage: Triage, day: str) -> str:
    """Return the mail's subject: what matters first."""
    count = len(triage.needs_you)
    return f"Daily summary {day}: {_needs(count)}"


def render(triage: Triage, day: str, agent: str, zone: tzinfo, zone_name: str) -> str:
    """Return the whole mail. agent: its sign-in name; zone: in which times are shown, ``zone_name`` for people.

    Everything that others wrote is escaped; nothing is loaded from anywhere.
    """
    counts = triage.counts
    lead = (
        f"{_needs(counts['needs_you'])} &middot; {counts['handled']} handled &middot; "
        f"{counts['heads_up']} to know &middot; {_number(counts['interactions'], 'message')} in all"
    )
    sections = [_section(title, color, empty, getattr(triage, name), zone) for name, title, color, empty in _SECTIONS]
    return _PAGE.format(
        title=escape(subject_of(triage, day)),
        preheader=escape(_preheader(triage)),
        font=_FONT,
        heading=f"Your agent&rsquo;s day, {escape(_date(day))}",
        lead=lead,
        sections="\n".join(sections),
        footer=f"Written by {escape(agent)} from its interaction log. Times are {escape(zone_name)}. "
        "Excerpts are what people wrote, shortened.",
    )


def _section(title: str, color: str, empty: str, items: Sequence[Item], zone: tzinfo) -> str:
    rows = "\n".join(_row(item, color, zone) for item in items[:MOST])
    more = len(items) - MOST
    if more > 0:
        rows += f'\n<tr><td style="{_cell()};color:#5c5c5c">and {more} more</td></tr>'
    if not items:
        rows = f'<tr><td style="{_cell()};color:#5c5c5c">{empty}</td></tr>'
    return (
        '<tr><td style="padding:16px 28px 4px 28px">\n'
        f'<h2 style="margin:0 0 6px 0;font-size:16px;line-height:22px;color:{color};font-weight:600">'
        f"{title} ({len(items)})</h2>\n"
        f'<table role="presentation" width="100%" cellpadding="0" cellspacing="0">\n{rows}\n</table>\n</td></tr>'
    )


def _row(item: Item, color: str, zone: tzinfo) -> str:
    excerpt = f'<br><span style="color:#444444">{escape(item.excerpt)}</span>' if item.excerpt else ""
    return (
        f'<tr><td style="{_cell()};border-left:3px solid {color}">'
        f'<strong style="color:#1b1b1b">{escape(item.who)}</strong> '
        f'<span style="color:#5c5c5c">&middot; {escape(item.place)} &middot; {_time(item.at, zone)}'
        f" &middot; {escape(_counts(item))}</span><br>"
        f'<span style="color:{color}">{escape(item.why[:1].upper() + item.why[1:])}</span>{excerpt}</td></tr>'
        '\n<tr><td style="font-size:6px;line-height:6px">&nbsp;</td></tr>'
    )


def _cell() -> str:
    return f"padding:6px 10px;font-size:14px;line-height:20px;word-break:break-word;{_FONT}"


def _counts(item: Item) -> str:
    parts = [f"{number} {word}" for number, word in ((item.received, "received"), (item.sent, "sent")) if number]
    return ", ".join(parts)


def _preheader(triage: Triage) -> str:
    first = next(iter((*triage.needs_you, *triage.heads_up, *triage.handled)), None)
    return f"{first.who}: {first.excerpt or first.why}"[:120] if first else "A quiet day."


def _needs(count: int) -> str:
    return {0: "nothing needs you", 1: "1 thing needs you"}.get(count, f"{count} things need you")


def _number(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _date(day: str) -> str:
    moment = datetime.strptime(day, "%Y-%m-%d")
    return f"{moment:%A}, {moment.day} {moment:%B %Y}"


def _time(moment: datetime, zone: tzinfo) -> str:
    return f"{moment.astimezone(zone):%H:%M}"
