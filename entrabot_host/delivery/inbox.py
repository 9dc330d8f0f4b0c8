"""The inbox: where change sources hand in people's messages, and tools wait for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from entrabot_host.delivery.board import Board
from entrabot_host.delivery.book import Book
from entrabot_host.delivery.channel import ChannelClosed, ChannelSink
from entrabot_host.delivery.handover import HandOver, OnDelivered, Talk, Verdict
from entrabot_host.delivery.lease import next_floor
from entrabot_host.delivery.record import SENT_KEPT
from entrabot_host.delivery.sessions import Sessions
from entrabot_host.delivery.start import Beginnings
from entrabot_host.host import Conversation, Delivery, Message, Position
from entrabot_host.storage.facet import BackendSource

__all__ = ["ChannelClosed", "ChannelSink", "InboxFacet", "InboxService"]


class InboxService:
    """Hands messages to the one host that this process serves, and keeps the records.

    backend_source: waits until storage is ready. data_folder: where session locks lie; this session's is taken at the
    first claim, not earlier. now: Graph's clock. envelope: whether pushed texts get the external-content envelope.
    """

    def __init__(
        self,
        *,
        backend_source: BackendSource,
        data_folder: Path,
        now: Callable[[], datetime],
        sink: ChannelSink,
        sponsor_of: Verdict,
        on_delivered: OnDelivered,
        envelope: bool = True,
    ) -> None:
        self._now = now
        self._sessions = Sessions(data_folder)
        self._book = Book(backend_source)
        self._board = Board()
        self._talks: dict[Conversation, Talk] = {}
        self._hand_over = HandOver(
            book=self._book,
            beginnings=Beginnings(now),
            sessions=self._sessions,
            now=now,
            sink=sink,
            sponsor_of=sponsor_of,
            on_delivered=on_delivered,
            envelope=envelope,
        )

    @property
    def session_id(self) -> str:
        """This session's id, as records name it."""
        return self._sessions.id

    async def position(self, conversation: Conversation, start: datetime | None = None) -> Position:
        """Return how far the conversation is done; the first call for one makes its record. Raises `StorageError`.

        The agent's own messages that are known are among the ids.
        """
        talk = self._talk(conversation)
        await self._hand_over.open(talk, start)
        if talk.spoken:
            await self._hand_over.note_sent(talk)
        record = (await self._hand_over.open(talk)).record
        return Position(max(record.floor, talk.floor), frozenset({*record.ids, *record.sent, *talk.spoken}))

    async def deliver(self, conversation: Conversation, messages: Sequence[Message], covered_to: datetime) -> Delivery:
        """Claim, push and record the messages that are new, oldest first.

        ``left`` are those that another session holds, that the host does not read, or that a stalled push cut off.
        Raises `StorageError`, or what the sponsor check raises; then nothing more was handed over.
        """
        talk = self._talk(conversation)
        covered_to = min(covered_to, self._now())
        handed: list[Message] = []
        async with talk.lock:
            try:
                while await self._hand_over.batch(talk, messages, covered_to, handed):
                    pass
            finally:
                self._board.handed_over(conversation, handed)
            left = await self._hand_over.left(talk, messages)
            talk.floor = next_floor(talk.floor, covered_to, [message.created for message in left])
            self._board.left(conversation, left)
        return Delivery(tuple(message.id for message in handed), tuple(message.id for message in left))

    async def wait(self, conversation: Conversation | None, after: datetime, timeout: float) -> Sequence[Message]:
        """Wait for messages created after ``after`` that this session was handed, or that wait for its host."""
        return await self._board.wait(conversation, after, timeout)

    async def spoke(self, conversation: Conversation, message_id: str) -> None:
        """Record that this session sent ``message_id``. Raises `StorageError`; then it is recorded later."""
        talk = self._talk(conversation)
        talk.spoken = [*talk.spoken, message_id][-SENT_KEPT:]
        await self._hand_over.note_sent(talk)

    async def unseen(self, limit: int) -> Sequence[tuple[Conversation, Message]]:
        """Return what no host was shown, oldest first."""
        return self._board.unseen(limit)

    def forget_records(self) -> None:
        """Trust no record from memory any more; call it after sleep and clock jumps. What was pushed stays known."""
        self._book.forget()

    async def aclose(self) -> None:
        """Release this session's lock. No network, and no waiting for the disk."""
        await self._sessions.aclose()

    def _talk(self, conversation: Conversation) -> Talk:
        return self._talks.setdefault(conversation, Talk(conversation))


class InboxFacet:
    """Implements `entrabot_host.host.Inbox` for one plugin."""

    def __init__(self, plugin: str, service: InboxService) -> None:
        self._plugin = plugin
        self._service = service

    async def position(self, conversation: Conversation, start: datetime | None = None) -> Position:
        """Return how far the conversation is done."""
        return await self._service.position(conversation, start)

    async def deliver(self, conversation: Conversation, messages: Sequence[Message], covered_to: datetime) -> Delivery:
        """Claim, push and record the messages that are new."""
        return await self._service.deliver(conversation, messages, covered_to)

    async def wait(self, conversation: Conversation | None, after: datetime, timeout: float) -> Sequence[Message]:
        """Wait for new messages, of one conversation or of any; at once cancellable."""
        return await self._service.wait(conversation, after, timeout)

    async def spoke(self, conversation: Conversation, message_id: str) -> None:
        """Record that this session sent ``message_id``."""
        await self._service.spoke(conversation, message_id)

    async def unseen(self, limit: int) -> Sequence[tuple[Conversation, Message]]:
        """Return what was delivered by no host yet, oldest first."""
        return await self._service.unseen(limit)
