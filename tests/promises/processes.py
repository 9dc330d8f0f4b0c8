"""A child that adds and resolves promises until it is killed. ``python -m tests.promises.processes FOLDER NAME``"""

import asyncio
import itertools
import os
import sys
from pathlib import Path

from entrabot_promises import book as module

from tests.promises.parts import book


async def work(folder: Path, name: str) -> None:
    """Say on stdout what was acknowledged, before going on."""
    promises = book(folder)
    for number in itertools.count():
        promise = await promises.add(f"19:{name}@thread.v2", f"{name} {number} {'x' * (number % 5) * 200}", "")
        os.write(1, f"A {promise.id}\n".encode())
        if number % 2:
            await promises.resolve(promise.id, "done")
            os.write(1, f"R {promise.id}\n".encode())


if __name__ == "__main__":
    module.COMPACT_BYTES = 4_000  # compaction all the time
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2]))
