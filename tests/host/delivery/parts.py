"""A small world for delivery: a clock, a host that reads or does not, a store that fails on demand."""

import asyncio
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from entrabot_host.delivery.capability import Capability
from entrabot_host.delivery.cargo import CURRENT, Cargo, Piece
from entrabot_host.delivery.channel import ChannelClosed
from entrabot_host.delivery.inbox import InboxService
from entrabot_host.delivery.record import Record, parse, record_key
from entrabot_host.errors import StorageError
from entrabot_host.host import Conversation, Entry, Message, Received, Sponsor
from entrabot_host.storage.backend import MemoryBackend
from entrabot_host.storage.local import LocalBackend

CHAT = Conversation.chat("19:one@unq.gbl.spaces")
START = datetime(2026, 11, 30, 12, tzinfo=UTC)
ANN = Sponsor("ann", "Ann", frozenset({"ann@example.org"}))


class Crash(Exception):
    """The process died here."""


class Clock:
    """The service's clock, and a boot clock that goes as it does."""

    def __init__(self) -> None:
        self.now = START

    def boot(self) -> float:
        return (self.now - START).total_seconds()

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> datetime:
        self.now += timedelta(seconds=seconds)
        return self.now


def message(identifier: str, created: datetime, text: str = "hello", **more: Any) -> Message:
    return Message(id=identifier, created=created, text=text, sender_id=more.pop("sender_id", "ann"), **more)


@dataclass
class Pipe:
    """The pipe to the host. ``before`` and ``after`` are called around each push."""

    ready: bool = True
    closed: bool = False
    pushed: list[dict[str, str]] = field(default_factory=list)
    contents: list[str] = field(default_factory=list)
    before: Callable[[], Any] | None = None
    after: Callable[[], Any] | None = None

    async def push(self, params: dict[str, Any]) -> None:
        await run(self.before)
        if self.closed:
            raise ChannelClosed
        self.pushed.append(params["meta"])
        self.contents.append(params["content"])
        await run(self.after)

    @property
    def ids(self) -> list[str]:
        return [meta["message_id"] for meta in self.pushed]

    @property
    def repeated(self) -> list[str]:
        return [meta["message_id"] for meta in self.pushed if meta.get("redelivered") == "yes"]


async def run(hook: Callable[[], Any] | None) -> None:
    if hook is not None:
        outcome = hook()
        if outcome is not None:
            await outcome


@dataclass
class Store:
    """A real folder that counts what is asked of it, and fails on demand."""

    inner: LocalBackend
    reads: int = 0
    writes: int = 0
    before_write: Callable[[str], Any] | None = None
    after_write: Callable[[str], Any] | None = None
    broken: bool = False
    name: str = "test"

    @property
    def location(self) -> str:
        return self.inner.location

    async def source(self) -> MemoryBackend:
        return self

    async def check(self) -> None:
        await self.inner.check()

    async def read(self, key: str) -> Entry | None:
        self.reads += 1
        if self.broken:
            raise StorageError("broken")
        return await self.inner.read(key)

    async def write(self, key: str, data: bytes, *, if_match: str = "", if_absent: bool = False) -> str:
        self.writes += 1
        if self.broken:
            raise StorageError("broken")
        if self.before_write:
            await run(lambda: self.before_write and self.before_write(key))
        etag = await self.inner.write(key, data, if_match=if_match, if_absent=if_absent)
        if self.after_write:
            await run(lambda: self.after_write and self.after_write(key))
        return etag

    async def append(self, key: str, line: bytes) -> None:
        await self.inner.append(key, line)

    async def list(self, prefix: str = "") -> "list[str]":
        return await self.inner.list(prefix)

    async def delete(self, key: str, *, if_match: str = "") -> None:
        await self.inner.delete(key, if_match=if_match)

    async def aclose(self) -> None:
        await self.inner.aclose()


@dataclass
class Result:
    """What a call brought: what its wait returned, the block that rode along, and the pieces of its cargo."""

    received: list[Received]
    block: dict[str, Any]
    pieces: list[Piece]

    @property
    def waited(self) -> list[str]:
        return [one.message.id for one in self.received]

    @property
    def rode(self) -> list[str]:
        return [entry["message_id"] for entry in self.block.get("_inbox", [])]


