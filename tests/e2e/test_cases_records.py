"""What becomes of a message when the record is written by others in between, or a server dies before it writes."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
from entrabot_sandbox.client import Sandbox
from filelock import FileLock

from tests.e2e import swarm
from tests.e2e.cases import ASKING, Json, fresh, installation, taken, words
from tests.e2e.store import RecordOf
from tests.e2e.wire import Server, served, until

_ATTEMPTS = 10


@dataclass
class Scene:
    """A server that has heard somebody in a chat before, and the record of that chat."""

    sandbox: Sandbox
    server: Server
    chat: str
    record: RecordOf

    @asynccontextmanager
    async def claimed(self, text: str) -> AsyncIterator[tuple[Json, Json]]:
        """Say something and stop the server's writing once it has claimed it and not recorded it; yield both.

        The lock is held in the block. A server that was quicker is told something more.
        """
        for _ in range(_ATTEMPTS):
            async with self.record.held():
                said = await self.sandbox.say("alice", text, chat=self.chat)
                record = await self.record.let_one_write_through()
                if said["id"] in record["in_hand"]:
                    yield said, record
                    return
            assert (await self.server.next_push())["meta"]["message_id"] == said["id"]
        raise AssertionError("the server always records before it can be stopped")

    async def recorded(self, message: Json) -> Json:
        """Wait until a message is recorded; return the record."""

        async def done() -> Json | None:
            record = self.record.read()
            return record if message["id"] in record["ids"] and not record["owner"] else None

        return dict(await until(done, "the message is recorded"))

    async def nothing_more(self) -> None:
        """Nothing is pushed for some looks."""
        await swarm.looks(self.sandbox, 3)
        assert [words(push) for push in taken(self.server)] == []


@pytest.fixture(scope="module")
async def tenant(running: Sandbox) -> Sandbox:
    return await fresh(running)


@pytest.fixture(scope="module")
def settings(tenant: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return installation(tenant, tmp_path_factory.mktemp("records"), ENTRABOT_PUSH="on")


@pytest.fixture(scope="module")
async def scene(tenant: Sandbox, settings: dict[str, str]) -> AsyncIterator[Scene]:
    asking = Path(settings["HOME"], "asking.py")
    asking.write_text(ASKING, encoding="utf-8")
    async with served(settings, "--plugin", str(asking)) as server:
        await server.call("whoami")
        yield await _begun(tenant, server, settings, await tenant.say("alice", "hello"))


async def _begun(tenant: Sandbox, server: Server, settings: dict[str, str], said: Json) -> Scene:
    """Wait until what was said is pushed and recorded."""
    assert (await server.next_push())["meta"]["message_id"] == said["id"]
    data = Path(settings["ENTRABOT_DATA_DIR"])
    scene = Scene(tenant, server, said["chatId"], RecordOf.of_chat(data, said["chatId"]))
    await scene.recorded(said)
    return scene


@contextmanager
def _another_session(settings: dict[str, str]) -> Iterator[str]:
    """Be another session of the installation, which lives as long as the block; yield its id."""
    session = uuid4().hex
    with FileLock(Path(settings["ENTRABOT_DATA_DIR"], "sessions", f"{session}.lock"), thread_local=False):
        yield session


async def test_a_record_changed_by_another_between_claim_and_record_is_merged(scene: Scene) -> None:
    other = uuid4().hex
    async with scene.claimed("one") as (said, claimed):
        scene.record.change(preferred=other, sent=[*claimed["sent"], "4711"])
    push = await scene.server.next_push()
    assert (push["meta"]["message_id"], "redelivered" in push["meta"]) == (said["id"], False)
    record = await scene.recorded(said)
    assert (record["in_hand"], record["sent"]) == ({}, [*claimed["sent"], "4711"])
    assert (record["epoch"], record["preferred"]) == (claimed["epoch"], claimed["owner"])
    await scene.nothing_more()


async def test_a_server_that_is_fenced_remembers_what_it_pushed(scene: Scene) -> None:
    async with scene.claimed("two") as (said, claimed):
        scene.record.change(epoch=claimed["epoch"] + 1, owner=uuid4().hex)  # whoever that was is dead by now
    push = await scene.server.next_push()
    assert (push["meta"]["message_id"], "redelivered" in push["meta"]) == (said["id"], False)
    await scene.nothing_more()
    later = await scene.sandbox.say("alice", "later", chat=scene.chat)
    push = await scene.server.next_push()
    assert (push["meta"]["message_id"], "redelivered" in push["meta"]) == (later["id"], False)
    record = await scene.recorded(later)
    assert record["in_hand"] == {}
    assert said["id"] in record["ids"]
    await scene.nothing_more()


async def test_a_server_that_is_fenced_by_the_living_leaves_it_the_chat_and_pushes_nothing_twice(
    scene: Scene, settings: dict[str, str]
) -> None:
    with _another_session(settings) as other:
        async with scene.claimed("three") as (said, claimed):
            scene.record.change(epoch=claimed["epoch"] + 1, owner=other)
        push = await scene.server.next_push()
        assert (push["meta"]["message_id"], "redelivered" in push["meta"]) == (said["id"], False)
        later = await scene.sandbox.say("alice", "after three", chat=scene.chat)
        await scene.nothing_more()
        record = scene.record.read()
        assert (record["owner"], [*record["in_hand"]]) == (other, [said["id"]])
    push = await scene.server.next_push()
    assert (push["meta"]["message_id"], "redelivered" in push["meta"]) == (later["id"], False)
    record = await scene.recorded(later)
    assert record["in_hand"] == {}
    assert said["id"] in record["ids"]
    await scene.nothing_more()


async def test_a_record_changed_by_another_before_the_claim_is_claimed_anew(scene: Scene) -> None:
    async with scene.record.held():
        before = scene.record.read()
        scene.record.change(sent=[*before["sent"], "4712"])  # the server knows the record by heart, and does not look
        said = await scene.sandbox.say("alice", "three", chat=scene.chat)
    push = await scene.server.next_push()
    assert (push["meta"]["message_id"], "redelivered" in push["meta"]) == (said["id"], False)
    record = await scene.recorded(said)
    assert (record["sent"], record["epoch"]) == ([*before["sent"], "4712"], before["epoch"] + 1)
    await scene.nothing_more()


async def test_a_sponsors_word_binds_while_its_record_waits_for_the_store(
    scene: Scene, settings: dict[str, str]
) -> None:
    group = (await scene.sandbox.create_chat("alice", ["agent", "bob"], topic="Bound"))["id"]
    said = await scene.sandbox.say("bob", "hello", chat=group)
    here = await _begun(scene.sandbox, scene.server, settings, said)
    asked = {"requester": "alice@contoso.example", "chat_id": group}
    assert "refused" in await scene.server.call("ask", **asked)
    async with here.claimed("go ahead") as (said, _):
        push = await scene.server.next_push()
        assert (push["meta"]["message_id"], push["meta"]["sponsor"]) == (said["id"], "yes")
        assert await scene.server.call("ask", **asked) == {"granted": scene.sandbox.people["alice"]["id"]}
    await here.recorded(said)
    await here.nothing_more()


async def test_death_between_a_push_and_its_record(tenant: Sandbox, tmp_path: Path) -> None:
    alone = installation(tenant, tmp_path, ENTRABOT_PUSH="on")
    async with served(alone) as server:
        await server.call("whoami")
        scene = await _begun(tenant, server, alone, await tenant.say("alice", "hello"))
        async with scene.claimed("four") as (said, _):
            push = await server.next_push()
            assert (push["meta"]["message_id"], "redelivered" in push["meta"]) == (said["id"], False)
            server.process.kill()
            assert await server.ended() == -signal.SIGKILL
    async with served(alone) as server:
        await server.call("whoami")
        push = await server.next_push()
        assert (push["meta"]["message_id"], push["meta"].get("redelivered")) == (said["id"], "yes")
        await swarm.looks(tenant, 3)
        assert taken(server) == []
