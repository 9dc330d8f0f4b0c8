"""Draws ``docs/teams.png``: a card, a placeholder's three stages and a quoted reply, as Teams would show them.

    python docs/make_teams_picture.py [page.html]

What is drawn is what the Teams plugin makes; only the frame around it is ours. Needs chromium (or CHROMIUM, its path);
with a file name the page is written there instead and no browser is needed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path
from typing import Any

from entrabot_teams.card_layout import Card, build_result
from entrabot_teams.composing import compose, remark

TARGET = Path(__file__).resolve().parent / "teams.png"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
COLORS = {"Good": "#107c10", "Attention": "#c4314b", "Warning": "#835c00", "Accent": "#5b5fc7"}
STYLE = """
body { margin: 0; padding: 24px; width: 720px; background: #f5f5f5; color: #242424 }
body { font: 14px/1.45 "Segoe UI", system-ui, sans-serif }
h2 { font-size: 12px; font-weight: 600; color: #616161; margin: 20px 0 6px }
.message { background: #fff; border-radius: 6px; padding: 8px 16px; margin: 4px 0; width: fit-content }
.message p { margin: 2px 0 } .mine { background: #e8ebfa; margin-left: auto }
.who { font-size: 12px; color: #616161 } .edited::after { content: " Edited"; font-size: 11px; color: #616161 }
.quote { border-left: 4px solid #5b5fc7; background: #f0f0f0; padding: 4px 10px; border-radius: 3px; color: #616161 }
.card { border: 1px solid #d1d1d1; border-radius: 6px; background: #fff; padding: 12px 16px; width: 420px }
.at { color: #5b5fc7 } code { font-family: Consolas, monospace; white-space: pre-wrap }
"""
FAILURE = "tests/test_tide.py::test_high_water FAILED\nE   assert 4.1 == 4.2\n1 failed, 211 passed"


def card(made: Card) -> str:
    """Return a card's HTML."""
    return f'<div class="card">{"".join(map(_block, json.loads(made.to_json())["body"]))}</div>'


def _block(block: dict[str, Any]) -> str:
    margin = {"None": 0, "Small": 4, "Medium": 12}.get(block.get("spacing", ""), 8)
    return f'<div style="margin-top: {margin}px">{"".join(map(_run, block["inlines"]))}</div>'


def _run(run: dict[str, Any]) -> str:
    size = {"Small": 12, "Medium": 17}.get(run.get("size", ""), 14)
    weight = 600 if run.get("weight") == "Bolder" else 400
    style = f"font-size: {size}px; font-weight: {weight}; color: {COLORS.get(run.get('color', ''), 'inherit')}"
    tag = "code" if run.get("fontType") == "Monospace" else "span"
    return f'<{tag} style="{style}">{escape(run["text"])}</{tag}>'


def message(content: str, *, mine: bool = False, edited: bool = False, who: str = "Sati Agent") -> str:
    """Return a message's HTML; mine: the reader's own."""
    shown = content.replace("<at ", '<span class="at" ').replace("</at>", "</span>")
    classes = " ".join(["message", *(["mine"] if mine else []), *(["edited"] if edited else [])])
    return f'<div class="{classes}"><div class="who">{escape(who)}</div>{shown}</div>'


def page() -> str:
    """Return the page."""
    mention = [{"id": 0, "name": "Alice", "user_id": "8b081ef6-4792-4def-b2c9-c363a1bf41d5"}]
    answer = compose('<at id="0">Alice</at>: high water is at **14:20**, low water at 20:35.', "markdown", mention)
    quote = '<div class="quote"><b>Sati Agent</b><br>Alice: high water is at 14:20, low water at 20:35.</div>'
    parts = [
        ("A placeholder", message(remark("thinking…", "text").content)),
        ("The same message while the work goes on", message(remark("reading the tables", "text").content, edited=True)),
        ("And with the answer in its place", message(answer.content, edited=True)),
        ("A quoted reply", message(f"{quote}<p>Thanks! And tomorrow?</p>", mine=True, who="Alice Example")),
        ("A card", card(build_result("", "Tide tables", False, "1 of 212 tests failed", FAILURE, "41 s"))),
    ]
    body = "".join(f"<h2>{escape(title)}</h2>{html}" for title, html in parts)
    return f'<!doctype html><meta charset="utf-8"><title>Teams</title><style>{STYLE}</style>{body}\n'


def main(arguments: list[str]) -> int:
    """Draw the picture, or write the page. Returns the exit status."""
    if arguments:
        Path(arguments[0]).write_text(page(), encoding="utf-8")
        return 0
    browser = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print("There is no chromium; install it, or name a file for the page.", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "teams.html"
        source.write_text(page(), encoding="utf-8")
        command = [browser, "--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=768,760"]
        command += [f"--user-data-dir={folder}/profile", f"--screenshot={TARGET}", source.as_uri()]
        return subprocess.run(command, timeout=60, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
