"""Forks writers that run until they are killed. ``python -m tests.host.records.nursery PLACE``

PLACE is as `tests.host.storage.processes` takes it. Commands come on stdin:
``start NAME`` answers ``NAME pid N``, ``mark N`` answers ``mark N``. A writer says ``NAME wrote ID`` for each line of
the interaction log that was acknowledged, ``NAME added ID`` and ``NAME resolved ID`` for promises. Everything is
imported before the first fork, so a writer begins at once.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from itertools import count
from typing import NoReturn

from entrabot_promises import book
from entrabot_promises.book import KEY, PromiseBook

from entrabot_host.host import Direction, Interaction
from entrabot_host.records.interactions import InteractionLog
from entrabot_host.storage.backend import MemoryBackend
from entrabot_host.storage.facet import OwnedKeys, StoreFacet
from tests.host.storage.processes import open_place

COMPACT_BYTES = 8_000
"""Compaction now and then, which must lose nothing."""
PAUSE = 0.03
"""Seconds between two deeds of a writer on Azure, so that those that begin are not starved."""


def promises_in(backend: MemoryBackend) -> PromiseBook:
    """The promises, as a server's plugin has them."""

    async def source() -> MemoryBackend:
        return backend

    store = StoreFacet("promises", source, OwnedKeys())
    store.own(KEY)
    return PromiseBook(store)


async def write_for_ever(place: str, name: str) -> None:
    """Append, add and resolve, and say what was acknowledged."""
    backend = open_place(place)

    async def source() -> MemoryBackend:
        return backend

    log, promises = InteractionLog(source), promises_in(backend)
    pause = PAUSE if place.startswith("{") else 0

    async def interactions() -> None:
        for number in count():
            text = "z" * (number % 5) * 1500
            entry = Interaction(channel="teams_dm", direction=Direction.INBOUND, sender=name, summary=text)
            say(name, "wrote", await log.append(entry))
            await asyncio.sleep(pause)

    async def commitments() -> None:
        for number in count():
            promise = await promises.add(f"19:{name}@thread.v2", f"{name} {number}", "")
            say(name, "added", promise.id)
            if number % 2 == 0:
                await promises.resolve(promise.id, f"kept by {name}")
                say(name, "resolved", promise.id)
            await asyncio.sleep(pause)

    await asyncio.gather(interactions(), commitments())


def say(name: str, what: str, identifier: str) -> None:
    """Acknowledge, in one write."""
    os.write(1, f"{name} {what} {identifier}\n".encode())


def writer(place: str, name: str) -> NoReturn:
    """The life of a child."""
    try:
        asyncio.run(write_for_ever(place, name))
    finally:
        os._exit(1)


def main() -> None:
    """Obey until stdin ends."""
    place = sys.argv[1]
    book.COMPACT_BYTES = COMPACT_BYTES
    if place.startswith("{"):
        import aiohttp  # noqa: F401
        import azure.storage.blob.aio  # noqa: F401
    else:
        import filelock  # noqa: F401
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel forgets dead children
    for line in sys.stdin:
        command, _, argument = line.strip().partition(" ")
        if command == "start":
            pid = os.fork()
            if pid == 0:
                writer(place, argument)
            os.write(1, f"{argument} pid {pid}\n".encode())
        else:
            os.write(1, f"{line.strip()}\n".encode())


if __name__ == "__main__":
    main()
