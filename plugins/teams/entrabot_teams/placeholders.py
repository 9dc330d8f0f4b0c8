"""The three stages of an answer that takes work: a placeholder, remarks on the way, and the answer in its place."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

import anyio

REMEMBERED = 500


class Placeholder:
    """One placeholder of this session, or one that is known by its id only. ``lock`` orders the changes made to it."""

    def __init__(self) -> None:
        self.lock = anyio.Lock()
        self.resolved = False


class Placeholders:
    """What this session knows of placeholders: which are resolved, and when each chat last got one. Bounded."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._known: OrderedDict[tuple[str, str], Placeholder] = OrderedDict()
        self._last: OrderedDict[str, float] = OrderedDict()

    def of(self, chat_id: str, placeholder_id: str) -> Placeholder:
        """Return the placeholder with this id, unresolved if it is new to us."""
        key = chat_id, placeholder_id
        found = self._known.setdefault(key, Placeholder())
        self._known.move_to_end(key)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return found

    def posted(self, chat_id: str) -> None:
        """Note that a chat has got a placeholder just now."""
        self._last[chat_id] = self._now()
        self._last.move_to_end(chat_id)
        if len(self._last) > REMEMBERED:
            self._last.popitem(last=False)

    def since(self, chat_id: str) -> float:
        """Return how many seconds ago the chat got its last placeholder from this session; infinite if it got none."""
        return self._now() - self._last.get(chat_id, float("-inf"))
