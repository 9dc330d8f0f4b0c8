"""Forms of addresses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrabot_host.identity.addresses import address_forms, decode_guest, is_guest_name, may_be_same, normalise

LOCAL = st.text("abcdefghijklmnopqrstuvwxyz0123456789._-+'", min_size=1, max_size=20)
DOMAIN = st.lists(st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=8), min_size=2, max_size=4)


@given(LOCAL, DOMAIN.map(".".join), st.sampled_from(["#EXT#@", "#ext#@", "#Ext#@"]))
def test_a_guest_name_decodes_to_the_home_address(local: str, domain: str, mark: str) -> None:
    guest = f"{local}_{domain}{mark}contoso.onmicrosoft.com"
    assert decode_guest(guest) == f"{local}@{domain}"
    assert is_guest_name(guest)
    assert {f"{local}@{domain}", normalise(guest)} <= address_forms({"userPrincipalName": guest})


@given(st.text())
def test_decoding_never_invents(text: str) -> None:
    decoded = decode_guest(text)
    if decoded:
        local, _, domain = decoded.rpartition("@")
        assert local
        assert "." in domain
        assert normalise(text).startswith(f"{local}_{domain}#ext#@")


@pytest.mark.parametrize(
    "name",
    [
        "alice@contoso.example",
        "alice#EXT#@contoso.example",
        "_partner.com#EXT#@x.example",
        "a_partner#EXT#@x.example",
        "",
    ],
)
def test_what_is_no_guest_name(name: str) -> None:
    assert decode_guest(name) == ""


@given(st.text())
def test_only_ascii_letters_and_outer_space_change(text: str) -> None:
    assert len(normalise(text)) == len(text.strip())
    for before, after in zip(text.strip(), normalise(text), strict=True):
        assert after == (before.lower() if before.isascii() else before)


@given(st.text())
def test_normalising_twice_changes_nothing(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


@pytest.mark.parametrize(
    "lookalike", ["\u212aim@x.example", "k\u0131m@x.example", "k\u0456m@x.example", "kim@x.example\u200b"]
)
def test_lookalikes_name_nobody(lookalike: str) -> None:
    assert normalise(lookalike) not in address_forms({"mail": "kim@x.example"})


def test_all_forms_of_a_user() -> None:
    graph_user = {
        "userPrincipalName": "alice_Home.example#EXT#@contoso.onmicrosoft.com",
        "mail": None,
        "otherMails": ["Alice.Other@home.example", None],
        "proxyAddresses": ["SMTP:Alice@Home.example", "smtp:al@home.example", "sip:al-sip@home.example", "X500:/o=x@y"],
        "identities": [
            {"signInType": "federated", "issuerAssignedId": "Alice.Smith@home.example"},
            {"signInType": "federated", "issuerAssignedId": None},
            "nonsense",
        ],
    }
    assert address_forms(graph_user) == {
        "alice_home.example#ext#@contoso.onmicrosoft.com",
        "alice@home.example",
        "alice.other@home.example",
        "al@home.example",
        "alice.smith@home.example",
    }


@given(
    st.dictionaries(
        st.sampled_from(["userPrincipalName", "mail", "otherMails", "proxyAddresses"]),
        st.none() | st.text() | st.integers(),
    )
)
def test_odd_users_break_nothing(graph_user: dict[str, object]) -> None:
    assert all("@" in form for form in address_forms(graph_user))


def test_doubt_is_wider_than_equality() -> None:
    for other in (
        "KIM@x.example",
        "\u212aim@x.example",
        "kim+files@x.example",
        "\uff4bim@x.example",
        " kim@X.example ",
    ):
        assert may_be_same("kim@x.example", other)
    assert not may_be_same("kim@x.example", "tim@x.example")


UNSEEN = (
    "\u00ad\u034f\u115f\u1160\u17b4\u180e\u200b\u200d\u202e\u2060\u2800\u3164\ufe0f\ufeff\uffa0\U000e0061\U000e0100"
)


@pytest.mark.parametrize("unseen", UNSEEN, ids=ascii)
def test_what_nobody_sees_names_nobody_and_raises_doubt(unseen: str) -> None:
    for hidden in (f"k{unseen}im@x.example", f"kim@x{unseen}.example", f"kim{unseen}+files@x.example"):
        assert normalise(hidden) not in address_forms({"mail": "kim@x.example"})
        assert may_be_same("kim@x.example", hidden)
        assert may_be_same(hidden, "kim@x.example")
        assert not may_be_same("tim@x.example", hidden)


@given(LOCAL, DOMAIN.map(".".join))
def test_equal_addresses_may_be_the_same(local: str, domain: str) -> None:
    address = f"{local}@{domain}"
    assert may_be_same(address, normalise(address.upper()))
