"""Teams' HTML to plain text, and the mention tags in it.

The parser is justhtml's event stream: it never recurses and takes time in proportion to its input, which matters for
text that strangers write. All functions hold the interpreter for some milliseconds: call them in a worker thread.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

MAX_HTML = 200_000
"""Characters of HTML that are looked at; Teams' own limit for a message is about 28 KB."""

_BREAKING = frozenset(
    {
        "address",
        "article",
        "blockquote",
        "codeblock",
        "dd",
        "div",
        "dl",
        "dt",
        "figure",
        "footer",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
        "hr",
        "ol",
        "p",
        "pre",
        "section",
        "table",
        "tr",
        "ul",
    }
)
_UNSEEN = frozenset({"head", "noscript", "script", "style", "template", "title"})
_VERBATIM = ("pre", "codeblock")
_BLANK_LINES = re.compile(r"\n{3,}")
_SPACES = re.compile(r"[ \t\n\r\f\v\u00a0]+")
_LINKED = ("https://", "http://", "mailto:")


def html_to_text(html: str, attachments: Mapping[str, str] | None = None) -> str:
    """Return the text a reader of the message sees.

    Links show their target, images the address that `view_image` takes. attachments: what stands for an attachment
    tag, by its id; ids without an entry leave nothing.
    """
    from justhtml import stream

    writer = _Writer(attachments or {})
    for event in stream(html[:MAX_HTML]):
        match event:
            case ("start", (name, attributes)):
                writer.start(name.lower(), attributes)
            case ("end", name):
                writer.end(name.lower())
            case ("text", text):
                writer.text(text)
    return writer.finish()


def mention_tags(html: str) -> list[str]:
    """Return the ``id`` of every ``<at>`` tag in order, empty for a tag without one."""
    return _attributes(html, "at", "id")


def image_sources(html: str) -> list[str]:
    """Return the ``src`` of every image in order, empty for one without."""
    return _attributes(html[:MAX_HTML], "img", "src")


def _attributes(html: str, element: str, attribute: str) -> list[str]:
    from justhtml import stream

    found = []
    for event in stream(html):
        match event:
            case ("start", (name, attributes)) if name.lower() == element:
                found.append((attributes.get(attribute) or "").strip())
    return found


class _Writer:
    """Collects text, line by line, with white space collapsed outside ``pre``."""

    def __init__(self, attachments: Mapping[str, str]) -> None:
        self._attachments = attachments
        self._parts: list[str] = []
        self._at_line_start = True
        self._owed_space = False
        self._preformatted = 0
        self._unseen = ""
        self._links: list[tuple[str, int]] = []

    def start(self, name: str, attributes: Mapping[str, str | None]) -> None:
        if self._unseen:
            return
        if name in _UNSEEN:
            self._unseen = name
        elif name in _BREAKING:
            self._break()
            self._preformatted += name in _VERBATIM
        elif name == "br":
            self._newline()
        elif name == "li":
            self._break()
            self._write("- ")
        elif name in ("td", "th"):
            self._write("" if self._at_line_start else " | ")
        elif name == "a":
            self._links.append((attributes.get("href") or "", len(self._parts)))
        else:
            self._replaced(name, attributes)

    def _replaced(self, name: str, attributes: Mapping[str, str | None]) -> None:
        """Write what stands for an element that shows something other than text."""
        if name == "img":
            source = attributes.get("src") or ""
            self.text(f"[image: {source}]" if source.startswith("https://") else "[image]")
        elif name == "emoji":
            self.text(attributes.get("alt") or "")
        elif name == "attachment" and (shown := self._attachments.get(attributes.get("id") or "")):
            self._break()
            self.text(shown)
            self._break()

    def end(self, name: str) -> None:
        if self._unseen:
            self._unseen = "" if name == self._unseen else self._unseen
        elif name in _BREAKING or name == "li":
            self._break()
            if name in _VERBATIM:
                self._preformatted = max(0, self._preformatted - 1)
        elif name == "a" and self._links:
            self._close_link(*self._links.pop())

    def _close_link(self, target: str, since: int) -> None:
        shown = "".join(self._parts[since:]).strip()
        if target.startswith(_LINKED) and shown not in (target, target.removeprefix("mailto:")):
            self.text(f" ({target})")

    def text(self, text: str) -> None:
        if self._unseen or not text:
            return
        if self._preformatted:
            self._write(text.replace("\r\n", "\n"))
            return
        words = _SPACES.sub(" ", text)
        if words.startswith(" "):
            self._owed_space = True
        if words.strip():
            self._write(words.strip(" "))
            self._owed_space = words.endswith(" ")

    def _write(self, text: str) -> None:
        if not text:
            return
        if self._owed_space and not self._at_line_start and not text.startswith((" ", "\n")):
            self._parts.append(" ")
        self._owed_space = False
        self._parts.append(text)
        self._at_line_start = text.endswith("\n")

    def _break(self) -> None:
        if not self._at_line_start:
            self._newline()

    def _newline(self) -> None:
        self._owed_space = False
        self._parts.append("\n")
        self._at_line_start = True

    def finish(self) -> str:
        lines = "".join(self._parts).replace("\u00a0", " ").split("\n")
        return _BLANK_LINES.sub("\n\n", "\n".join(line.rstrip() for line in lines)).strip("\n ")
