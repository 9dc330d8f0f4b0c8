"""Home identities of sponsors who are guests in the agent's tenant: given by a setting, or learnt once and pinned."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any, Protocol

from entrabot_host.errors import ConcurrencyError, StorageConfigError, StorageError
from entrabot_host.host import Entry
from entrabot_host.identity.settings import parse_guid

KEY = "sponsors.json"
_TRIES = 5

_log = logging.getLogger(__name__)


class PinStore(Protocol):
    """The part of a `Store` that pins need."""

    async def read(self, key: str) -> Entry | None:
        """Return the value, or None."""
        ...

    async def write(self, key: str, data: bytes, *, if_match: str = "", if_absent: bool = False) -> str:
        """Write the value under a condition."""
        ...


@dataclass(frozen=True)
class Home:
    """An object id in the tenant it belongs to."""

    user_id: str
    tenant_id: str


class Pins:
    """Learnt homes by the sponsor's object id, kept in storage. The first one that is learnt stays."""

    def __init__(self, store: PinStore) -> None:
        self._store = store
        self._homes: dict[str, Home] = {}
        self.problem = ""

    def get(self, object_id: str) -> Home | None:
        """Return the pinned home of this sponsor, as last read."""
        return self._homes.get(object_id)

    async def load(self) -> None:
        """Read the pins again. What cannot be read is a problem, and what was known stays known."""
        try:
            homes, _ = await self._read()
        except (StorageError, StorageConfigError) as error:
            self._trouble(f"The sponsors' pinned home identities cannot be read: {error.message}")
            return
        self.problem = ""
        self._homes = {**self._homes, **homes}

    async def add(self, object_id: str, home: Home) -> None:
        """Pin a home, unless there is one. It counts for this session even when it cannot be stored."""
        if object_id in self._homes:
            return
        try:
            self._homes[object_id] = await self._store_first(object_id, home)
        except (StorageError, StorageConfigError) as error:
            self._homes[object_id] = home
            self._trouble(f"A sponsor's home identity could not be stored: {error.message}")

    async def _store_first(self, object_id: str, home: Home) -> Home:
        """Store the home and return it, or the one that another session stored before. Raises `StorageError`."""
        for _ in range(_TRIES):
            homes, etag = await self._read()
            if object_id in homes:
                return homes[object_id]
            try:
                data = _dump({**homes, object_id: home})
                await self._store.write(KEY, data, if_match=etag, if_absent=not etag)
            except ConcurrencyError:
                continue
            return home
        raise StorageError("others kept writing at the same time")

    async def _read(self) -> tuple[dict[str, Home], str]:
        entry = await self._store.read(KEY)
        return (_parse(entry.data), entry.etag) if entry else ({}, "")

    def _trouble(self, problem: str) -> None:
        self.problem = problem
        _log.warning("%s", problem)


def _dump(homes: dict[str, Home]) -> bytes:
    pins = {object_id: {"user_id": home.user_id, "tenant_id": home.tenant_id} for object_id, home in homes.items()}
    return json.dumps({"homes": pins}, indent=1, sort_keys=True).encode()


def _parse(data: bytes) -> dict[str, Home]:
    try:
        pins: dict[str, dict[str, Any]] = json.loads(data)["homes"]
        return {
            _guid(object_id): Home(_guid(pin["user_id"]), _guid(pin["tenant_id"])) for object_id, pin in pins.items()
        }
    except (ValueError, TypeError, KeyError, AttributeError):
        raise StorageError(f"{KEY} is damaged", remedy=f"Mend or delete {KEY}; homes are then learnt again.") from None


def _guid(text: object) -> str:
    if not isinstance(text, str) or not text:
        raise ValueError("no GUID")
    return parse_guid(text)
