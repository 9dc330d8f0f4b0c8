"""Which sponsor spoke last in which chat: what authorizes actions there, for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from entrabot_host.host import Conversation, ConversationKind, Sponsor

_AHEAD = timedelta(seconds=60)


@dataclass(frozen=True)
class Binding:
    """A sponsor's message that the agent was handed. ``created`` is on the service's clock."""

    sponsor_id: str
    conversation: Conversation
    message_id: str
    created: datetime


class Bindings:
    """The last binding of each sponsor, in memory only.

    ttl: seconds from the message's creation. now: the service's clock, since the messages' times are on that one.
    """

    def __init__(self, ttl: float, now: Callable[[], datetime]) -> None:
        self._ttl = timedelta(seconds=ttl)
        self._now = now
        self._last: dict[str, Binding] = {}
        self._minted = asyncio.Event()

    def mint(self, sponsor: Sponsor, conversation: Conversation, message_id: str, created: datetime) -> None:
        """Record that the agent was handed this message of the sponsor. Mail proves no sender and binds nothing.

        created: with a time zone, else ValueError. A message older than the one recorded changes nothing.
        """
        if created.tzinfo is None:
            raise ValueError("The time of creation needs a time zone.")
        if conversation.kind is not ConversationKind.CHAT:
            return
        last = self._last.get(sponsor.object_id)
        if last is None or last.created <= created:
            self._last[sponsor.object_id] = Binding(sponsor.object_id, conversation, message_id, created)
            self._minted.set()
            self._minted = asyncio.Event()

    async def next(self, seconds: float) -> None:
        """Wait until another binding is minted, at most so long.

        A message is pushed before it binds, so a model that acts on it at once may be a moment too early.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._minted.wait()

    def live(self, sponsor_id: str) -> Binding | None:
        """Return the sponsor's binding while it counts. One from the future is in doubt and does not."""
        binding = self._last.get(sponsor_id)
        if binding is None:
            return None
        age = self._now() - binding.created
        return binding if -_AHEAD <= age < self._ttl else None

    def drop_all(self) -> None:
        """Forget everything, for instance after the machine slept."""
        self._last.clear()
