"""Adaptive Cards 1.4 for what an agent reports: built from plain text, shown as it is, and never larger than allowed.

Every text stands in a RichTextBlock, the one element whose text is not Markdown: what others wrote becomes no link.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from entrabot_host import InvalidArgument
from entrabot_teams.markup import tidy

Json = dict[str, Any]
Status = Literal["Default", "Good", "Warning", "Attention", "Accent"]
CardType = Literal["tool_activity", "task_status", "build_result"]

MAX_BYTES = 20_000
"""For the whole card, as JSON; below Teams' limit for a message."""
_SHORT = 300
_LONG = 2_000
_MAX_FACTS = 20
_MAX_LINES = 60

_COLORS: Mapping[str, Status] = {
    **dict.fromkeys(("complete", "completed", "done", "ok", "passed", "success", "succeeded"), "Good"),
    **dict.fromkeys(("failed", "failure", "error", "cancelled", "canceled"), "Attention"),
    **dict.fromkeys(("blocked", "paused", "waiting", "warning", "partial"), "Warning"),
    **dict.fromkeys(("running", "started", "in progress", "in_progress", "pending", "queued"), "Accent"),
}


@dataclass
class Card:
    """A card under construction. ``trimmed``: which arguments are not shown whole."""

    fallback: str
    body: list[Json] = field(default_factory=list)
    trimmed: list[str] = field(default_factory=list)

    def text(self, argument: str, text: str, limit: int = _SHORT, **style: Any) -> None:
        """Add a paragraph, if there is any text."""
        if shown := self.shortened(argument, text, limit):
            self.body.append(_block([_run(shown, **style)]))

    def pair(self, argument: str, name: str, value: str) -> None:
        """Add a named value, if there is one."""
        if shown := self.shortened(argument, value, _SHORT):
            self.body.append(_block([_run(f"{name}: ", weight="Bolder"), _run(shown)], spacing="Small"))

    def shortened(self, argument: str, text: str, limit: int) -> str:
        """Return at most ``limit`` bytes of a text, saying how much is left out."""
        text = tidy(text).strip()
        shown = _cut(text, limit)
        if shown != text:
            self.note(argument)
        return shown

    def log(self, argument: str, text: str) -> None:
        """Add lines of output in the room that is left: the first and, since failures stand at the end, the last."""
        lines = [line.rstrip() for line in tidy(text).replace("\r\n", "\n").strip("\n").split("\n")]
        if not any(lines):
            return
        shown = [_cut(line, _LONG) for line in lines]
        blocks = [_line(line, first=number == 0) for number, line in enumerate(shown)]
        room = MAX_BYTES - len(self.to_json().encode())
        fits = len(blocks) <= _MAX_LINES and _size(blocks) <= room
        self.body += blocks if fits else _ends(blocks, room)
        if shown != lines or not fits:
            self.note(argument)

    def note(self, argument: str) -> None:
        """Remember that an argument is not shown whole."""
        if argument not in self.trimmed:
            self.trimmed.append(argument)

    def to_json(self) -> str:
        """Return the card as the attachment's content."""
        card = {
            "type": "AdaptiveCard",
            "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
            "version": "1.4",
            "fallbackText": self.fallback,
            "body": self.body,
        }
        return _json(card)


def tool_activity(prefix: str, title: str, status: str, detail: str) -> Card:
    """Return the card of a tool that runs or ran. Raises `InvalidArgument`."""
    _need("title", title)
    card = _headed(prefix, title, status)
    card.text("detail", detail, _LONG)
    return card


def task_status(prefix: str, title: str, status: str, detail: str, duration: str, extra: str) -> Card:
    """Return the card of a task; extra: ``name: value`` lines or a JSON object. Raises `InvalidArgument`."""
    _need("title", title)
    card = _headed(prefix, title, status)
    card.text("detail", detail, _LONG)
    card.pair("duration", "Duration", duration)
    pairs = _pairs(extra)
    for name, value in pairs[:_MAX_FACTS]:
        card.pair("extra", card.shortened("extra", name, 60), value)
    if len(pairs) > _MAX_FACTS:
        card.text("extra", f"[… {len(pairs) - _MAX_FACTS} more]", isSubtle=True)
        card.note("extra")
    return card


def build_result(prefix: str, title: str, passed: bool, summary: str, details: str, duration: str) -> Card:
    """Return the card of a build or a test run. Raises `InvalidArgument`."""
    _need("title or summary", title.strip() or summary)
    card = _headed(prefix, title.strip() or "Build", "passed" if passed else "failed")
    card.text("summary", summary, _LONG)
    card.pair("duration", "Duration", duration)
    card.log("details_text", details)
    return card


def _headed(prefix: str, title: str, status: str) -> Card:
    card = Card("")
    heading, state = card.shortened("title", title, _SHORT), card.shortened("status", status, 60)
    card.fallback = f"{prefix}{heading}: {state}" if state else f"{prefix}{heading}"
    card.body.append(_block([_run(heading, weight="Bolder", size="Medium")]))
    if state:
        color = _COLORS.get(state.lower(), "Default")
        card.body.append(_block([_run(state, weight="Bolder", color=color)], spacing="None"))
    return card


def _need(argument: str, text: str) -> None:
    if not tidy(text).strip():
        raise InvalidArgument(f"{argument} is required for this card_type.", remedy="Say what the card is about.")


def _pairs(extra: str) -> list[tuple[str, str]]:
    try:
        found = json.loads(extra) if extra.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        return [(str(name), value if isinstance(value, str) else json.dumps(value)) for name, value in found.items()]
    lines = [line.partition(":") for line in extra.splitlines() if line.strip()]
    return [(name.strip(), value.strip()) if colon else ("Note", name.strip()) for name, colon, value in lines]


def _ends(blocks: Sequence[Json], room: int) -> list[Json]:
    """Return the first third and the last two thirds of what fits, and between them how many lines are left out."""
    head: list[Json] = []
    tail: list[Json] = []
    left = list(blocks)
    room -= _size([_omission(len(blocks))])
    while left and len(head) + len(tail) < _MAX_LINES:
        from_head = len(head) * 2 <= len(tail)
        block = left[0] if from_head else left[-1]
        room -= _size([block]) + 1
        if room < 0:
            break
        if from_head:
            head.append(left.pop(0))
        else:
            tail.insert(0, left.pop())
    return [*head, _omission(len(left)), *tail] if left else [*head, *tail]


def _omission(count: int) -> Json:
    return _block([_run(f"[… {count} lines left out …]", isSubtle=True)], spacing="None")


def _line(text: str, *, first: bool) -> Json:
    return _block([_run(text or " ", fontType="Monospace", size="Small")], spacing="Medium" if first else "None")


def _run(text: str, **style: Any) -> Json:
    return {"type": "TextRun", "text": text, **style}


def _block(inlines: list[Json], **layout: Any) -> Json:
    return {"type": "RichTextBlock", "inlines": inlines, **layout}


def _size(blocks: Sequence[Json]) -> int:
    return len(_json(blocks).encode())


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _cut(text: str, limit: int) -> str:
    data = text.encode()
    if len(data) <= limit:
        return text
    kept = data[:limit].decode("utf-8", "ignore").rstrip()
    return f"{kept} [… {len(text) - len(kept)} more characters]"