class Session:
    """One server process with its host."""

    def __init__(self, folder: Path, clock: Clock, push: str = "on", client: str = "") -> None:
        self.folder = folder
        self.clock = clock
        self.client = client
        self.pipe = Pipe()
        self.store = Store(LocalBackend(folder))
        self.carried: list[tuple[Piece, Message]] = []
        self.told: list[tuple[str, str, bool]] = []
        self.after_told: Callable[[], Any] | None = None
        self.inbox = InboxService(
            backend_source=self.store.source,
            data_folder=folder,
            now=clock,
            sink=self.pipe,
            sponsor_of=self.sponsor_of,
            on_delivered=self.on_delivered,
            capability=Capability(push, lambda: self.client, clock.boot),
            boot=clock.boot,
        )

    async def sponsor_of(self, user_id: str, tenant: str) -> Sponsor | None:
        return ANN if user_id == "ann" and tenant in ("", "home") else None

    async def on_delivered(
        self, conversation: Conversation, message: Message, sponsor: Sponsor | None, live: bool
    ) -> None:
        self.told.append((message.id, sponsor.object_id if sponsor else "", live))
        await run(self.after_told)

    async def deliver(self, *messages: Message, chat: Conversation = CHAT) -> tuple[list[str], list[str]]:
        delivery = await self.inbox.deliver(chat, messages, self.clock())
        return list(delivery.handed_over), list(delivery.left)

    async def call(self, *, outcome: str = "shown", **how: Any) -> "Result":
        """A whole tool call."""
        result, cargo = await self.call_begins(**how)
        await self.call_ends(cargo, outcome)
        return result

    async def call_begins(
        self,
        *,
        wait: bool = False,
        chat: Conversation | None = None,
        after: datetime = START,
        timeout: float = 0.0,
        **arguments: Any,
    ) -> "tuple[Result, Cargo]":
        """A tool call up to its result: it may wait, and something may ride along."""
        cargo = self.inbox.load(arguments)
        token = CURRENT.set(cargo)
        try:
            received = list(await self.inbox.wait(chat, after, timeout)) if wait else []
            block = await self.inbox.ride(cargo) if self.inbox.riders() else ""
        except BaseException:
            cargo.lost()
            raise
        finally:
            CURRENT.reset(token)
        self.inbox.answered(block)
        return Result(received, json.loads(block) if block else {}, list(cargo.pieces)), cargo

    async def call_ends(self, cargo: Cargo, outcome: str = "shown") -> None:
        """The result leaves, or it does not, or nobody knows."""
        if outcome == "shown":
            self.carried += [(piece, message) for piece in cargo.pieces for message in piece.shown.messages]
            cargo.shown()
        else:
            cargo.lost(in_doubt=outcome == "in doubt")
        await self.quiet()

    async def quiet(self) -> None:
        """Wait until what became of calls is recorded."""
        while running := [*self.inbox._chores._running]:
            await asyncio.wait(running)

    async def confirmations_are_written(self) -> None:
        for key in [*self.inbox._chores._due]:
            self.inbox._chores._fire(key)
        await self.quiet()

    @property
    def handed(self) -> list[tuple[str, bool]]:
        """What this host was handed under a claim, and whether it was marked as a repeat; pushes first."""
        return self.pushed + [
            (message.id, piece.shown.received.redelivered) for piece, message in self.carried if not piece.again
        ]

    @property
    def pushed(self) -> list[tuple[str, bool]]:
        if not self.inbox.pushes():
            return []
        return [(meta["message_id"], meta.get("redelivered") == "yes") for meta in self.pipe.pushed]

    @property
    def digested(self) -> list[str]:
        """What was told of, which digests stand for among others."""
        return [identifier for identifier, _, _ in self.told]

    async def die(self) -> None:
        """SIGKILL, as far as this process can tell: nothing is written any more, and the lock is free."""
        self.store.broken = self.pipe.closed = True
        self.inbox._chores._due.clear()
        await self.close()

    async def close(self) -> None:
        await self.inbox.aclose()
        await self.store.aclose()

    def record(self, chat: Conversation = CHAT) -> Record:
        key = record_key(chat)
        return parse((self.folder / key).read_bytes(), key)

    def age_record(self, seconds: float, chat: Conversation = CHAT) -> None:
        past = time.time() - seconds
        os.utime(self.folder / record_key(chat), (past, past))
