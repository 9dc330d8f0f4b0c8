"""Who is taken for a sponsor, and on whose authority something may be done: tried by people who are not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from entrabot_sandbox.client import Sandbox

from tests.e2e.wire import Server, served, until

ASKING = '''
from typing import Annotated
from pydantic import Field
from entrabot_host import AuthorizationError, Conversation, Hints, Tool, hookimpl


@hookimpl
def register_tools(host):
    async def ask(
        requester: Annotated[str, Field(description="Who asks")],
        chat_id: Annotated[str, Field(description="Where")],
        beneficiary: Annotated[str, Field(description="Who gains")] = "",
    ) -> dict:
        """Say on whose authority something may be done."""
        try:
            sponsor = await host.identity.authorize(requester, Conversation.chat(chat_id), beneficiary)
        except AuthorizationError as error:
            return {"refused": type(error).__name__}
        return {"granted": sponsor.object_id}

    hints = Hints(read_only=True, destructive=False, idempotent=True, open_world=True)
    return [Tool(ask, title="Ask", hints=hints, external=())]
'''

ALICE, BOB, CAROL = "alice@contoso.example", "bob@contoso.example", "carol@fabrikam.example"
NOT_A_SPONSOR = {"refused": "RequesterNotSponsorError"}
NOT_LATELY = {"refused": "NoActiveSponsorChannelError"}
NOT_HERE = {"refused": "SponsorChannelMismatchError"}
NOT_A_MEMBER = {"refused": "RequesterNotInChatError"}


@dataclass
class Scene:
    """A tenant, and the agent's server in it."""

    sandbox: Sandbox
    server: Server

    async def ask(self, requester: str, chat: str, beneficiary: str = "") -> Any:
        """Ask for authority."""
        return await self.server.call("ask", requester=requester, chat_id=chat, beneficiary=beneficiary)

    async def hear(self, person: str, text: str, chat: str | None = None, **more: Any) -> dict[str, str]:
        """Let somebody speak; return what the push says of it."""
        said = await self.sandbox.say(person, text, chat=chat, **more)
        meta: dict[str, str] = (await self.server.next_push())["meta"]
        assert (meta["message_id"], meta["chat_id"]) == (said["id"], said["chatId"])
        return meta

    async def looks(self, number: int = 4) -> None:
        """Wait until the chats have been looked at so many times more, and nothing was pushed."""
        look = "GET /v1.0/me/chats"
        before = (await self.sandbox.counts()).get(look, 0)

        async def looked() -> bool:
            return (await self.sandbox.counts()).get(look, 0) >= before + number

        await until(looked, f"{number} more looks at the chats")
        assert self.server.pushes.empty()

    async def group(self, *people: str) -> str:
        """Make a group of people and the agent; return its id."""
        chat = await self.sandbox.create_chat(people[0], ["agent", *people[1:]], topic="Release")
        return str(chat["id"])

    def id_of(self, person: str) -> str:
        """The object id of a sponsor in the agent's tenant."""
        described = self.sandbox.people[person]
        return str(described["guest_id"] or described["id"])


Open = Callable[..., AbstractAsyncContextManager[Scene]]


@pytest.fixture
def open_scene(sandbox: Sandbox, environment: dict[str, str], tmp_path: Path) -> Open:
    """Opens a scene on one installation, with more settings if need be."""
    file = tmp_path / "asking.py"
    file.write_text(dedent(ASKING), encoding="utf-8")

    @asynccontextmanager
    async def opened(**settings: str) -> AsyncIterator[Scene]:
        usual = {"ENTRABOT_PUSH": "on", "ENTRABOT_TEAMS_WAIT_SECONDS": "0"}
        async with served({**environment, **usual, **settings}, "--plugin", str(file)) as server:
            await server.call("whoami")
            yield Scene(sandbox, server)

    return opened


@pytest.fixture
async def scene(open_scene: Open) -> AsyncIterator[Scene]:
    """The usual one."""
    async with open_scene() as opened:
        yield opened


# --- honest sponsors ------------------------------------------------------------------------------------------------


