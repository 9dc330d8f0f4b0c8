"""The promises of this agent, shared by all its sessions."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Callable
from datetime import UTC, datetime

from entrabot_host import ConcurrencyError, EntrabotError, Store
from entrabot_promises.due import iso
from entrabot_promises.log import Log, Promise

KEY = "promises.jsonl"
COMPACT_BYTES = 64 * 1024
_ATTEMPTS = 40
_LONGEST_PAUSE = 0.5

Step = Callable[[Log], Promise]
"""From the file as it is to the promise whose line is added. Raises `EntrabotError` to change nothing."""


class PromiseBook:
    """Reads and writes ``promises.jsonl``, each write compare-and-swap on the whole, so that no session undoes
    another's and a promise is resolved once. Errors are `StorageError`.

    The file is never appended to: on Azure a value that is ever replaced may not be an append blob.
    """

    def __init__(self, store: Store, *, keep_days: int = 90, now: Callable[[], datetime] | None = None) -> None:
        self._store = store
        self._keep_days = keep_days
        self.now = now or (lambda: datetime.now(UTC))

    async def log(self) -> Log:
        """Return the file as it is now."""
        entry = await self._store.read(KEY)
        return Log.parse(entry.data if entry else b"")

    async def all(self) -> list[Promise]:
        """Return all promises, in the order in which they were made."""
        return list((await self.log()).promises().values())

    async def open(self) -> list[Promise]:
        """Return what is owed, in the order in which it was promised."""
        return [promise for promise in await self.all() if promise.is_open]

    async def add(self, chat_id: str, description: str, due_by: str) -> Promise:
        """Record a commitment. due_by: in the stored form."""
        promise = Promise(
            id=secrets.token_hex(6),
            created_at=iso(self.now()),
            chat_id=chat_id,
            description=description,
            due_by=due_by,
        )
        return await self._change(lambda log: promise)

    async def resolve(self, promise_id: str, resolution: str) -> Promise:
        """Mark a promise as kept. Raises `EntrabotError` when there is none, or when it was resolved before."""
        at, mark = iso(self.now()), secrets.token_hex(4)

        def step(log: Log) -> Promise:
            promise = log.promises().get(promise_id)
            if promise is None:
                raise EntrabotError(
                    "There is no promise with this id.", remedy="Take the id from list_promises; case counts."
                )
            if not promise.is_open:
                raise EntrabotError(
                    f"This promise was resolved already, at {promise.resolved_at or 'an unknown time'}.",
                    remedy="Nothing is left to do. A new commitment is a new promise: add_promise.",
                    details={"resolution": promise.resolution},
                )
            return promise.resolved(resolution, at, mark)

        return await self._change(step)

    async def _change(self, step: Step) -> Promise:
        """Add a line. A write that was refused may have landed all the same (a repeated request): look for it."""
        added: Promise | None = None
        for attempt in range(_ATTEMPTS):
            entry = await self._store.read(KEY)
            log = Log.parse(entry.data if entry else b"")
            if added is not None and added.line() in log.lines:
                return added
            added = step(log)
            content = self._content(log.with_line(added.line()))
            try:
                await self._store.write(KEY, content, if_match=entry.etag if entry else "", if_absent=not entry)
            except ConcurrencyError:
                await asyncio.sleep(random.uniform(0, min(_LONGEST_PAUSE, 0.01 * 2**attempt)))  # noqa: S311
                continue
            return added
        raise ConcurrencyError("Other sessions kept changing the promises.", remedy="Try again.")

    def _content(self, log: Log) -> bytes:
        content = log.dump()
        if len(content) <= COMPACT_BYTES:
            return content
        return log.compacted(self.now(), self._keep_days).dump()
