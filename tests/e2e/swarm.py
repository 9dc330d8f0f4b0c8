"""Many people who write at once, and several hosts that share one installation: who was handed what, and how often."""

from __future__ import annotations

import asyncio
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Self

from entrabot_sandbox.client import Sandbox

from tests.e2e.wire import Server, served, until

PEOPLE = ("alice", "bob", "carol", "mallory")
_LOOK = "GET /v1.0/me/chats"


@dataclass(frozen=True)
class Handed:
    """A message that a host was handed. process: which server process did it; killed: that one was killed later."""

    message_id: str
    chat_id: str
    redelivered: bool
    process: str


@dataclass
class Window:
    """A host's place at the installation. Its server may be killed and started anew; what it was handed is kept.

    client: the name that the host gives. shows: whether what it is pushed counts; else the results of calls do.
    """

    name: str
    environment: Mapping[str, str]
    client: str = "claude-code"
    shows: bool = True
    handed: list[Handed] = field(default_factory=list)
    killed: set[str] = field(default_factory=set)
    _starts: int = 0
    _server: Server | None = None
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    @property
    def server(self) -> Server:
        """The running server."""
        assert self._server is not None
        return self._server

    @property
    def process(self) -> str:
        """The name of the process that runs, or ran last."""
        return f"{self.name}-{self._starts}"

    async def start(self) -> None:
        """Start a server and introduce the host."""
        self._starts += 1
        self._server = await self._stack.enter_async_context(served(self.environment, greet=False))
        await self._server.greet(self.client)

    async def kill(self) -> None:
        """End the server by SIGKILL; what it had written by then counts."""
        self.server.process.kill()
        await self._stack.aclose()
        self.take()
        self.killed.add(self.process)

    def take(self) -> None:
        """Note what has been pushed so far."""
        while self.shows and not self.server.pushes.empty():
            self._note(self.server.pushes.get_nowait())

    async def pushed(self, timeout: float) -> None:
        """Wait for something that is pushed after all that was pushed so far. Raises `TimeoutError`."""
        self.take()
        self._note(await self.server.next_push(timeout))

    def _note(self, push: Mapping[str, Any]) -> None:
        meta = push["meta"]
        self.handed.append(Handed(meta["message_id"], meta["chat_id"], "redelivered" in meta, self.process))

    async def call(self) -> int:
        """Call a tool that is of no matter; note what rides along on its result, and return how many that were."""
        result = await self.server.call_raw("audit_log", action="test", resource="test")
        assert not result.get("isError"), result
        entries = inbox(result)
        self.handed += [Handed(one["message_id"], one["chat_id"], one["redelivered"], self.process) for one in entries]
        return len(entries)

    async def call_now_and_then(self, done: asyncio.Event, seconds: float) -> None:
        """Call a tool every so many seconds until it is done."""
        while not done.is_set():
            await self.call()
            try:
                async with asyncio.timeout(seconds):
                    await done.wait()
            except TimeoutError:
                continue

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()


def inbox(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The entries that ride along on a result: the last block, a JSON document of its own."""
    documents = [json.loads(block["text"]) for block in result["content"][1:] if block["type"] == "text"]
    return [entry for document in documents for entry in document.get("_inbox", ())]


async def found_chats(sandbox: Sandbox, number: int = 10) -> dict[str, tuple[str, ...]]:
    """Make so many chats with the agent, 1:1 ones and groups; return their ids with the people in them."""
    chats: dict[str, tuple[str, ...]] = {}
    for place in range(number):
        alone = place < len(PEOPLE)
        people = PEOPLE[place : place + 1] if alone else tuple(random.sample(PEOPLE, 2))
        more = {} if alone else {"topic": f"Group {place}"}
        chat = await sandbox.create_chat(people[0], ["agent", *people[1:]], **more)
        chats[chat["id"]] = people
    return chats


async def speak(
    sandbox: Sandbox, chats: Mapping[str, Sequence[str]], number: int, seconds: float = 2.0
) -> dict[str, str]:
    """Let people say so many things in all chats together, at once, spread over some seconds; ids with their chats."""
    said: dict[str, str] = {}

    async def talk(chat: str, texts: Iterable[str]) -> None:
        for text in texts:
            await asyncio.sleep(random.uniform(0, 2 * seconds * len(chats) / number))
            message = await sandbox.say(random.choice(chats[chat]), text, chat=chat)
            said[message["id"] + chat] = chat

    places = list(chats)
    shares = [[f"message {one}" for one in range(place, number, len(places))] for place in range(len(places))]
    await asyncio.gather(*(talk(chat, share) for chat, share in zip(places, shares, strict=True)))
    assert len(said) == number
    return said


def key(handed: Handed) -> str:
    """What tells messages apart: ids are unique in one chat only."""
    return handed.message_id + handed.chat_id


def by_message(windows: Iterable[Window], said: Iterable[str]) -> dict[str, list[Handed]]:
    """All that was handed of these messages, by `key`; nothing else may have been handed."""
    known, found = set(said), defaultdict(list)
    for window in windows:
        for handed in window.handed:
            assert key(handed) in known, f"nobody has said this: {handed}"
            found[key(handed)].append(handed)
    return found


async def all_handed(windows: Sequence[Window], said: Iterable[str], timeout: float = 60.0) -> None:
    """Wait until every message was handed to somebody. Fails with those that were not."""
    missing = set(said)

    async def complete() -> bool:
        for window in windows:
            window.take()
            missing.difference_update(map(key, window.handed))
        return not missing

    try:
        await until(complete, "all messages", timeout)
    except AssertionError:
        told = "\n".join(f"--- {window.process}\n{window.server.stderr[-3000:]}" for window in windows)
        raise AssertionError(f"{len(missing)} messages are lost: {sorted(missing)}\n{told}") from None


async def looks(sandbox: Sandbox, number: int, timeout: float = 60.0) -> None:
    """Wait until the chats have been looked at so many times more, by all servers together."""
    before = (await sandbox.counts()).get(_LOOK, 0)

    async def looked() -> bool:
        return (await sandbox.counts()).get(_LOOK, 0) >= before + number

    await until(looked, f"{number} more looks at the chats", timeout)


def handed_once(windows: Sequence[Window], said: Iterable[str]) -> None:
    """Every message was handed to one host, once, and is not said to be a repeat."""
    found = by_message(windows, said)
    wrong = {one: handed for one, handed in found.items() if len(handed) != 1 or handed[0].redelivered}
    assert not wrong, f"not exactly once: {wrong}"
    assert found.keys() == set(said)
