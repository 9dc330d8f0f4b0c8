"""Lists of addresses."""

from __future__ import annotations

import pytest
from entrabot_email.addresses import MAX_RECIPIENTS, Recipient, is_address, parse_addresses
from hypothesis import example, given, settings
from hypothesis import strategies as st

from entrabot_host import InvalidArgument

WORD = st.text("abcXYZ019._-+'", min_size=1, max_size=12).filter(lambda word: is_address(f"{word}@a.example"))
LABEL = st.from_regex(r"[a-z0-9](?:[a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
ADDRESS = st.builds(lambda local, one, two: f"{local}@{one}.{two}", WORD, LABEL, LABEL).filter(is_address)
NAME = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")) | st.just(" "), max_size=20)
RECIPIENT = st.builds(Recipient, ADDRESS, NAME.map(lambda name: " ".join(name.split())))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        (" , ;", []),
        ("jane@contoso.com", [("jane@contoso.com", "")]),
        ("a@x.example, b@x.example;c@x.example", [("a@x.example", ""), ("b@x.example", ""), ("c@x.example", "")]),
        ("Jane Doe <jane@contoso.com>", [("jane@contoso.com", "Jane Doe")]),
        ('"Doe, Jane" <jane@contoso.com>, bob@x.example', [("jane@contoso.com", "Doe, Jane"), ("bob@x.example", "")]),
        (r'"Jane \"JD\" <x>" <jane@contoso.com>', [("jane@contoso.com", 'Jane "JD" <x>')]),
        ("<jane@contoso.com>", [("jane@contoso.com", "")]),
        ("A@x.example, a@X.example", [("A@x.example", "")]),
        ("Zoë Ünal <zoe@x.example>", [("zoe@x.example", "Zoë Ünal")]),
        ("first.last+tag@sub.contoso.co.uk", [("first.last+tag@sub.contoso.co.uk", "")]),
    ],
)
def test_lists(text: str, found: list[tuple[str, str]]) -> None:
    assert [(one.address, one.name) for one in parse_addresses(text, "to")] == found


@pytest.mark.parametrize(
    "entry",
    [
        *("jane", "jane@", "@contoso.com", "jane@contoso", "jane@@contoso.com", "jane doe@contoso.com", "a@b..example"),
        *("<jane@contoso.com", "jane@contoso.com>", "Jane <jane@contoso.com> x", "<a@x.example><b@x.example>"),
        *(".a@x.example", "a.@x.example", "a..b@x.example", "a@-x.example", "a@x-.example", "a@[127.0.0.1]"),
        *('"a b"@x.ex', "jané@x.example", "a@exämple.com", "a@x.example\r\nBcc: b@x.example", "a@x.example\x00", "<>"),
        *("a b", "mailto:a@x.ex", "Team: a@x.example", "a@x.example b@x.example", "<script>@x.example"),
        f"{'a' * 320}@x.example",
    ],
)
def test_what_is_no_address_is_named_by_its_place(entry: str) -> None:
    with pytest.raises(InvalidArgument, match=r"cc: entry 2 is no mail address") as refused:
        parse_addresses(f"ok@x.example, {entry}", "cc")
    assert entry not in refused.value.message


def test_too_many() -> None:
    text = ",".join(f"a{number}@x.example" for number in range(MAX_RECIPIENTS + 1))
    with pytest.raises(InvalidArgument, match="more than 100"):
        parse_addresses(text, "to")
    with pytest.raises(InvalidArgument, match="too long"):
        parse_addresses("a@x.example," * 3_000, "to")


@settings(deadline=None)
@given(st.lists(RECIPIENT, max_size=8, unique_by=lambda one: one.key), st.sampled_from([", ", ";", " , ", ",\t"]))
@example([Recipient("a@x.example", 'x"\\,;<y>')], ",")
def test_what_is_written_reads_back(people: list[Recipient], separator: str) -> None:
    written = separator.join(map(_written, people))
    if separator == ",\t":  # a tab is no printable character inside of an entry, but may stand around it
        written = written.replace("\t", " ")
    assert list(parse_addresses(written, "to")) == people


@settings(deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_taken_or_refused(text: str) -> None:
    try:
        found = parse_addresses(text, "to")
    except InvalidArgument:
        return
    assert all(is_address(one.address) for one in found)
    assert all("\n" not in one.name and "\r" not in str(one) for one in found)


@settings(deadline=None)
@given(RECIPIENT)
def test_as_shown_it_can_be_written_again(one: Recipient) -> None:
    (again,) = parse_addresses(str(one), "to")
    assert again.address == one.address


def _written(one: Recipient) -> str:
    if not one.name:
        return one.address
    name = one.name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{name}" <{one.address}>'
