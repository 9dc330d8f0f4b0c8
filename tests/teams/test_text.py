"""HTML to plain text."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from entrabot_teams.text import html_to_text, mention_tags
from entrabot_teams.wire import messages_of
from hypothesis import given
from hypothesis import strategies as st

TAGS = st.sampled_from(["b", "p", "div", "ul", "li", "a", "pre", "at", "td", "tr", "attachment", "svg", "x-y"])
PIECES = st.one_of(
    st.text(max_size=8),
    TAGS.map(lambda name: f"<{name}>"),
    TAGS.map(lambda name: f"</{name}>"),
    st.sampled_from(['<a href="https://x.example/">', '<img src="https://x.example/i">', "&amp;", "&#", "<!--", "<"]),
)


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ('<p>Hi <at id="0">Jane</at> &amp; all&nbsp;there</p>', "Hi Jane & all there"),
        ("<p>a</p><p>b</p>", "a\nb"),
        ("a<br>b<br/>c", "a\nb\nc"),
        ("<b>bo</b>ld and <i> x </i>y", "bold and x y"),
        ("<ul><li>one</li><li>two</li></ul>after", "- one\n- two\nafter"),
        ("<pre>a\n  b</pre>", "a\n  b"),
        ("<codeblock><code>if x:<br>  y</code></codeblock>", "if x:\n  y"),
        ("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>", "a | b\nc"),
        ('<a href="https://evil.example/">https://bank.example</a>', "https://bank.example (https://evil.example/)"),
        ('<a href="https://x.example">https://x.example</a>', "https://x.example"),
        ('<a href="javascript:x()">here</a>', "here"),
        ('<img src="https://graph.example/$value" alt="i">', "[image: https://graph.example/$value]"),
        ('<img src="data:image/png;base64,AAAA">', "[image]"),
        ('<emoji alt="🙂"></emoji>', "🙂"),
        ("<script>alert(1)</script><style>p{}</style>x", "x"),
        ('<attachment id="1"></attachment><attachment id="2"></attachment>y', "[file: f]\ny"),
        ("1 &lt; 2 &amp;amp; <systemEventMessage/>", "1 < 2 &amp;"),
        ("<p>&nbsp;</p>", ""),
        ("", ""),
    ],
)
def test_examples(html: str, text: str) -> None:
    assert html_to_text(html, {"2": "[file: f]"}) == text


@given(st.lists(PIECES, max_size=40).map("".join))
def test_any_markup_gives_tidy_text(html: str) -> None:
    text = html_to_text(html)
    assert text == text.strip("\n ")
    assert "\n\n\n" not in text


@given(st.text(alphabet=st.characters(blacklist_categories=["Cs"], blacklist_characters="<&\0\r"), max_size=60))
def test_words_come_through(plain: str) -> None:
    assert html_to_text(f"<p>{plain}</p>").split() == plain.split()


@given(st.lists(PIECES, max_size=40).map("".join))
def test_looking_for_tags_never_fails(html: str) -> None:
    assert all(isinstance(found, str) for found in mention_tags(html))


@pytest.mark.parametrize("piece", ["<div>", "<ul><li>", "<b><i>", '<a href="https://x.example">', "</a>", "<svg>"])
def test_deep_nesting_needs_no_stack(piece: str) -> None:
    depth = sys.getrecursionlimit() * 5
    assert html_to_text(piece * depth + "end").endswith("end")


# --- whole messages ---------------------------------------------------------------------------------------------------


def message(content: str, *attachments: dict[str, Any]) -> str:
    row = {
        "id": "1",
        "messageType": "message",
        "createdDateTime": "2026-01-01T00:00:00Z",
        "from": {"user": {"id": "alice"}},
        "body": {"contentType": "html", "content": content},
        "attachments": list(attachments),
    }
    (found,) = messages_of([row])
    return found.text()


def quotation(**content: Any) -> dict[str, Any]:
    return {"id": "9", "contentType": "messageReference", "content": json.dumps({"messageId": "9", **content})}


SENDER = {"user": {"displayName": "Bob\nB."}}


@pytest.mark.parametrize(
    ("attachment", "shown"),
    [
        (quotation(messagePreview="shall\nwe?", messageSender=SENDER), "[quote of Bob B.: shall we?]\nyes"),
        (quotation(messagePreview="x" * 500), f"[quote: {'x' * 200}]\nyes"),
        (quotation(messagePreview=None, messageSender=None), "yes"),
        ({"id": "9", "contentType": "messageReference", "content": "{"}, "yes"),
        (
            {"id": "9", "contentType": "reference", "name": "plan.docx", "contentUrl": "https://x.example/p"},
            "[file: plan.docx https://x.example/p]\nyes",
        ),
        ({"id": "9", "contentType": "application/vnd.microsoft.card.adaptive", "name": "Poll"}, "[card: Poll]\nyes"),
        ({"id": "9", "contentType": "forwardedMessageReference"}, "[forwarded message]\nyes"),
    ],
)
def test_attachments_and_quotations_are_told(attachment: dict[str, Any], shown: str) -> None:
    assert message('<attachment id="9"></attachment><p>yes</p>', attachment) == shown


def test_links_and_images_keep_their_addresses() -> None:
    content = '<p>See <a href="https://x.example/a">this</a> <img src="https://graph.example/i/$value"></p>'
    assert message(content) == "See this (https://x.example/a) [image: https://graph.example/i/$value]"
