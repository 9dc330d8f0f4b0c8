"""Addresses of people whose membership was listed; Graph's messages name their senders by object id alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

KEPT = 2_000


class AddressBook:
    """Bounded: who was listed longest ago is forgotten first. For display; an address proves nobody's identity."""

    def __init__(self) -> None:
        self._addresses: dict[str, str] = {}

    def learn(self, members: Iterable[Mapping[str, Any]]) -> None:
        """Take in rows of a member list; federated people and guests may have no address there."""
        for row in members:
            user_id, address = row.get("userId"), row.get("email")
            if isinstance(user_id, str) and isinstance(address, str) and user_id and address:
                self._addresses.pop(user_id, None)
                self._addresses[user_id] = address
        while len(self._addresses) > KEPT:
            del self._addresses[next(iter(self._addresses))]

    def address_of(self, user_id: str) -> str:
        """Return the address, empty when it is not known."""
        return self._addresses.get(user_id, "")
