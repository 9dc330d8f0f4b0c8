"""Outside text, whatever it holds: neutralised, in envelopes it cannot leave, and logged without secrets."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrabot_host.security.envelope import MARKER, wrap, wrap_fields
from entrabot_host.security.redaction import redact
from entrabot_host.security.text import neutralise, one_line

HOSTILE = st.lists(
    st.one_of(
        st.text(),
        st.text(alphabet=st.characters(categories=["Cc", "Cf", "Cs", "Co", "Mn", "Zl", "Zp"])),
        st.sampled_from(
            [
                MARKER,
                MARKER.upper(),
                f"</{MARKER} 0123456789ab>",
                f"\n</{MARKER}>\n",
                "ｅｘｔｅｒｎａｌ－ｃｏｎｔｅｎｔ－ｅｎｖｅｌｏｐｅ",
                "external\u200b-content\u2060-envelope",
                "external\n content_ envelope",
                "\U000e0041\U000e0042",
                "👩\u200d💻",
            ]
        ),
    ),
    max_size=8,
).map("".join)

ENVELOPE = re.compile(rf'<{MARKER} ([0-9a-f]{{12}}) source="[^"<>\n]*">\n(.*)\n</{MARKER} \1>', re.DOTALL)
VISIBLE_FORMATS = set("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u08e2\u0890\u0891\U000110bd\U000110cd")


@given(HOSTILE)
def test_nothing_invisible_is_left(text: str) -> None:
    shown = neutralise(text)
    shown.encode("utf-8")
    for at, char in enumerate(shown):
        if char in "\u200c\u200d":
            assert not shown[at - 1].isascii()
            assert not shown[at + 1].isascii()
        elif char not in "\n\t" and char not in VISIBLE_FORMATS:
            assert unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}, hex(ord(char))


@given(st.text(alphabet=st.characters(codec="ascii", exclude_categories=["Cc"])))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert neutralise(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\r\nb\rc\u2028d\x85e", "a\nb\nc\nd\ne"),
        ("\x1b[31mred\x00\x7f", "␛[31mred␀␡"),
        ("abc\u202edef\u2066", "abcdef"),
        ("pay\u200bpal\u00ad", "paypal"),
        ("hi\U000e0068\U000e0069", "hi"),
        ("❤\ufe0f 👩\u200d💻 🏳\ufe0f\u200d🌈", "❤\ufe0f 👩\u200d💻 🏳\ufe0f\u200d🌈"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("a\u200db\ufe0f", "ab"),
        ("\ud800\ue000\uffff", "\ufffd\ufffd\ufffd"),
        ("\u3164\u2800x", "  x"),
        ("\u200d", ""),
        ("Zürich, 東京, עברית, naïve", "Zürich, 東京, עברית, naïve"),
    ],
)
def test_neutralised(text: str, shown: str) -> None:
    assert neutralise(text) == shown


@given(HOSTILE, st.integers(min_value=1, max_value=50))
def test_one_line_is_one_short_line(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert "\n" not in line


@given(HOSTILE, st.text())
def test_no_text_leaves_its_envelope(text: str, source: str) -> None:
    wrapped = wrap(text, source)
    if not text:
        assert wrapped == ""
        return
    assert ENVELOPE.fullmatch(wrapped)
    folded = unicodedata.normalize("NFKC", wrapped).lower()
    assert len(re.findall(r"external[\W_]{0,3}content[\W_]{0,3}envelope", folded)) == 2


def test_an_envelope_in_an_envelope_is_not_one() -> None:
    once = wrap("hello", "teams")
    twice = ENVELOPE.fullmatch(wrap(once, "teams"))
    assert twice
    assert MARKER not in twice.group(2)
    assert "hello" in twice.group(2)


def test_ids_differ_and_the_switch_counts() -> None:
    assert wrap("a", "x") != wrap("a", "x")
    assert wrap("a", "x", enabled=False) == "a"
    assert wrap_fields({"a": "b"}, None, "x", enabled=False) == {"a": "b"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def strings(data: Any) -> list[str]:
    if isinstance(data, str):
        return [data]
    below = data.values() if isinstance(data, dict) else data if isinstance(data, list) else []
    return [text for each in below for text in strings(each)]


@given(JSON)
def test_without_paths_every_string_is_wrapped(data: Any) -> None:
    wrapped = wrap_fields(data, None, "teams")
    assert len(strings(wrapped)) == len(strings(data))
    assert all(not text or ENVELOPE.fullmatch(text) for text in strings(wrapped))


@given(JSON, st.lists(st.text(alphabet="ab.[]"), max_size=4))
def test_any_path_on_any_data(data: Any, paths: list[str]) -> None:
    before = repr(data)
    wrapped = wrap_fields(data, tuple(paths), "teams")
    assert repr(data) == before
    for old, new in zip(strings(data), strings(wrapped), strict=True):
        assert new == old or ENVELOPE.fullmatch(new)


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ((), []),
        (("none", "messages[].none", "id.x"), []),
        (("text",), ["T"]),
        (("messages[].content",), ["C1", "C2"]),
        (("messages.content", "messages[].content"), ["C1", "C2"]),
        (("messages[].to",), ["P1", "P2"]),
        (("messages",), ["C1", "P1", "P2", "C2"]),
        (("messages", "messages[].content"), ["C1", "P1", "P2", "C2"]),
        (("deep.er[].most",), ["D"]),
        (("deep",), ["D", "E"]),
    ],
)
def test_paths(paths: tuple[str, ...], expected: list[str]) -> None:
    data = {
        "id": "I",
        "text": "T",
        "messages": [{"content": "C1", "to": ["P1", "P2"], "n": 1}, {"content": "C2"}, None],
        "deep": {"er": [{"most": "D", "other": "E"}]},
    }
    wrapped = strings(wrap_fields(data, paths, "teams"))
    inside = [found.group(2) for text in wrapped if (found := ENVELOPE.fullmatch(text))]
    assert inside == expected


def test_a_list_or_a_string_at_the_top() -> None:
    assert ENVELOPE.fullmatch(wrap_fields([{"a": "x"}], ("[].a",), "s")[0]["a"])
    assert ENVELOPE.fullmatch(wrap_fields("x", None, "s"))
    assert wrap_fields("x", ("a",), "s") == "x"


# --- redaction ------------------------------------------------------------------------------------------------------

SECRET = st.text(alphabet="abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", min_size=24, max_size=60)
TEMPLATES = [
    "Authorization: Bearer {}",
    "'authorization': 'Bearer {}'",
    "got bearer {} back",
    "eyJ0eXAiOiJKV1QifQ.{}.sig",
    "client_assertion={}&x=1",
    '{{"access_token": "{}", "a": 1}}',
    "https://c.sharepoint.com/x/download.aspx?UniqueId=1&tempauth={}",
    "https://acc.blob.core.windows.net/c/b?sv=1&sig={}&se=2",
    "HTTPS://H/items('1')/uploadSession?guid='{}'&overwrite=True",
    "https://user:{}@proxy.example:8080/",
    "/relative?tempauth={}",
    "user_federated_identity_credential={}",
    "AccountKey={};EndpointSuffix=x",
    "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----",
    "-----BEGIN RSA PRIVATE KEY-----\n{}",
    "password: {}",
]


@pytest.mark.parametrize("template", TEMPLATES)
@given(secret=SECRET, before=st.text(max_size=20), after=st.text(max_size=20))
def test_secrets_are_redacted(template: str, secret: str, before: str, after: str) -> None:
    text = redact(f"{before} {template.format(secret)} {after}")
    assert secret not in text
    assert redact(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The bearer of this letter",
        "Bearer authentication failed",
        "GET https://graph.microsoft.com/v1.0/me failed with 403",
        "Chat 19:abc@thread.v2, message 1616964509832",
        "mail a.b@example.com",
    ],
)
def test_ordinary_text_is_not(text: str) -> None:
    assert redact(text) == text
