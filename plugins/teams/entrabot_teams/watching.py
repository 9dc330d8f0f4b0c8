"""The list of watched chats: shared through the store, one chat id a line."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import anyio

from entrabot_host import ConcurrencyError, Entry, Host, StorageError
from entrabot_teams.ids import is_chat_id

KEY = "watched_chats"
_REFRESH_SECONDS = 60.0
_ATTEMPTS = 5


class WatchedChats:
    """What the store holds, and what is still to be added to it.

    The stored list is re-read every minute, so that sessions learn of each other's chats. While it cannot be read
    nothing is written: the list is only ever added to, under compare-and-swap.
    """

    def __init__(self, host: Host, now: Callable[[], float] = time.monotonic) -> None:
        self._store = host.store
        self._log = host.log
        self._now = now
        self._lock = anyio.Lock()
        self._stored: dict[str, None] = {}
        self._unsaved: dict[str, None] = {}
        self._next_look = float("-inf")
        self.problem = ""

    async def all(self) -> frozenset[str]:
        """Return the ids of all watched chats; a list that cannot be read now is tried again after a minute."""
        async with self._lock:
            if self._now() >= self._next_look:
                await self._synchronise()
            return frozenset(self._stored) | frozenset(self._unsaved)

    async def add(self, chat_ids: Iterable[str]) -> None:
        """Watch these chats from now on. What cannot be written is kept and tried again every minute."""
        async with self._lock:
            wanted = [chat_id for chat_id in chat_ids if is_chat_id(chat_id) and chat_id not in self._stored]
            fresh = [chat_id for chat_id in wanted if chat_id not in self._unsaved]
            if fresh:
                self._unsaved.update(dict.fromkeys(fresh))
                await self._synchronise()

    async def _synchronise(self) -> None:
        """Read the list and append what it lacks. Failures are kept as ``problem`` and logged once."""
        self._next_look = self._now() + _REFRESH_SECONDS
        try:
            await self._read_and_append()
        except (StorageError, UnicodeDecodeError) as error:
            problem = error.message if isinstance(error, StorageError) else "it is not a UTF-8 text"
            if problem != self.problem:
                self._log.warning("the list of watched chats cannot be read or written: %s", problem)
            self.problem = problem
        else:
            self.problem = ""

    async def _read_and_append(self) -> None:
        for _ in range(_ATTEMPTS):
            entry = await self._store.read(KEY)
            self._stored = _chat_ids(entry)
            self._unsaved = {chat_id: None for chat_id in self._unsaved if chat_id not in self._stored}
            if not self._unsaved:
                return
            try:
                await self._append(entry)
            except ConcurrencyError:
                continue
            self._stored |= self._unsaved
            self._unsaved = {}
            return
        raise ConcurrencyError("Other sessions kept changing the list.")

    async def _append(self, entry: Entry | None) -> None:
        before = entry.data if entry else b""
        if before and not before.endswith(b"\n"):
            before += b"\n"
        data = before + "".join(f"{chat_id}\n" for chat_id in self._unsaved).encode()
        await self._store.write(KEY, data, if_match=entry.etag if entry else "", if_absent=entry is None)


def _chat_ids(entry: Entry | None) -> dict[str, None]:
    lines = entry.data.decode("utf-8").splitlines() if entry else []
    return {line.strip(): None for line in lines if is_chat_id(line.strip())}
