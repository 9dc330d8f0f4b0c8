"""Names and addresses of people who were listed as members; messages may name their senders by object id alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

KEPT = 2_000


@dataclass(frozen=True)
class Person:
    """What a member list says of somebody; both may be empty for federated people and guests."""

    name: str = ""
    address: str = ""


class AddressBook:
    """Bounded: who was listed longest ago is forgotten first. For display; it proves nobody's identity."""

    def __init__(self) -> None:
        self._people: dict[str, Person] = {}

    def learn(self, members: Iterable[Mapping[str, Any]]) -> None:
        """Take in rows of a member list."""
        for row in members:
            user_id, name, address = (row.get(key) for key in ("userId", "displayName", "email"))
            if isinstance(user_id, str) and user_id:
                self._people.pop(user_id, None)
                self._people[user_id] = Person(
                    name if isinstance(name, str) else "", address if isinstance(address, str) else ""
                )
        while len(self._people) > KEPT:
            del self._people[next(iter(self._people))]

    def knows(self, user_id: str) -> bool:
        """Whether the person was listed."""
        return user_id in self._people

    def name_of(self, user_id: str) -> str:
        """Return the name, empty when it is not known."""
        return self._people.get(user_id, Person()).name

    def address_of(self, user_id: str) -> str:
        """Return the address, empty when it is not known."""
        return self._people.get(user_id, Person()).address
