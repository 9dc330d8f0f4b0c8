"""What goes out: nothing that Teams would refuse, nothing that scripts, and nothing a reader would miss."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from entrabot_sandbox.compose import new_draft
from entrabot_teams.composing import MAX_BYTES, ContentType, compose, remark
from entrabot_teams.markup import from_markdown, sanitised, tidy
from entrabot_teams.text import html_to_text
from hypothesis import example, given, settings
from hypothesis import strategies as st

from entrabot_host import InvalidArgument

USER = "8b081ef6-4792-4def-b2c9-c363a1bf41d5"
SHOWN = frozenset(
    re.findall(
        r"\w+",
        "a at b blockquote br code div em h1 h2 h3 hr i img li ol p pre s strong sub sup "
        "table tbody td th thead tr u ul",
    )
)
ATTRIBUTES = {"href", "title", "id", "src", "alt", "width", "height", "start", "colspan", "rowspan"}

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '<img src="https://x.example/a.png" onload=alert(1)>',
    "<a href='java\tscript:alert(1)'>x</a>",
    "<a href=data:text/html,x>x</a>",
    "<a href='//x.example'>x</a>",
    "<svg><style><!--</style><img src=x onerror=alert(1)>--></svg>",
    "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=alert(1)&gt;'>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<form action=javascript:x><input type=submit></form>",
    "<p style='background:url(javascript:x)' onclick=x>p</p>",
    '<attachment id="1"></attachment>',
    '<at id="0">Jane</at>',
    '<at id="0"/>',
    '<at id="x">',
    "<at>",
    "<systemEventMessage/>",
    "</div></body></html>",
    "<![CDATA[<script>x</script>]]>",
    "<plaintext>",
    "&lt;script&gt;",
    "&#x3c;script&#x3e;",
    "\x00",
    "\ud800",
    "\u202e",
    "`<script>`",
    "[x](javascript:x)",
    "![x](https://x.example/a.png)",
    "![x](data:image/png;base64,AA==)",
    "[x]: javascript:x\n\n[x]",
    "<javascript:alert(1)>",
    "<https://x.example>",
    "| a | b |\n|---|---|\n| 1<br>2 | 3 |",
    "```\n</code></pre><script>x</script>\n```",
    "> 1\n>> 2",
]
PIECES = (
    st.sampled_from(HOSTILE) | st.text(max_size=12) | st.sampled_from(["<b>", "</b>", "<p>", "<td>", "\n", "&", '"'])
)
TEXTS = st.lists(PIECES, max_size=8).map("".join)


class Elements(HTMLParser):
    """What a client would see."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_comment(self, data: str) -> None:
        raise AssertionError("a comment goes out")

    def handle_decl(self, decl: str) -> None:
        raise AssertionError("a declaration goes out")


def check_harmless(html: str) -> None:
    for tag, attributes in Elements(html).found:
        assert tag in SHOWN, tag
        assert set(attributes) <= ATTRIBUTES, attributes
        assert (attributes.get("href") or "https://").strip().lower().startswith(("https://", "http://", "mailto:"))
        assert (attributes.get("src") or "https://").strip().lower().startswith("https://")


@settings(deadline=None)
@given(TEXTS, st.sampled_from(["html", "markdown", "text"]), st.sampled_from(["", "[EntraBot] "]), st.integers(0, 2))
@example("<at id=0>Jane</at>", "html", "", 1)
@example('a <at id="0">Jane</at>', "markdown", "", 1)
@example("<b>" * 3000, "html", "", 0)
def test_nothing_reaches_graph_that_it_refuses_or_that_scripts(
    text: str, content_type: ContentType, prefix: str, mentioned: int
) -> None:
    mentions = [{"id": number, "name": "Jane", "user_id": USER} for number in range(mentioned)]
    try:
        draft = compose(text, content_type, mentions, prefix)
    except InvalidArgument:
        return
    message = draft.to_graph()
    new_draft(message)  # raises as Graph refuses
    assert len(draft.content.encode()) <= MAX_BYTES
    assert draft.content.startswith(prefix)
    if message["body"]["contentType"] == "html":
        check_harmless(draft.content)
    assert sorted(mention["id"] for mention in draft.mentions) == list(range(mentioned))


