"""The store as one plugin sees it: its own corner, and the keys it declared."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from entrabot_host.discovery import HOST
from entrabot_host.errors import PluginError, StorageError
from entrabot_host.host import Entry
from entrabot_host.storage.backend import MemoryBackend
from entrabot_host.storage.keys import check_key

BackendSource = Callable[[], Awaitable[MemoryBackend]]
"""Waits until storage is ready; raises the real reason when it never will be, `NotStarted` during assembly."""

HOST_KEYS = (
    "plugins/",
    "chats/",
    "mail/",
    "sessions/",
    "chat_cursors/",
    "interactions/",
    "installation.json",
    "plugin_failures.json",
    "sponsors.json",
    "migration.json",
)


@dataclass
class OwnedKeys:
    """Who owns which keys outside the plugins' own prefixes. A key that ends in ``/`` covers all below it."""

    _owners: dict[str, str] = field(default_factory=lambda: dict.fromkeys(HOST_KEYS, HOST))
    _frozen: bool = False

    def claim(self, plugin: str, keys: Iterable[str]) -> None:
        """Give keys to a plugin, all or none.

        Raises `PluginError` when another one owns one of them or a part of it, and when assembly is over.
        """
        if self._frozen:
            raise PluginError(f"The plugin {plugin} declared storage keys after assembly.")
        wanted = tuple(keys)
        for key in wanted:
            self._check(plugin, key)
        self._owners.update(dict.fromkeys(wanted, plugin))

    def release(self, plugin: str) -> None:
        """Take back all keys of a plugin that was not accepted."""
        self._owners = {key: owner for key, owner in self._owners.items() if owner != plugin}

    def freeze(self) -> None:
        """End assembly: no more keys are given away."""
        self._frozen = True

    def of(self, plugin: str) -> list[str]:
        """Return the keys that a plugin owns, sorted."""
        return sorted(key for key, owner in self._owners.items() if owner == plugin)

    def _check(self, plugin: str, key: str) -> None:
        try:
            check_key(key.removesuffix("/"))
        except StorageError as error:
            raise PluginError(f"The plugin {plugin} declared a storage key that cannot be: {error.message}") from None
        for owned, owner in self._owners.items():
            if owner != plugin and (covers(owned, key) or covers(key, owned)):
                raise PluginError(f"The plugin {plugin} declared the storage key {key!r} of {owner}.")


def covers(owned: str, key: str) -> bool:
    """Whether owning ``owned`` includes ``key``."""
    return key == owned or (owned.endswith("/") and (key.startswith(owned) or key + "/" == owned))


class StoreFacet:
    """Implements `entrabot_host.host.Store` for one plugin."""

    def __init__(self, plugin: str, backend: BackendSource, owned: OwnedKeys) -> None:
        self._plugin = plugin
        self._prefix = f"plugins/{plugin}/"
        self._backend = backend
        self._owned = owned

    def own(self, *keys: str) -> None:
        """Declare keys outside this plugin's prefix. Assembly only."""
        self._owned.claim(self._plugin, keys)

    async def read(self, key: str) -> Entry | None:
        """Return the value, or None when there is none."""
        return await (await self._backend()).read(self._place(key))

    async def write(self, key: str, data: bytes, *, if_match: str = "", if_absent: bool = False) -> str:
        """Write the whole value and return its new etag. Raises `ConcurrencyError` when the condition fails."""
        return await (await self._backend()).write(self._place(key), data, if_match=if_match, if_absent=if_absent)

    async def append(self, key: str, line: bytes) -> None:
        """Append one line, whole."""
        await (await self._backend()).append(self._place(key), line)

    async def list(self, prefix: str = "") -> list[str]:
        """Return this plugin's keys that start with ``prefix``, sorted."""
        backend = await self._backend()
        found = {key.removeprefix(self._prefix) for key in await backend.list(self._prefix + prefix)}
        for owned in self._owned.of(self._plugin):
            if owned.startswith(prefix) or covers(owned, prefix):
                found.update(key for key in await backend.list(max(owned, prefix, key=len)) if covers(owned, key))
        return sorted(found)

    async def delete(self, key: str, *, if_match: str = "") -> None:
        """Delete the value; it is no error when there is none."""
        await (await self._backend()).delete(self._place(key), if_match=if_match)

    def _place(self, key: str) -> str:
        check_key(key)
        if any(covers(owned, key) for owned in self._owned.of(self._plugin)):
            return key
        return self._prefix + key
