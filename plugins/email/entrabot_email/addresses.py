"""Lists of mail addresses as people and models write them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.errors import MessageError
from email.headerregistry import Address
from email.utils import formataddr
from typing import Any

from entrabot_host import InvalidArgument

MAX_RECIPIENTS = 100
_MAX_LIST = 20_000
_LOCAL = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")
_DOMAIN = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])"
)
_ENTRY = re.compile(r"(?P<name>[^<>]*)<(?P<address>[^<>]*)>")
_REMEDY = "Write addresses like jane@contoso.com or Jane Doe <jane@contoso.com>, separated by commas."


@dataclass(frozen=True)
class Recipient:
    """Somebody who gets a mail."""

    address: str
    name: str = ""

    @property
    def key(self) -> str:
        """The form in which addresses are compared."""
        return self.address.lower()

    def __str__(self) -> str:
        return formataddr((self.name, self.address)) if self.name.isascii() else f'"{self.name}" <{self.address}>'

    def to_graph(self) -> dict[str, Any]:
        """Return Graph's ``recipient``."""
        inner = {"address": self.address, **({"name": self.name} if self.name else {})}
        return {"emailAddress": inner}


def parse_addresses(text: str, parameter: str) -> tuple[Recipient, ...]:
    """Return the people that a list names, each once; commas and semicolons divide it.

    Raises `InvalidArgument`, which tells the entry by its number and never repeats it.
    """
    if len(text) > _MAX_LIST:
        raise InvalidArgument(f"{parameter} is too long.", remedy=_REMEDY)
    found: dict[str, Recipient] = {}
    for number, entry in enumerate(_entries(text), 1):
        recipient = _recipient(entry)
        if recipient is None:
            raise InvalidArgument(f"{parameter}: entry {number} is no mail address.", remedy=_REMEDY)
        found.setdefault(recipient.key, recipient)
    if len(found) > MAX_RECIPIENTS:
        raise InvalidArgument(
            f"{parameter} names more than {MAX_RECIPIENTS} people.", remedy="Write to a distribution list instead."
        )
    return tuple(found.values())


def is_address(text: str) -> bool:
    """Whether this is one address, without a name."""
    local, at, domain = text.rpartition("@")
    if not at or len(text) > 320 or not _LOCAL.fullmatch(local) or not _DOMAIN.fullmatch(domain):
        return False
    try:
        return Address(addr_spec=text).addr_spec == text
    except (MessageError, ValueError, IndexError):
        return False


def _entries(text: str) -> Iterator[str]:
    """Divide at commas and semicolons outside of quotation marks and angle brackets."""
    entry: list[str] = []
    quoted = escaped = angled = False
    for char in text:
        if char in ",;" and not quoted and not angled:
            yield from filter(None, ["".join(entry).strip()])
            entry = []
            continue
        entry.append(char)
        if escaped:
            escaped = False
        elif quoted and char == "\\":
            escaped = True
        elif char == '"':
            quoted = not quoted
        elif not quoted:
            angled = char == "<" or (angled and char != ">")
    yield from filter(None, ["".join(entry).strip()])


def _recipient(entry: str) -> Recipient | None:
    if not entry.isprintable():
        return None
    name, address = "", entry
    if match := _ENTRY.fullmatch(_unquoted_angles(entry)):
        name, address = _name(entry[: match.end("name")]), match["address"].strip()
    return Recipient(address, name) if is_address(address) else None


def _unquoted_angles(entry: str) -> str:
    """Hide angle brackets inside of a quoted name; positions stay."""
    return re.sub(r'"(?:[^"\\]|\\.)*"', lambda match: re.sub(r"[<>]", "_", match.group()), entry)


def _name(text: str) -> str:
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] == '"':
        text = re.sub(r"\\(.)", r"\1", text[1:-1])
    return " ".join(text.split())[:200]