@settings(deadline=None)
@given(st.text(max_size=60))
def test_a_remark_shows_its_words_and_nothing_else(text: str) -> None:
    try:
        draft = remark(text, "text")
    except InvalidArgument:
        assert not tidy(text).strip()
        return
    new_draft(draft.to_graph())
    assert [tag for tag, _ in Elements(draft.content).found] == ["p", "em"]


@settings(deadline=None)
@given(st.text(st.characters(min_codepoint=32, exclude_categories=["Cs", "Cn", "Cc"]), max_size=60))
def test_code_in_markdown_keeps_every_character(text: str) -> None:
    shown = html_to_text(sanitised(from_markdown(f"```\nx{text}x\n```")))
    assert shown.replace("\u00a0", " ") == f"x{text}x".replace("\u00a0", " ")


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a\nb", "<p>a<br>\nb</p>\n"),
        ("**b** *i* ~~s~~ `c`", "<p><strong>b</strong> <em>i</em> <s>s</s> <code>c</code></p>\n"),
        ("- x\n- y", "<ul>\n<li>x</li>\n<li>y</li>\n</ul>\n"),
        ("List<String> & <b>", "<p>List&lt;String&gt; &amp; &lt;b&gt;</p>\n"),
        ("[l](https://x.example)", '<p><a href="https://x.example">l</a></p>\n'),
        ('<at id="0">J & K</at> hi', '<p><at id="0">J &amp; K</at> hi</p>\n'),
        ('`<at id="0">J</at>`', '<p><code>&lt;at id="0"&gt;J&lt;/at&gt;</code></p>\n'),
        ("```py\nx < 1\n```", "<pre><code>x &lt; 1\n</code></pre>\n"),
    ],
)
def test_markdown(text: str, html: str) -> None:
    assert compose(text, "markdown", _mentions(text)).content == html


def _mentions(text: str) -> list[dict[str, Any]]:
    return [{"id": 0, "name": "J", "user_id": USER}] if text.startswith("<at") else []


def test_a_table_in_markdown() -> None:
    content = compose("| a | b |\n|---|---|\n| 1<br>2 | 3 |", "markdown", []).content
    assert html_to_text(content) == "a | b\n1\n2 | 3"


@pytest.mark.parametrize(
    ("html", "kept"),
    [
        ("<section>a</section><section>b</section>", "<div>a</div><div>b</div>"),
        ("<h5>a</h5><del>b</del><ins>c</ins><kbd>d</kbd>", "<h3>a</h3><s>b</s><u>c</u><code>d</code>"),
        ("<span style='color:red'>a</span><font color=red>b</font>", "ab"),
        ("<table><tr><td colspan=2>a", '<table><tbody><tr><td colspan="2">a</td></tr></tbody></table>'),
        ("<codeblock class='Python'><code>x</code></codeblock>", "<pre><code>x</code></pre>"),
    ],
)
def test_words_are_not_run_together(html: str, kept: str) -> None:
    assert sanitised(html) == kept


@pytest.mark.parametrize("source", ["data:image/png;base64,AA==", "a.png", "http://x.example/a.png", ""])
def test_an_image_that_nobody_would_see_is_refused(source: str) -> None:
    with pytest.raises(InvalidArgument, match="https"):
        compose(f'look <img src="{source}">', "html", [])


@pytest.mark.parametrize("content_type", ["html", "markdown", "text"])
def test_too_long(content_type: ContentType) -> None:
    with pytest.raises(InvalidArgument, match=str(MAX_BYTES)):
        compose("x" * (MAX_BYTES + 1), content_type, [])


def test_what_grows_over_the_limit_on_the_way_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=str(MAX_BYTES)):
        compose("&" * 20_000, "html", [])
