"""A store of one process."""

from __future__ import annotations

from pathlib import Path

from entrabot_promises.book import KEY, PromiseBook

from entrabot_host.storage.facet import OwnedKeys, StoreFacet
from entrabot_host.storage.local import LocalBackend


def book(folder: Path) -> PromiseBook:
    """The promises in a data folder, as a server's plugin has them."""
    backend = LocalBackend(folder, lock_seconds=60)

    async def source() -> LocalBackend:
        return backend

    store = StoreFacet("promises", source, OwnedKeys())
    store.own(KEY)
    return PromiseBook(store)
