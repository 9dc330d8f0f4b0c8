"""The inbox: where change sources hand in people's messages, and calls carry them to the model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from entrabot_host.delivery.book import Book, boot_clock
from entrabot_host.delivery.capability import Capability
from entrabot_host.delivery.cargo import Cargo
from entrabot_host.delivery.carrying import Carrying
from entrabot_host.delivery.channel import ChannelClosed, ChannelSink
from entrabot_host.delivery.chores import Chores
from entrabot_host.delivery.claims import Kind
from entrabot_host.delivery.handover import HandOver, Judge, OnDelivered, Verdict, sender
from entrabot_host.delivery.lease import next_floor
from entrabot_host.delivery.ledger import Ledger, View
from entrabot_host.delivery.sessions import Sessions
from entrabot_host.delivery.start import Beginnings
from entrabot_host.delivery.talk import Talk
from entrabot_host.errors import EntrabotError
from entrabot_host.host import Conversation, ConversationKind, Delivery, Message, Position, Received
from entrabot_host.storage.backend import MemoryBackend
from entrabot_host.storage.facet import BackendSource

__all__ = ["ChannelClosed", "ChannelSink", "InboxFacet", "InboxService"]

_INSTANT = timedelta(microseconds=1)


class InboxService:
    """Hands messages to the one host that this process serves, and keeps the records.

    backend_source: waits until storage is ready. data_folder: where session locks lie; this session's is taken when it
    first asks for a position or claims, not earlier. now: Graph's clock. envelope: whether texts get the
    external-content envelope.
    capability: whether the host shows pushes; without it, it does. rides: whether results of calls take along what
    the host may not have shown. awake: called first by deliveries, so that nothing known before a sleep is trusted.
    boot: the boot clock.
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
        capability: Capability | None = None,
        rides: bool = True,
        awake: Callable[[], Awaitable[None]] | None = None,
        boot: Callable[[], float] = boot_clock,
    ) -> None:
        self._backend_source = backend_source
        self._now = now
        self._awake = awake
        self._sessions = Sessions(data_folder)
        self._book = Book(self._backend)
        self._talks: dict[Conversation, Talk] = {}
        self._chores = Chores()
        self._capability = capability or Capability("on", str, boot)
        self._ledger = Ledger(book=self._book, beginnings=Beginnings(now), sessions=self._sessions)
        self._judge = Judge(sponsor_of=sponsor_of, on_delivered=on_delivered)
        self._hand_over = HandOver(
            ledger=self._ledger,
            judge=self._judge,
            capability=self._capability,
            chores=self._chores,
            now=now,
            boot=boot,
            sink=sink,
            envelope=envelope,
        )
        self._carrying = Carrying(
            ledger=self._ledger,
            judge=self._judge,
            capability=self._capability,
            talks=self._talks,
            chores=self._chores,
            now=now,
            boot=boot,
            envelope=envelope,
            rides=rides,
        )

    @property
    def session_id(self) -> str:
        """This session's id, as records name it."""
        return self._sessions.id

    @property
    def kind(self) -> Kind:
        """Whether the host shows pushes, as far as is known."""
        return self._capability.kind

    # --- for change sources ---------------------------------------------------------------------------------------

    async def position(self, conversation: Conversation, start: datetime | None = None) -> Position:
        """Return how far the conversation is done; the first call for one makes its record. Raises `StorageError`.

        The agent's own messages that are known are among the ids; what a session that died may not have shown is not.
        """
        self._introduce()
        await self._sessions.start()  # from now on others know that this session may take what comes
        talk = self._talk(conversation)
        known = await self._ledger.open(talk, start)
        untouched = known.record.epoch == 0 and not known.record.ids
        if start is not None and known.record.sent and untouched and conversation.kind is ConversationKind.CHAT:
            # A send has made the record, not knowing the start. A chat's start is always the same; a mailbox's is when
            # a session began, and moving the floor there would lose what came while no session ran.
            talk.floor = max(talk.floor, start - _INSTANT)
        if talk.spoken:
            await self._ledger.note_sent(talk)
        forsaken = await self._ledger.forsaken(talk)
        record = (await self._ledger.open(talk)).record
        floor = min([max(record.floor, talk.floor), *(created - _INSTANT for created in forsaken.values())])
        return Position(floor, frozenset({*record.ids, *record.sent, *talk.spoken} - forsaken.keys()))

    async def deliver(self, conversation: Conversation, messages: Sequence[Message], covered_to: datetime) -> Delivery:
        """Claim, push and record the messages that this session may hand over now, oldest first.

        ``left`` are those to offer again: another session may be about to take them, a running call carries them or
        will, the host does not read or is not known to show pushes, or another live session may not have shown them.
        Raises `StorageError`, or what the sponsor check raises; then nothing more was handed over.
        """
        if self._awake is not None:
            await self._awake()
        self._introduce()
        talk = self._talk(conversation)
        covered_to = min(covered_to, self._now())
        handed: list[Message] = []
        async with talk.lock:
            talk.let_go_of_stalled_calls(self._hand_over.boot())
            try:
                while await self._hand_over.batch(
                    talk, messages, covered_to, handed, wanted=self._carrying.wanted(talk)
                ):
                    pass
                view = await self._hand_over.left(talk, messages, fresh=bool(talk.waiting) and not handed)
            finally:
                self._carrying.changed(talk)
            left = _left(talk, view, messages)
            in_doubt = view.known.record.unconfirmed_by(view.known.record.unconfirmed).values()
            talk.floor = next_floor(talk.floor, covered_to, [*(message.created for message in left), *in_doubt])
        return Delivery(tuple(message.id for message in handed), tuple(message.id for message in left))

    # --- for tools ------------------------------------------------------------------------------------------------

    async def wait(self, conversation: Conversation | None, after: datetime, timeout: float) -> Sequence[Received]:
        """Wait for messages that the running call may carry; see `entrabot_host.host.Inbox.wait`."""
        return await self._carrying.wait(conversation, after, timeout)

    async def spoke(self, conversation: Conversation, message_id: str) -> None:
        """Record that this session sent ``message_id``. Raises `StorageError`; then it is recorded later."""
        talk = self._talk(conversation)
        talk.said(message_id)
        self._introduce()
        await self._ledger.note_sent(talk)

    async def unseen(self, limit: int) -> Sequence[Received]:
        """Return what no host is known to have shown, oldest first."""
        known = [shown.received for talk in self._talks.values() for shown in talk.unproven.values()]
        waiting = [
            Received(talk.conversation, message, sponsor=False)
            for talk in self._talks.values()
            for message in talk.waiting
        ]
        oldest = sorted([*known, *waiting], key=lambda one: (one.message.created, one.message.id))[: max(limit, 0)]
        return [await self._judged(one) for one in oldest]

    def pushes(self) -> bool:
        """Whether the host shows pushes, as far as is known."""
        return self.kind.pushes

    async def _judged(self, received: Received) -> Received:
        try:
            verdicts = await self._judge.verdicts([received.message])
        except EntrabotError:
            return received
        sponsor = verdicts[sender(received.message)] is not None
        return Received(received.conversation, received.message, sponsor, received.redelivered)

    # --- for the boundary around calls ----------------------------------------------------------------------------

    def load(self, arguments: Mapping[str, Any]) -> Cargo:
        """A call has come in with these arguments: return its cargo, still empty."""
        cargo = self._carrying.load(arguments)
        self._introduce()
        if self._sessions.outdated:
            self._chores.start(self._sessions.start())
        return cargo

    def riders(self) -> bool:
        """Whether something may ride along on a result now."""
        return self._carrying.riders()

    async def ride(self, cargo: Cargo) -> str:
        """Add to a call's cargo what the host may not have shown; return the block for its result, or nothing."""
        return await self._carrying.ride(cargo)

    def answered(self, text: str) -> None:
        """A result goes out with this text."""
        self._carrying.answered(text)

    # --- life -----------------------------------------------------------------------------------------------------

    def forget_records(self) -> None:
        """Trust no record from memory any more; call it after sleep and clock jumps. What was pushed stays known."""
        self._book.forget()

    async def aclose(self) -> None:
        """Write what is still to be recorded if that is quick, and release this session's lock."""
        await self._chores.aclose()
        await self._sessions.aclose()

    async def _backend(self) -> MemoryBackend:
        backend = await self._backend_source()
        self._sessions.shared = backend.name == "blob"
        return backend

    def _introduce(self) -> None:
        self._sessions.introduce(self.kind, self._capability.client())

    def _talk(self, conversation: Conversation) -> Talk:
        return self._talks.setdefault(conversation, Talk(conversation))


def _left(talk: Talk, view: View, messages: Sequence[Message]) -> list[Message]:
    """Return what is to be offered again, each once, oldest first."""
    carried = [message for message in messages if message.id in talk.carried]
    left = {message.id: message for message in (*view.new, *view.elsewhere, *carried)}
    return sorted(left.values(), key=lambda message: (message.created, message.id))


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

    async def wait(self, conversation: Conversation | None, after: datetime, timeout: float) -> Sequence[Received]:
        """Wait for messages that the running call may carry; at once cancellable."""
        return await self._service.wait(conversation, after, timeout)

    async def spoke(self, conversation: Conversation, message_id: str) -> None:
        """Record that this session sent ``message_id``."""
        await self._service.spoke(conversation, message_id)

    async def unseen(self, limit: int) -> Sequence[Received]:
        """Return what no host is known to have shown, oldest first, without claiming it."""
        return await self._service.unseen(limit)

    def pushes(self) -> bool:
        """Whether the host shows pushes, as far as is known."""
        return self._service.pushes()
