"""HTML as Teams stores it: harmless elements kept, markup written in one uniform way."""

from __future__ import annotations

from html import escape
from html.parser import HTMLParser

_SILENCED = frozenset({"script", "style"})
_UNWRAPPED = frozenset({"html", "head", "body", "form", "iframe", "object", "embed", "link", "meta", "input", "button"})
_VOID = frozenset({"br", "img", "hr"})


def stored(html: str) -> str:
    """The HTML that a reader gets back for the HTML that a client sent."""
    rewriter = _Rewriter()
    rewriter.feed(html)
    rewriter.close()
    return "".join(rewriter.parts)


def plain(html: str) -> str:
    """The words of some HTML, for a preview."""
    words = _Words()
    words.feed(html)
    words.close()
    return " ".join("".join(words.parts).split())


class _Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.parts.append(" " if tag in ("p", "br", "div", "li") else "")

    def handle_data(self, data: str) -> None:
        self.parts.append(data)


class _Rewriter(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SILENCED:
            self._silent += 1
        elif not self._silent and tag not in _UNWRAPPED:
            kept = "".join(f' {name}="{escape(value or "")}"' for name, value in attrs if _is_kept(name, value))
            self.parts.append(f"<{tag}{kept}>")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _SILENCED:
            self.handle_starttag(tag, attrs)
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in _SILENCED:
            self._silent = max(0, self._silent - 1)
        elif not self._silent and tag not in _UNWRAPPED | _VOID:
            self.parts.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.parts.append(escape(data, quote=False).replace("\xa0", "&nbsp;"))


def _is_kept(name: str, value: str | None) -> bool:
    return not name.startswith("on") and not (value or "").strip().lower().startswith("javascript:")
