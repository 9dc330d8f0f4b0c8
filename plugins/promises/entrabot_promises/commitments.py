"""Whether an English text commits its writer to do something later.

Made for few false alarms: offers ("I'll look into it if you like"), questions, refusals and what others said do not
count.
"""

from __future__ import annotations

import html
import re

MAX_TEXT = 30_000
SHOWN = 120

_QUOTED = re.compile(r"<blockquote\b.*?(?:</blockquote\s*>|\Z)", re.IGNORECASE | re.DOTALL)
_BREAK = re.compile(r"<(?:br|/p|/li|/div|/tr|/h\d)\b[^<>]*>", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")
_SENTENCE = re.compile(r"[^.!?;\n]+[.!?;]*")

_ADVERBS = (
    r"(?:\s+(?:also|then|just|certainly|definitely|gladly|personally|make\s+sure\s+(?:to|I)|be\s+sure\s+to)){0,2}"
)
_GOING_TO = r"'m\s+going\s+to|\s+am\s+going\s+to|'re\s+going\s+to|\s+are\s+going\s+to"
_I_WILL = rf"\b(?:(?:I|we)(?:'ll|\s+will|\s+shall|{_GOING_TO})|(?:let\s+|lem)me(?!\s+know)){_ADVERBS}"
_YOU = r"(?:you|them|him|her|everyone|everybody|the\s+(?:team|group|channel|chat|customer)|\w+)"
_REPORTING = (
    r"get\s+back(?:\s+to)?",
    r"(?:come|circle|be|write|call|ping)\s+back",
    r"be\s+back\s+with",
    r"follow\s+up",
    r"report(?:\s+back|\s+(?:to|on|when|once|as\s+soon))?",
    rf"(?:update|notify|ping|inform|alert|message|email|e-mail|remind)\s+{_YOU}",
    rf"keep\s+{_YOU}\s+(?:posted|updated|informed|in\s+the\s+loop)",
    rf"let\s+{_YOU}\s+know",
    r"look\s+into",
    r"check\s+(?:on|in|with|back|whether|if|and)",
    r"(?:find|figure|sort)\s+(?:out|it\s+out|this\s+out|that\s+out)",
    r"investigate",
    r"take\s+care\s+of",
    r"see\s+to\s+it",
    r"(?:post|share|send)\s+(?:an?|the|my|you|it|them|out)\b",
    r"have\s+(?:it|this|that|the\s+\w+|an?\s+\w+)\s+(?:ready|done|finished|for\s+you)",
    r"(?:reach|hand)\s+out\s+to",
)
_REPORTS = re.compile(rf"{_I_WILL}\s+(?:{'|'.join(_REPORTING)})", re.IGNORECASE)
_AND_BACK = re.compile(
    rf"{_I_WILL}\s+[^.!?;\n]{{1,80}}?\b(?:and|then)\s+(?:will\s+)?(?:get\s+back|report|follow\s+up|let\s+{_YOU}\s+know"
    rf"|update\s+{_YOU}|come\s+back|share|send|post)\b",
    re.IGNORECASE,
)
_LATER = (
    r"(?:later|soon|shortly|tomorrow|tonight|overnight|afterwards|this\s+(?:morning|afternoon|evening|week)"
    r"|next\s+(?:week|month|\w+day)|(?:on|by|before|until)\s+(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday"
    r"|noon|midnight|tomorrow|tonight|eod|end\s+of|cob|close|the\s+end|\d)|by\s+then|in\s+(?:an?|the\s+next|\d+|a\s+few)"
    r"\s*(?:minutes?|mins?|hours?|hrs?|days?|weeks?|few)?|within\s+\w+|as\s+soon\s+as|once\b|when\b|after\b"
    r"|first\s+thing|asap)"
)
_NO_DEED = r"(?!(?:be|see|talk|speak|need|have\s+to|probably|likely|maybe|assume|guess|think|miss|know|leave\s+it)\b)"
_SOMETIME = re.compile(rf"{_I_WILL}\s+{_NO_DEED}\w[^.!?;\n]{{0,200}}?\b{_LATER}", re.IGNORECASE)
_PLAIN = re.compile(
    r"\b(?:I\s+promise\s+(?:to|you|I|that)|you\s+have\s+my\s+word|stay\s+tuned|more\s+(?:to\s+come|to\s+follow|soon)"
    r"|^\W*will\s+(?:get\s+back|follow\s+up|report\s+back|keep\s+you\s+(?:posted|updated|informed))"
    r"|you(?:'ll|\s+will)\s+(?:have\s+(?:it|an?|the)\b[^.!?;\n]{0,80}\bby|hear\s+(?:back\s+)?from\s+(?:me|us))"
    r"|expect\s+(?:an?|my|the)\s+(?:update|answer|reply|report)\b)",
    re.IGNORECASE,
)
_PATTERNS = (_REPORTS, _AND_BACK, _SOMETIME, _PLAIN)

_NOT_MEANT = re.compile(
    r"\bif\s+(?:you|that|it|anyone|needed|necessary|so\b|I\s+should)|\bunless\b"
    r"|\b(?:should|shall|may|can|could|do\s+you\s+want|would\s+you\s+like)\s+(?:I|we|me)\b"
    r"|\b(?:happy|glad|able|unable)\s+to\b|\b(?:will|'ll|shall)\s+(?:not|never)\b|\bwon't\b|\bcan(?:not|'t)\s+promise\b"
    r"|\b\w+\s+(?:said|says|wrote|writes|asked|told|mentioned)\b|\bI\s+(?:said|wrote|promised|told)\b"
    r"|\bwhen(?:ever)?\s+you\s+(?:ask|need|want)\b",
    re.IGNORECASE,
)


def commitment(text: str) -> str:
    """Return the first sentence of ``text`` (plain or HTML) that promises something for later, shortened, or nothing.

    Works in time proportional to the text, of which the first 30,000 characters are looked at.
    """
    for sentence in _sentences(_plain(text[:MAX_TEXT])):
        if sentence.endswith("?") or _NOT_MEANT.search(sentence):
            continue
        if any(pattern.search(sentence) for pattern in _PATTERNS):
            return sentence if len(sentence) <= SHOWN else f"{sentence[: SHOWN - 1]}…"
    return ""


def _plain(text: str) -> str:
    if "<" in text:
        text = _TAG.sub(" ", _BREAK.sub("\n", _QUOTED.sub(" ", text)))
    text = html.unescape(text)
    lines = (line for line in text.replace("’", "'").splitlines() if not line.lstrip().startswith(">"))
    return "\n".join(lines)


def _sentences(text: str) -> list[str]:
    found = (" ".join(match.group().split()) for match in _SENTENCE.finditer(text))
    return [sentence[:500] for sentence in found if sentence]
