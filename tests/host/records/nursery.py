"""Forks writers of the interaction log that run until they are killed. ``python -m tests.host.records.nursery PLACE``

PLACE is as `tests.host.storage.processes` takes it. Commands come on stdin:
``start NAME`` answers ``NAME pid N``, ``mark N`` answers ``mark N``. A writer says ``NAME wrote ID`` for each line that
was acknowledged. Everything is imported before the first fork, so a writer begins at once.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import NoReturn

from entrabot_host.host import Direction, Interaction
from entrabot_host.records.interactions import InteractionLog
from entrabot_host.storage.backend import MemoryBackend
from tests.host.storage.processes import open_place


async def write_for_ever(place: str, name: str) -> None:
    """Append, and say what was acknowledged."""
    backend = open_place(place)

    async def source() -> MemoryBackend:
        return backend

    log = InteractionLog(source)
    number = 0
    while True:
        text = "z" * (number % 5) * 1500
        entry = Interaction(channel="teams_dm", direction=Direction.INBOUND, sender=name, summary=text)
        identifier = await log.append(entry)
        os.write(1, f"{name} wrote {identifier}\n".encode())
        number += 1


def writer(place: str, name: str) -> NoReturn:
    """The life of a child."""
    try:
        asyncio.run(write_for_ever(place, name))
    finally:
        os._exit(1)


def main() -> None:
    """Obey until stdin ends."""
    place = sys.argv[1]
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
