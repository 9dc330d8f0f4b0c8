"""What goes out as HTML: Markdown rendered, and everything reduced to what Teams shows and no client executes.

All functions parse: call them in a worker thread.
"""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

from entrabot_host import InvalidArgument
from entrabot_teams.text import image_sources

if TYPE_CHECKING:
    from markdown_it.rules_inline import StateInline

_KEPT = (
    "a at b blockquote br code div em h1 h2 h3 hr i img li ol p pre s strong sub sup table tbody td th thead tr u ul"
)
_DIV = (
    "address article aside center dd details dl dt fieldset figcaption figure footer form header main nav section "
    "summary"
)
_WRITTEN_AS = {
    **dict.fromkeys(_DIV.split(), "div"),
    **dict.fromkeys(("h4", "h5", "h6"), "h3"),
    **dict.fromkeys(("kbd", "samp", "tt", "var"), "code"),
    **dict.fromkeys(("del", "strike"), "s"),
    "codeblock": "pre",
    "ins": "u",
}
"""Elements that Teams does not know and that part words or mean something: dropped tags would run words together."""
_ATTRIBUTES = {
    "a": {"href", "title"},
    "at": {"id"},
    "img": {"src", "alt", "width", "height"},
    "ol": {"start"},
    "td": {"colspan", "rowspan"},
    "th": {"colspan", "rowspan"},
}
_SILENCED = "head iframe math noembed noframes noscript object script select style svg template textarea title xmp"
_LINKS = ("https://", "http://", "mailto:")
_IMAGES = ("https://",)
_RENAMED_TAG = re.compile(rf"<(/?)({'|'.join(_WRITTEN_AS)})>")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]")
_TAG_IN_MARKDOWN = re.compile(r'<at id="?(\d{1,9})"?>([^<>\n]{1,200})</at>|<br ?/?>')


def tidy(text: str) -> str:
    """Return the text without control characters and halves of surrogate pairs, which no message can hold."""
    return _CONTROLS.sub("", text.encode("utf-8", "replace").decode())


def sanitised(html: str) -> str:
    """Return HTML of the elements and attributes that Teams shows, always well-formed.

    Scripts, styles, comments and addresses other than web and mail links are gone. Raises `InvalidArgument` for an
    image that nobody could see.
    """
    import nh3

    clean = nh3.clean(
        html,
        tags={*_KEPT.split(), *_WRITTEN_AS},
        clean_content_tags=set(_SILENCED.split()),
        attributes=_ATTRIBUTES,
        attribute_filter=_kept_value,
        url_schemes={"https", "http", "mailto"},
        link_rel=None,
    )
    if not all(image_sources(clean)):
        raise InvalidArgument(
            "An image of the message has no https address, so nobody would see it.",
            remedy="Leave the image out, or link to it; data: and relative addresses do not work in a chat.",
        )
    return _RENAMED_TAG.sub(lambda tag: f"<{tag[1]}{_WRITTEN_AS[tag[2]]}>", clean)


def _kept_value(tag: str, name: str, value: str) -> str | None:
    """Return an attribute's value if it may go out; relative addresses lead nowhere in a chat."""
    allowed = {"href": _LINKS, "src": _IMAGES}.get(name)
    return value if allowed is None or value.strip().lower().startswith(allowed) else None


def from_markdown(text: str) -> str:
    """Return the HTML of Markdown with tables and strikethrough; line breaks count.

    HTML in it is shown as it is written, except ``<at id="0">Name</at>`` and ``<br>``. Not sanitised yet.
    """
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "breaks": True, "maxNesting": 100})
    parser.enable(["table", "strikethrough"])
    parser.inline.ruler.before("autolink", "teams_tag", _teams_tag)
    return str(parser.render(text))


def _teams_tag(state: StateInline, silent: bool) -> bool:
    """A rule of the Markdown parser: a mention, or a line break within a table cell."""
    found = _TAG_IN_MARKDOWN.match(state.src, state.pos) if state.src[state.pos] == "<" else None
    if found is None:
        return False
    if not silent:
        token = state.push("html_inline", "", 0)
        token.content = f'<at id="{found[1]}">{escape(found[2], quote=False)}</at>' if found[1] else "<br>"
    state.pos = found.end()
    return True


def note(text: str) -> str:
    """Return the HTML of a short remark in italics."""
    return f"<p><em>{escape(' '.join(text.split()), quote=False)}</em></p>"