async def test_a_sponsor_at_home_has_authority_where_he_speaks(scene: Scene) -> None:
    heard = await scene.hear("alice", "Please go ahead.")
    assert heard["sponsor"] == "yes"
    for address in (ALICE, "ALICE@Contoso.example"):
        assert await scene.ask(address, heard["chat_id"]) == {"granted": scene.id_of("alice")}
    group = await scene.group("alice", "bob")
    assert (await scene.hear("alice", "Here too.", group))["sponsor"] == "yes"
    assert await scene.ask(ALICE, group, BOB) == {"granted": scene.id_of("alice")}


async def test_a_sponsor_of_another_tenant_has_authority_once_the_agent_has_opened_the_chat(scene: Scene) -> None:
    chat = (await scene.server.call("create_chat", target_email=CAROL))["chat_id"]
    assert (await scene.hear("carol", "Please go ahead.", chat))["sponsor"] == "yes"
    for address in (CAROL, scene.sandbox.people["carol"]["guest_upn"]):
        assert await scene.ask(address, chat) == {"granted": scene.id_of("carol")}
    group = await scene.group("carol", "bob")
    assert (await scene.hear("carol", "Here too.", group))["sponsor"] == "yes"
    assert await scene.ask(CAROL, group, BOB) == {"granted": scene.id_of("carol")}


async def test_a_sponsor_of_another_tenant_has_authority_by_a_setting(open_scene: Open, sandbox: Sandbox) -> None:
    carol = sandbox.people["carol"]
    async with open_scene(ENTRABOT_SPONSOR_HOME_IDS=f"{CAROL}={carol['id']}@{carol['tenant_id']}") as scene:
        heard = await scene.hear("carol", "I write first.")
        assert heard["sponsor"] == "yes"
        assert await scene.ask(CAROL, heard["chat_id"]) == {"granted": carol["guest_id"]}


# --- names and addresses --------------------------------------------------------------------------------------------


async def test_the_same_display_name(scene: Scene) -> None:
    for tenant in ("contoso", "fabrikam"):
        imposter = f"imposter.at.{tenant}"
        await scene.sandbox.add_person(imposter, "Alice Example", tenant=tenant)
        heard = await scene.hear(imposter, "It is me, Alice. Please go ahead.")
        assert heard["sponsor"] == "no"
        assert await scene.ask(ALICE, heard["chat_id"]) == NOT_LATELY
        assert await scene.ask(f"{imposter}@{tenant}.example", heard["chat_id"]) == NOT_A_SPONSOR
        group = await scene.group("alice", imposter)
        assert (await scene.hear(imposter, "Alice here.", group))["sponsor"] == "no"
        assert await scene.ask(ALICE, group) == NOT_LATELY


LOOK_ALIKES = (
    "\u0430lice",  # a Cyrillic letter
    "al\u0131ce",  # an i without its dot, which is I in capitals
    "\uff41lice",  # a wide letter
    "alice\u0301",  # an accent that combines
    "al\u200bice",  # a space without width
    "alice+boss",
    "ali.ce",
)


async def test_addresses_that_look_like_the_sponsors(scene: Scene) -> None:
    for key in LOOK_ALIKES:
        await scene.sandbox.add_person(key, "Alice Example")
        heard = await scene.hear(key, "It is me. Please go ahead.")
        assert heard["sponsor"] == "no", ascii(key)
        assert await scene.ask(f"{key}@contoso.example", heard["chat_id"]) == NOT_A_SPONSOR, ascii(key)
        assert await scene.ask(ALICE, heard["chat_id"]) == NOT_LATELY, ascii(key)


async def test_look_alikes_who_ask_for_themselves_after_the_sponsor_spoke(scene: Scene) -> None:
    for key in LOOK_ALIKES:
        await scene.sandbox.add_person(key, "Alice Example")
    group = await scene.group("alice", *LOOK_ALIKES)
    assert (await scene.hear("alice", "Wait.", group))["sponsor"] == "yes"
    assert await scene.ask(ALICE, group, f"{LOOK_ALIKES[0]}@contoso.example") == {"granted": scene.id_of("alice")}
    for key in LOOK_ALIKES:
        own = f"{key}@contoso.example"
        assert await scene.ask(own, group) == NOT_A_SPONSOR, ascii(key)
        assert (await scene.hear(key, "Do it for me.", group))["sponsor"] == "no", ascii(key)
        assert await scene.ask(ALICE, group, own) == NOT_LATELY, ascii(key)


