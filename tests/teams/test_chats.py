"""Opening chats and listing their members, on the wire."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from entrabot_sandbox.client import Sandbox
from entrabot_teams.domain import Teams

from entrabot_host import GraphError, GraphNotFound, InvalidArgument, StorageError
from tests.teams.parts import PlainHost


async def test_own_tenant(teams: Teams, host: PlainHost, sandbox: Sandbox) -> None:
    bob = sandbox.people["bob"]
    chat = await teams.chats.create_chat(bob["mail"])
    assert chat == {
        "chat_id": chat["chat_id"],
        "chat_type": "oneOnOne",
        "target": bob["mail"],
        "watched": True,
    }
    assert [c["id"] for c in await sandbox.chats("bob")] == [chat["chat_id"]]
    assert host.store.values["watched_chats"] == f"{chat['chat_id']}\n".encode()
    assert await teams.watched.all() == {chat["chat_id"]}


async def test_again_returns_the_same_chat(teams: Teams, sandbox: Sandbox) -> None:
    first = await teams.chats.create_chat(sandbox.people["bob"]["mail"])
    assert await teams.chats.create_chat(sandbox.people["bob"]["mail"].upper()) == first | {
        "target": sandbox.people["bob"]["mail"].upper()
    }


@pytest.mark.parametrize("form", ["mail", "guest_upn"])
async def test_another_tenant_reaches_the_person_not_the_guest_object(
    teams: Teams, host: PlainHost, sandbox: Sandbox, form: str
) -> None:
    carol = sandbox.people["carol"]
    chat = await teams.chats.create_chat(carol[form])
    assert [c["id"] for c in await sandbox.chats("carol")] == [chat["chat_id"]]
    assert carol["id"] in chat["chat_id"]
    assert carol["guest_id"] not in chat["chat_id"]
    assert host.identity.learnt == [(chat["target"], carol["id"], carol["tenant_id"])]


async def test_no_home_is_learnt_of_strangers_nor_of_colleagues(
    teams: Teams, host: PlainHost, sandbox: Sandbox
) -> None:
    await teams.chats.create_chat(sandbox.people["mallory"]["mail"])
    await teams.chats.create_chat(sandbox.people["alice"]["mail"])
    assert host.identity.learnt == []


async def test_a_tenant_that_only_the_caller_names_teaches_nothing(
    teams: Teams, host: PlainHost, sandbox: Sandbox
) -> None:
    """Whoever owns a tenant can give his user any address, a sponsor's too."""
    carol = sandbox.people["carol"]
    tenant = await sandbox.add_tenant("evil", "Evil", "evil.example")
    await sandbox.add_person("impostor", "Carol", tenant="evil", mail=carol["mail"])
    chat = await teams.chats.create_chat(carol["mail"], tenant["id"])
    assert carol["id"] not in chat["chat_id"]
    assert host.identity.learnt == []


async def test_the_right_tenant_given_is_taken(teams: Teams, host: PlainHost, sandbox: Sandbox) -> None:
    carol = sandbox.people["carol"]
    await teams.chats.create_chat(carol["mail"], carol["tenant_id"])
    assert [learnt[1] for learnt in host.identity.learnt] == [carol["id"]]


async def test_unknown_domain_is_refused_before_graph(teams: Teams, sandbox: Sandbox) -> None:
    with pytest.raises(InvalidArgument, match="no organisation"):
        await teams.chats.create_chat("jane@nowhere.example")
    assert not [key for key in await sandbox.counts() if "/chats" in key]


async def test_unknown_person(teams: Teams) -> None:
    with pytest.raises(GraphError) as caught:
        await teams.chats.create_chat("nobody@contoso.example")
    assert "address" in caught.value.remedy


@pytest.mark.parametrize(
    ("address", "tenant"),
    [
        ("", ""),
        ("not an address", ""),
        ("a@b", ""),
        ("a') or ('1'='1@contoso.example", ""),
        ("a/b@contoso.example", ""),
        ("a@contoso.example\nb@contoso.example", ""),
        ("bob@contoso.example", "contoso"),
    ],
)
async def test_bad_arguments_reach_nobody(teams: Teams, sandbox: Sandbox, address: str, tenant: str) -> None:
    with pytest.raises(InvalidArgument):
        await teams.chats.create_chat(address, tenant)
    assert await sandbox.requests() == []


async def test_an_apostrophe_is_escaped(teams: Teams, host: PlainHost, sandbox: Sandbox) -> None:
    person = await sandbox.add_person("o'brien", "Pat O'Brien")
    graph, bound = host.graph, []

    class Watching:
        def __getattr__(self, name: str) -> Any:
            return getattr(graph, name)

        async def request(self, method: str, path: str, **more: Any) -> Any:
            if path == "/chats":
                bound.extend(member["user@odata.bind"] for member in more["json"]["members"])
            return await graph.request(method, path, **more)

    host.graph = Watching()
    chat = await teams.chats.create_chat(person["upn"])
    assert person["id"] in chat["chat_id"]
    own, other = bound
    assert own.endswith(f"/users('{host.identity.principal.user_id}')")
    assert other.endswith("/users('o''brien@contoso.example')")


async def test_a_broken_connection_is_no_reason_to_fail(teams: Teams, sandbox: Sandbox) -> None:
    await sandbox.fault("drop_after", method="POST", path="/v1.0/chats", count=1)
    chat = await teams.chats.create_chat(sandbox.people["bob"]["mail"])
    assert [c["id"] for c in await sandbox.chats("bob")] == [chat["chat_id"]]


async def test_a_broken_list_does_not_hide_that_the_chat_is_open(
    teams: Teams, host: PlainHost, sandbox: Sandbox
) -> None:
    host.store.broken = True
    chat = await teams.chats.create_chat(sandbox.people["bob"]["mail"])
    assert chat["chat_id"] in await teams.watched.all()
    with pytest.raises(StorageError):
        await host.store.read("watched_chats")


async def test_members(teams: Teams, sandbox: Sandbox) -> None:
    group = await sandbox.create_chat("alice", ["agent", "bob"], topic="Plan")
    listed = await teams.chats.list_chat_members(group["id"])
    by_name = {member["name"]: member for member in listed["members"]}
    bob = sandbox.people["bob"]
    assert by_name["Sati Agent"]["is_me"] is True
    assert by_name[bob["name"]] == {
        "user_id": bob["id"],
        "name": bob["name"],
        "email": bob["mail"],
        "roles": by_name[bob["name"]]["roles"],
        "tenant_id": bob["tenant_id"],
        "is_me": False,
    }


async def test_federated_member_without_address(teams: Teams, sandbox: Sandbox) -> None:
    chat = await teams.chats.create_chat(sandbox.people["carol"]["mail"])
    members = (await teams.chats.list_chat_members(chat["chat_id"]))["members"]
    assert {member["email"] for member in members if not member["is_me"]} == {""}


async def test_members_of_a_chat_of_others(teams: Teams, sandbox: Sandbox) -> None:
    foreign = await sandbox.create_chat("alice", ["bob"])
    with pytest.raises(GraphError) as caught:
        await teams.chats.list_chat_members(foreign["id"])
    assert caught.value.remedy


async def test_members_of_no_chat(teams: Teams) -> None:
    with pytest.raises(GraphNotFound) as caught:
        await teams.chats.list_chat_members(f"19:{'0' * 32}@thread.v2")
    assert "create_chat" in caught.value.remedy


@pytest.mark.parametrize("chat_id", ["", "  ", "alice", "19:a/../me@thread.v2", "19:x@thread.v2?$top=1", "19:%2F@x"])
async def test_chat_ids_that_are_none(teams: Teams, sandbox: Sandbox, chat_id: str) -> None:
    for call in (teams.chats.list_chat_members, teams.reading.read_teams_messages):
        with pytest.raises(InvalidArgument) as caught:
            await call(chat_id)
        assert chat_id.strip() == "" or quote(chat_id) not in caught.value.message
    assert await sandbox.requests() == []
