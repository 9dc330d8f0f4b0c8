"""Addresses of people: the forms under which Entra knows one, and comparing them.

An address only ever names somebody. It proves nothing.
"""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_GUEST_MARK = "#ext#@"
_BLANK_LETTERS = frozenset("\u115f\u1160")
"""Letters that show nothing, in the form that NFKC gives them."""


def normalise(address: str) -> str:
    """Return the form in which addresses are compared: trimmed, ASCII letters in lower case.

    Other letters stay as they are, since lower-casing turns some of them into ASCII ones: an address that only looks
    like a sponsor's must not become it.
    """
    return address.strip().translate(_ASCII_LOWER)


def decode_guest(user_name: str) -> str:
    """Return the home address in the UPN of a guest (``jane_partner.com#EXT#@...``), or nothing."""
    prefix, mark, _ = normalise(user_name).partition(_GUEST_MARK)
    local, underscore, domain = prefix.rpartition("_")
    return f"{local}@{domain}" if mark and underscore and local and _is_domain(domain) else ""


def _is_domain(text: str) -> bool:
    return "." in text.strip(".") and "@" not in text


def is_guest_name(user_name: str) -> bool:
    """Whether this is the UPN of a guest."""
    return _GUEST_MARK in normalise(user_name)


def address_forms(user: Mapping[str, Any]) -> frozenset[str]:
    """Return all addresses of a Graph user: UPN, decoded guest UPN, mail, other mails, proxies, identities."""
    user_name = _text(user.get("userPrincipalName"))
    found = [user_name, decode_guest(user_name), _text(user.get("mail")), *_texts(user.get("otherMails"))]
    found += [proxy[5:] for proxy in _texts(user.get("proxyAddresses")) if normalise(proxy[:5]) == "smtp:"]
    for identity in user.get("identities") or ():
        assigned = _text(identity.get("issuerAssignedId")) if isinstance(identity, Mapping) else ""
        found += [assigned, decode_guest(assigned)]
    return addresses(found)


def addresses(found: Iterable[str]) -> frozenset[str]:
    """Return those that are addresses, in the form in which they are compared."""
    return frozenset(form for form in map(normalise, found) if "@" in form)


def may_be_same(one: str, other: str) -> bool:
    """Whether two addresses may reach the same person: wider than `normalise`, for refusing in case of doubt.

    Letter case in any script, look-alike widths and forms, characters that nobody sees, and a ``+tag`` do not count.
    """
    return _wide(one) == _wide(other)


def _wide(address: str) -> str:
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", address.strip()).casefold())
    local, at, domain = "".join(filter(_counts, folded)).rpartition("@")
    return f"{local.partition('+')[0]}{at}{domain}"


def _counts(char: str) -> bool:
    """Whether a reader is sure to see the character: a letter or digit of any script, or an ASCII sign."""
    return "!" <= char <= "~" or (char.isalnum() and char not in _BLANK_LETTERS)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(values: object) -> list[str]:
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []
