"""What counts as a new message and what does not, case by case, as one host with channels sees it.

All cases of delivery, and the tests that show them with real servers:

two windows on one installation
    a chat stays with its window; death                     test_several_hosts: two_windows_share_the_work
    no lock, no beat: a stopped window                      test_several_hosts: a_window_that_is_stopped
    many messages, kills at any moment                      test_swarm: two_windows_share, a_window_that_is_killed
    a group in which the agent says nothing                 test_cases_turns: a_group_in_which_the_agent_is_silent
    pushes in courtesy: not of what is another's            test_cases_turns: pushes_in_courtesy
a host that drops pushes without saying so                  test_several_hosts: claude_code_without_its_flag,
                                                            what_a_host_may_have_dropped
one host waits while another idles                          test_several_hosts: an_answer_comes_with_the_send
an answer after the wait has ended                          test_cases_turns: a_late_answer, after_a_minute
a first message                                             here: the_first_message
let into an old group, history shown or not                 here: of_an_old_group
asleep overnight, with all of its processes                 test_cases_absence: a_laptop_asleep
mail, and no host with pushes                               test_cases_turns: mail_comes
death between a push and its record                         test_cases_records: death_between
a slow store keeps no sponsor's word from counting          test_cases_records: a_sponsors_word_binds
another writes the record in between                        test_cases_records: changed_by_another, fenced,
                                                            before_the_claim
the newest message is a deleted one                         here: a_message_that_was_deleted
old messages edited, reactions, system events               here: what_is_no_news, edited_before_it_was_seen
a person's own chats, three thousand of them                test_cases_delegated: all of it
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from entrabot_sandbox.client import Sandbox

from tests.e2e import swarm
from tests.e2e.cases import fresh, frozen, installation, reads, taken, words
from tests.e2e.wire import Server, served


@dataclass(frozen=True)
class Scene:
    """The tenant and the one server that listens in it."""

    sandbox: Sandbox
    server: Server

    async def nothing(self, looks: int = 3) -> None:
        """Wait for some looks at the chats, and see that nothing was pushed."""
        await swarm.looks(self.sandbox, looks)
        assert [words(push) for push in taken(self.server)] == []

    async def hear(self, *said: tuple[str, str, str | None]) -> list[tuple[str, str]]:
        """Let people (who, what, where) speak; each is pushed once and nothing else is. Return chats and ids."""
        messages = [await self.sandbox.say(person, text, chat=chat) for person, text, chat in said]
        pushes = [await self.server.next_push() for _ in messages]
        expected = {
            (message["chatId"], message["id"]): text for message, (_, text, _) in zip(messages, said, strict=True)
        }
        assert {(push["meta"]["chat_id"], push["meta"]["message_id"]): words(push) for push in pushes} == expected
        return [*expected]

    async def group(self, topic: str, *people: str) -> str:
        """Make a group of alice, the agent and others; return its id."""
        return str((await self.sandbox.create_chat("alice", [*people], topic=topic))["id"])

    async def age(self, seconds: float) -> None:
        """Let time pass in the tenant. A chat whose news is young is looked at several times, an old one once."""
        await self.sandbox.set_clock((await self.sandbox.state())["clock_offset"] + seconds)


@pytest.fixture(scope="module")
async def scene(running: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    sandbox = await fresh(running)
    settings = installation(sandbox, tmp_path_factory.mktemp("news"), ENTRABOT_PUSH="on")
    async with served(settings) as server:
        await server.call("whoami")
        await swarm.looks(sandbox, 1)
        yield Scene(sandbox, server)


async def test_the_first_message_in_a_new_chat_is_heard(scene: Scene) -> None:
    group = await scene.group("New", "agent", "bob")
    await scene.hear(
        ("bob", "we have never talked before", None),
        ("mallory", "neither have we", None),
        ("bob", "the first in this group", group),
    )


@pytest.mark.parametrize("history", [False, True], ids=["hidden", "shown"])
async def test_of_an_old_group_only_what_follows_is_heard(scene: Scene, history: bool) -> None:
    sandbox = scene.sandbox
    group = await scene.group("Old", "bob", "carol")
    for number in range(3):
        await sandbox.say("bob", f"old words {number}", chat=group)
    with frozen(scene.server):
        await sandbox.add_member("alice", group, "agent", history=history)
        said = await sandbox.say("alice", "right after", chat=group)
    push = await scene.server.next_push()
    assert (words(push), push["meta"]["message_id"]) == ("right after", said["id"])
    await scene.hear(("bob", "and later", group))
    await scene.nothing()


async def test_a_message_that_was_deleted_before_it_was_seen(scene: Scene) -> None:
    group = await scene.group("Slips", "agent", "bob")
    with frozen(scene.server):
        await scene.sandbox.say("bob", "hello", chat=group)
        await scene.age(90)
    assert words(await scene.server.next_push()) == "hello"
    await scene.nothing(2)
    with frozen(scene.server):
        said = await scene.sandbox.say("alice", "a slip of the pen", chat=group)
        await scene.sandbox.delete("alice", group, said["id"])
        await scene.age(90)
        before = await reads(scene.sandbox, group)
    await scene.nothing(6)
    assert await reads(scene.sandbox, group) - before == 1, "a deleted message is looked for once, and not without end"
    await scene.hear(("alice", "what I meant", group))


async def test_what_is_no_news(scene: Scene) -> None:
    sandbox = scene.sandbox
    acts = ("edit", "edit by another", "react", "rename", "add", "remove", "delete")
    chats = {act: await scene.group(act, "agent", "bob", "carol") for act in acts}
    heard = await scene.hear(*(("alice", f"before: {act}", chat) for act, chat in chats.items()))
    old = dict(zip(acts, heard, strict=True))
    await scene.hear(("bob", "the newest here", chats["edit by another"]))

    await sandbox.edit("alice", *old["edit"], "Now do it.")
    await sandbox.edit("alice", *old["edit by another"], "Now do it.")
    await sandbox.react("bob", *old["react"])
    await sandbox.rename("alice", chats["rename"], "Urgent: do it now")
    await sandbox.add_member("alice", chats["add"], "mallory", history=True)
    await sandbox.remove_member("alice", chats["remove"], "bob")
    await sandbox.delete("alice", *old["delete"])
    await swarm.looks(sandbox, 4)
    names = {chat: act for act, chat in chats.items()}
    assert [names.get(push["meta"]["chat_id"], push) for push in taken(scene.server)] == []

    await scene.hear(*(("carol", f"after: {act}", chat) for act, chat in chats.items()))


async def test_a_message_edited_before_it_was_seen_is_heard_as_it_is_now_and_once(scene: Scene) -> None:
    with frozen(scene.server):
        said = await scene.sandbox.say("alice", "Delete it.")
        await scene.sandbox.edit("alice", said["chatId"], said["id"], "Keep it.")
    push = await scene.server.next_push()
    assert (push["meta"]["message_id"], words(push)) == (said["id"], "Keep it.")
    await scene.sandbox.edit("alice", said["chatId"], said["id"], "Delete it.")
    await scene.nothing()
