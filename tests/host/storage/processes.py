"""Child processes for the durability tests. ``python -m tests.host.storage.processes MODE PLACE NAME COUNT``

PLACE is a folder, or JSON: ``{"endpoint": ..., "ca_bundle": ..., "container": ...}``.
"""

import asyncio
import itertools
import json
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from entrabot_host.errors import ConcurrencyError, StorageError
from entrabot_host.storage.backend import MemoryBackend
from entrabot_host.storage.local import LocalBackend


def open_place(place: str) -> MemoryBackend:
    """The backend on a folder or a container."""
    if not place.startswith("{"):
        return LocalBackend(Path(place), lock_seconds=60)
    from tests.host.storage.azurite import Azurite

    container = json.loads(place)
    return Azurite(container["endpoint"], container["ca_bundle"]).backend(container["container"])


async def count(backend: MemoryBackend, name: str, times: int) -> None:
    """Increment a shared number ``times`` times with compare-and-swap."""
    for _ in range(times):
        while True:
            entry = await backend.read("number")
            try:
                if entry is None:
                    await backend.write("number", b"1", if_absent=True)
                else:
                    await backend.write("number", b"%d" % (int(entry.data) + 1), if_match=entry.etag)
            except ConcurrencyError:
                continue
            break


async def lines(backend: MemoryBackend, name: str, times: int) -> None:
    """Append numbered lines, long ones too."""
    for number in range(times):
        line = json.dumps({"who": name, "number": number, "text": "x" * (number % 7) * 1500})
        await backend.append("log.jsonl", line.encode())


async def forever(backend: MemoryBackend, name: str, times: int) -> None:
    """Write and append until killed; say on stdout what was acknowledged, before going on."""
    for number in itertools.count():
        await backend.append("log.jsonl", json.dumps({"who": name, "number": number, "text": "y" * 3000}).encode())
        os.write(1, b"L%d\n" % number)
        await backend.write(f"values/{name}.json", json.dumps({"number": number, "text": "z" * 5000}).encode())
        os.write(1, b"W%d\n" % number)


async def refused(backend: MemoryBackend, name: str, times: int) -> None:
    """Become nobody, then try everything; print the errors."""
    with tempfile.TemporaryDirectory() as warm:  # import everything while the interpreter's files can be read
        await LocalBackend(Path(warm)).write("x", b"")
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    shown = {}
    entry = await backend.read("kept")
    shown["read"] = entry.data.decode() if entry else ""
    attempts: dict[str, Callable[[], Awaitable[object]]] = {
        "write": lambda: backend.write("kept", b"new"),
        "append": lambda: backend.append("kept", b"new"),
        "delete": lambda: backend.delete("kept"),
        "check": backend.check,
    }
    for what, attempt in attempts.items():
        try:
            await attempt()
        except StorageError as error:
            shown[what] = f"{error.message} {error.remedy}"
    print(json.dumps(shown))


async def run(work: Callable[[MemoryBackend, str, int], Awaitable[None]], place: str, name: str, times: int) -> None:
    """Do it, and let go of the backend."""
    backend = open_place(place)
    try:
        await work(backend, name, times)
    finally:
        await backend.aclose()


def main() -> None:
    mode, place, name, times = sys.argv[1:]
    work = {"count": count, "lines": lines, "forever": forever, "refused": refused}[mode]
    asyncio.run(run(work, place, name, int(times)))


if __name__ == "__main__":
    main()
