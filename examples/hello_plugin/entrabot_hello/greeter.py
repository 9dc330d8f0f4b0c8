"""The plugin's work. `host` gives it settings, storage, Graph, records and a log."""

import json
from typing import Annotated

from entrabot_host import ConcurrencyError, Host
from pydantic import Field

KEY = "greeted.json"


class Greeter:
    """Greets people and remembers how often."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def hello_greet(
        self, name: Annotated[str, Field(description="Whom to greet", min_length=1, max_length=100)]
    ) -> dict[str, object]:
        """Greet somebody by name. Says how often this person was greeted."""
        return {"greeting": f"Hello, {name}!", "times": await self._count(name)}

    async def report(self) -> None:
        """Log how many people were greeted."""
        greeted, _ = await self._read()
        self._host.log.info("%d people were greeted", len(greeted))

    async def _count(self, name: str) -> int:
        while True:
            greeted, etag = await self._read()
            greeted[name] = greeted.get(name, 0) + 1
            data = json.dumps(greeted).encode()
            try:
                await self._host.store.write(KEY, data, if_match=etag, if_absent=not etag)
            except ConcurrencyError:  # another process was faster: read again
                continue
            return greeted[name]

    async def _read(self) -> tuple[dict[str, int], str]:
        entry = await self._host.store.read(KEY)
        return (json.loads(entry.data), entry.etag) if entry else ({}, "")