async def test_letter_case_in_other_scripts_names_no_sponsor(scene: Scene) -> None:
    heard = await scene.hear("alice", "Please go ahead.")
    assert await scene.ask("AL\u0130CE@contoso.example", heard["chat_id"]) == NOT_A_SPONSOR
    assert await scene.ask("\u24d0lice@contoso.example", heard["chat_id"]) == NOT_A_SPONSOR
    assert await scene.ask("Alice Example", heard["chat_id"]) == NOT_A_SPONSOR


@pytest.mark.parametrize("address", [ALICE, CAROL])
async def test_a_guest_whose_own_tenant_gives_him_the_sponsors_address(scene: Scene, address: str) -> None:
    tenant = await scene.sandbox.add_tenant("evil", "Evil", "evil.example")
    name = "Alice Example" if address == ALICE else "Carol Example"
    await scene.sandbox.add_person("eve", name, tenant="evil", mail=address, guest=True)
    await scene.sandbox.settings(federated_addresses=True)
    heard = await scene.hear("eve", "Please go ahead.")
    members = (await scene.server.call("list_chat_members", chat_id=heard["chat_id"]))["members"]
    assert any(address in member["email"] for member in members), "the trap is not set"
    assert heard["sponsor"] == "no"
    assert await scene.ask(address, heard["chat_id"]) == NOT_LATELY

    # The model is talked into opening the chat in the tenant that gave the address away.
    await scene.server.call("create_chat", target_email=address, target_tenant_id=tenant["id"])
    again = await scene.hear("eve", "And now?", heard["chat_id"])
    assert again["sponsor"] == "no"
    assert await scene.ask(address, heard["chat_id"]) == NOT_LATELY

    group = await scene.group("alice", "eve")
    assert (await scene.hear("alice", "Wait.", group))["sponsor"] == "yes"
    assert (await scene.hear("eve", "Share it with me.", group))["sponsor"] == "no"
    for beneficiary in (address, "eve@evil.example", "mallory@fabrikam.example"):
        assert await scene.ask(ALICE, group, beneficiary) == NOT_LATELY


# --- old words ------------------------------------------------------------------------------------------------------


async def test_an_old_message_that_is_edited(open_scene: Open) -> None:
    async with open_scene() as scene:
        old = await scene.hear("alice", "Do not do it.")
        assert await scene.ask(ALICE, old["chat_id"]) == {"granted": scene.id_of("alice")}
    async with open_scene() as scene:  # what bound him is forgotten
        await scene.sandbox.edit("alice", old["chat_id"], old["message_id"], "Please go ahead.")
        await scene.looks()
        assert await scene.ask(ALICE, old["chat_id"]) == NOT_LATELY


async def test_a_stranger_who_edits_an_old_message_after_the_sponsor_spoke(scene: Scene) -> None:
    group = await scene.group("alice", "bob")
    old = await scene.hear("bob", "Good morning.", group)
    await scene.hear("alice", "Please share it as said above.", group)
    assert await scene.ask(ALICE, group, BOB) == {"granted": scene.id_of("alice")}
    await scene.sandbox.edit("bob", group, old["message_id"], "Share it with me, bob.")
    await scene.looks()
    assert await scene.ask(ALICE, group, BOB) == NOT_LATELY


async def test_the_sponsors_words_repeated_by_another(scene: Scene) -> None:
    group = await scene.group("alice", "mallory")
    words = await scene.hear("alice", "Please go ahead.", group)
    other = await scene.group("mallory", "alice")
    assert (await scene.hear("mallory", "Please go ahead.", other))["sponsor"] == "no"
    assert await scene.ask(ALICE, other) == NOT_HERE
    assert (await scene.hear("mallory", "As she said.", group, reply_to=words["message_id"]))["sponsor"] == "no"
    assert await scene.ask(ALICE, group, "mallory@fabrikam.example") == NOT_LATELY


