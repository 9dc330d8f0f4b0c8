"""Draws ``docs/daily-summary.png``: the daily summary of an ordinary day, as a mail client would show it.

    python docs/make_summary_picture.py [page.html]

The day's messages are made up; the sorting and the mail are the email plugin's. Needs chromium (or CHROMIUM, its path);
with a file name the page is written there instead and no browser is needed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from datetime import datetime
from html import escape
from pathlib import Path

from entrabot_email.changes import PROTECTED
from entrabot_email.settings import parse_zone
from entrabot_email.summary.entries import Entry
from entrabot_email.summary.render import render, subject_of
from entrabot_email.summary.triage import Triage, triage

TARGET = Path(__file__).resolve().parent / "daily-summary.png"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
DAY, ZONE_NAME, AGENT = "2026-06-01", "UTC-7", "sati@contoso.example"
ZONE = parse_zone(ZONE_NAME)
ALICE = "19:alice@unq.gbl.spaces"
BEN = "19:ben@unq.gbl.spaces"
HARBOUR = "19:harbour@thread.v2"
CREW = "19:crew@thread.v2"
FRAME = """\
<!doctype html><meta charset="utf-8"><title>Mail</title>
<style>
body {{ margin: 0; background: #fff; font: 14px/1.4 "Segoe UI", Arial, Helvetica, sans-serif; color: #242424 }}
header {{ padding: 14px 24px; border-bottom: 1px solid #d1d1d1 }}
header b {{ display: block; font-size: 18px; font-weight: 600 }} header span {{ color: #616161 }}
iframe {{ display: block; border: 0; width: {width}px; height: {height}px }}
</style>
<header><b>{subject}</b><span>{agent} &middot; to alice@contoso.example &middot; 17:00</span></header>
<iframe srcdoc="{mail}"></iframe>
"""
WIDTH, HEIGHT = 760, 1300


def heard(clock: str, sender: str, text: str, *, chat: str = "", sponsor: bool = False) -> Entry:
    """Return what somebody wrote; without a chat it came by mail."""
    metadata = {"chat_id": chat or AGENT, "sponsor": sponsor}
    return Entry(at=_at(clock), channel=_channel(chat), inbound=True, sender=sender, summary=text, metadata=metadata)


def said(clock: str, recipient: str, text: str) -> Entry:
    """Return what the agent wrote, to a chat or by mail."""
    channel = _channel(recipient if recipient.startswith("19:") else "")
    return Entry(at=_at(clock), channel=channel, inbound=False, sender=AGENT, summary=text, recipient=recipient)


def _at(clock: str) -> datetime:
    return datetime.fromisoformat(f"{DAY}T{clock}:00").replace(tzinfo=ZONE)


def _channel(chat: str) -> str:
    return ("teams_dm" if chat.endswith("@unq.gbl.spaces") else "teams_group") if chat else "email"


def day() -> list[Entry]:
    """Return an ordinary day's messages, oldest first."""
    quote = "Subject: Quote for the new tide gauge\n\nPlease confirm by Wednesday that the offer of 4,180 EUR stands."
    bounce = "Subject: Undeliverable: Visit on Thursday\n\nThe address joan@old-harbour.example wasn't found."
    entries = [
        heard("08:02", "Alice Example", "Morning! Can you put today's tide table into the harbour folder?", chat=ALICE),
        said("08:03", ALICE, "Looking at the tables now."),
        said("08:06", ALICE, "It is there: tides-2026-06-01.xlsx. High water is at 14:20, low water at 20:35."),
        said("08:30", CREW, "Reminder: the pilot boat is in the yard until Wednesday, use the tender."),
        heard("09:15", "offers@gauges.example", quote),
        heard("10:40", "Ben Carter", "Could you tell the crew that the meeting moves to 15:00?", chat=HARBOUR),
        said("10:42", HARBOUR, "Done: all five of the crew have accepted the new time."),
        heard("11:05", "legal@contoso.example", f"Subject: Draft of the mooring contract\n\n{PROTECTED}"),
        heard("11:30", "joan@fleet.example", "Subject: Berth 12\n\nIs berth 12 free from 8 to 12 June?"),
        said("11:41", "joan@fleet.example", "Berth 12: It is free all week; you are pencilled in until Friday."),
        said("12:10", "joan@old-harbour.example", "Visit on Thursday: Here is the plan of the visit."),
        heard("12:11", "postmaster@contoso.example", bounce),
        heard("13:20", "Alice Example", "Add the new fender prices to the budget, too.", chat=ALICE, sponsor=True),
        said("13:26", ALICE, "Two lists are in the folder, of April and of May. Which one should I take?"),
        heard("14:50", "Dana Flores", "Thanks, the photos of the slipway have arrived.", chat="19:dana@unq.gbl.spaces"),
        said("15:35", BEN, "Ben, do you have the new key code of the boat house?"),
        heard("16:10", "office@yard.example", "Subject: Pilot boat\n\nThe hull is done; we launch on Wednesday at 9."),
    ]
    return sorted(entries, key=lambda entry: entry.at)


def page(found: Triage) -> str:
    """Return the mail with a client's head above it."""
    mail = render(found, DAY, AGENT, ZONE, ZONE_NAME)
    subject = escape(subject_of(found, DAY))
    return FRAME.format(subject=subject, agent=AGENT, mail=escape(mail), width=WIDTH, height=HEIGHT)


def main(arguments: list[str]) -> int:
    """Draw the picture, or write the page. Returns the exit status."""
    made = page(triage(day()))
    if arguments:
        Path(arguments[0]).write_text(made, encoding="utf-8")
        return 0
    browser = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print("There is no chromium; install it, or name a file for the page.", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "summary.html"
        source.write_text(made, encoding="utf-8")
        command = [browser, "--headless=new", "--no-sandbox", "--hide-scrollbars", f"--window-size={WIDTH},{HEIGHT}"]
        command += [f"--user-data-dir={folder}/profile", f"--screenshot={TARGET}", source.as_uri()]
        return subprocess.run(command, timeout=60, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
