"""Characters that a reader does not see, or that change what he sees."""

from __future__ import annotations

import re

_SUSPECT = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls other than tab and newline
    "\u00ad\u034f\u061c\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    "\u115f\u1160\u2800\u3164\uffa0"  # blank letters
    "\ufff0-\ufffb\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "\ud800-\udfff\ue000-\uf8ff\ufdd0-\ufdef\ufffe\uffff\U000f0000-\U0010ffff"  # nobody agrees on what these are
    "]"
)
_BREAKS = frozenset("\r\x0b\x0c\x85\u2028\u2029")
_BLANKS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
_JOINERS = frozenset("\u200c\u200d")
_PRESENTATION = frozenset("\ufe0e\ufe0f")
_UNDEFINED = re.compile("[\x80-\x9f\ud800-\udfff\ue000-\uf8ff\ufdd0-\ufdef\ufffe\uffff\U000f0000-\U0010ffff]")
_EMOJI = re.compile("[\u2190-\u27bf\u2900-\u2bff\U0001f000-\U0001faff]")
_JOINING = re.compile("[\u0620-\u0dff\u0f00-\u109f\u1780-\u17b3\u17b6-\u180a\u1810-\u18af\ufb50-\ufdcf\ufe70-\ufefc]")

REPLACEMENT = "\ufffd"


def neutralise(text: str) -> str:
    """Return ``text`` without invisible, bidirectional, tag and control characters.

    Line breaks of all kinds become ``\\n``; other controls become visible; what formats invisibly is dropped. The
    joiners that emoji, Arabic and Indic scripts need stay, between two characters of those only.
    """
    return _SUSPECT.sub(_shown, text.replace("\r\n", "\n"))


def one_line(text: str, limit: int) -> str:
    """Return ``text`` neutralised, on one line and at most ``limit`` characters long."""
    line = " ".join(neutralise(text).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _shown(match: re.Match[str]) -> str:
    char = match.group()
    if char in _BREAKS:
        return "\n"
    if char in _BLANKS:
        return " "
    if char < " " or char == "\x7f":
        return chr(0x2421 if char == "\x7f" else 0x2400 + ord(char))
    if _UNDEFINED.match(char):
        return REPLACEMENT
    return char if _needed(match.string, match.start()) else ""


def _needed(text: str, at: int) -> bool:
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    if text[at] in _PRESENTATION:
        return bool(_EMOJI.match(before))
    if text[at] not in _JOINERS:
        return False
    if _JOINING.match(before) and _JOINING.match(after):
        return True
    if before in _PRESENTATION and before:
        before = text[at - 2 : at - 1]
    return text[at] == "\u200d" and bool(_EMOJI.match(before) and _EMOJI.match(after))
