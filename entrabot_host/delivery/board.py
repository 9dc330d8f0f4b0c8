"""Messages that this session saw lately: what wakes a waiting tool, and what no host was shown yet."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from datetime import datetime

from entrabot_host.host import Conversation, Message

RECENT_KEPT = 200
WAITING_KEPT = 100

Note = tuple[Conversation, Message]


class Board:
    """Bounded. Messages are listed by the time of their creation."""

    def __init__(self) -> None:
        self._recent: deque[Note] = deque(maxlen=RECENT_KEPT)
        self._waiting: dict[Conversation, tuple[Message, ...]] = {}
        self._news = asyncio.Event()

    def handed_over(self, conversation: Conversation, messages: Sequence[Message]) -> None:
        """Note messages that the host was just handed."""
        self._recent.extend((conversation, message) for message in messages)
        self._wake(bool(messages))

    def left(self, conversation: Conversation, messages: Sequence[Message]) -> None:
        """Note all messages of a conversation that wait; none any more when ``messages`` is empty."""
        before = {message.id for message in self._waiting.pop(conversation, ())}
        if messages:
            self._waiting[conversation] = tuple(messages[:WAITING_KEPT])
        self._wake(any(message.id not in before for message in messages))

    def unseen(self, limit: int) -> list[Note]:
        """Return what waits, oldest first."""
        waiting = [(conversation, message) for conversation, left in self._waiting.items() for message in left]
        return sorted(waiting, key=_when)[: max(limit, 0)]

    async def wait(self, conversation: Conversation | None, after: datetime, timeout: float) -> list[Message]:
        """Return messages created after ``after``, of one conversation or any; empty after ``timeout`` seconds."""
        try:
            async with asyncio.timeout(max(timeout, 0.0)):
                while not (found := self._since(conversation, after)):
                    await self._news.wait()
        except TimeoutError:
            return self._since(conversation, after)
        return found

    def _since(self, conversation: Conversation | None, after: datetime) -> list[Message]:
        notes = {
            (place, message.id): (place, message)
            for place, message in (*self._recent, *self.unseen(RECENT_KEPT))
            if message.created > after and conversation in (None, place)
        }
        return [message for _, message in sorted(notes.values(), key=_when)]

    def _wake(self, news: bool) -> None:
        if news:
            self._news.set()
            self._news = asyncio.Event()


def _when(note: Note) -> tuple[datetime, str]:
    return note[1].created, note[1].id