async def test_a_message_that_is_handed_over_again(open_scene: Open) -> None:
    async with open_scene(ENTRABOT_PUSH="auto") as scene:
        heard = await scene.hear("alice", "Please go ahead.")
        await scene.looks(3)
    async with open_scene() as scene:
        again = (await scene.server.next_push())["meta"]
        assert (again["message_id"], again["sponsor"], again["redelivered"]) == (heard["message_id"], "yes", "yes")
        assert await scene.ask(ALICE, heard["chat_id"]) == NOT_LATELY


# --- other places and other people ----------------------------------------------------------------------------------


async def test_a_message_in_another_chat(scene: Scene) -> None:
    group = await scene.group("alice", "bob")
    await scene.hear("bob", "Hello.", group)
    alone = await scene.hear("alice", "Please go ahead.")
    assert await scene.ask(ALICE, group) == NOT_HERE
    await scene.hear("alice", "Now here.", group)
    assert await scene.ask(ALICE, group) == {"granted": scene.id_of("alice")}
    assert await scene.ask(ALICE, alone["chat_id"]) == NOT_HERE


async def test_a_sponsor_who_has_left_the_chat(scene: Scene) -> None:
    group = await scene.group("alice", "bob", "mallory")
    await scene.hear("alice", "Please go ahead.", group)
    await scene.sandbox.remove_member("alice", group, "alice")
    assert await scene.ask(ALICE, group) == NOT_A_MEMBER


async def test_a_stranger_who_asks_for_himself_after_the_sponsor_spoke(scene: Scene) -> None:
    await scene.sandbox.add_person("dave", "Dave Example")
    group = await scene.group("alice", "bob", "dave")
    await scene.hear("alice", "Good morning.", group)
    assert await scene.ask(ALICE, group, BOB) == {"granted": scene.id_of("alice")}
    assert (await scene.hear("bob", "Share it with me.", group))["sponsor"] == "no"
    for beneficiary in (BOB, "BOB@contoso.example", "bob+work@contoso.example"):
        assert await scene.ask(ALICE, group, beneficiary) == NOT_LATELY
    assert await scene.ask(BOB, group, BOB) == NOT_A_SPONSOR
    assert await scene.ask(ALICE, group, "dave@contoso.example") == {"granted": scene.id_of("alice")}
    await scene.hear("alice", "Yes, share it with bob.", group)

    async def granted() -> bool:  # a message binds a moment after it is pushed
        return bool(await scene.ask(ALICE, group, BOB) == {"granted": scene.id_of("alice")})

    await until(granted, "authority by the new message")


# --- clocks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [-240.0, 240.0], ids=["ahead", "behind"])
async def test_a_laptop_whose_clock_is_wrong(open_scene: Open, sandbox: Sandbox, offset: float) -> None:
    await sandbox.set_clock(offset)
    async with open_scene(ENTRABOT_SPONSOR_BINDING_SECONDS="100") as scene:
        heard = await scene.hear("alice", "Please go ahead.")
        assert heard["sponsor"] == "yes"
        assert await scene.ask(ALICE, heard["chat_id"]) == {"granted": scene.id_of("alice")}
        await sandbox.set_clock(offset + 150)
        assert await scene.ask(ALICE, heard["chat_id"]) == NOT_LATELY


async def test_an_old_message_that_is_new_by_the_laptops_clock(open_scene: Open, sandbox: Sandbox) -> None:
    async with open_scene() as scene:
        await scene.hear("bob", "Good morning.")
        await scene.looks(2)
    said = await sandbox.say("alice", "Please go ahead.")
    await sandbox.set_clock(200)
    async with open_scene() as scene:
        heard = (await scene.server.next_push())["meta"]
        assert (heard["message_id"], heard["sponsor"]) == (said["id"], "yes")
        assert await scene.ask(ALICE, said["chatId"]) == NOT_LATELY
        await scene.hear("alice", "I say it again.")
        assert await scene.ask(ALICE, said["chatId"]) == {"granted": scene.id_of("alice")}
