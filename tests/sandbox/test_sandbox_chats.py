"""Chats and members, by Graph's rules."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx
import pytest
from entrabot_sandbox.client import Sandbox, SandboxError

from tests.sandbox.wire import Bindings, Json, error, member


def chat(kind: str, *members: Json, **more: Any) -> Json:
    return {"chatType": kind, "members": list(members), **more}


async def test_a_one_on_one_chat_is_made_once(graph: httpx.AsyncClient, bind: Bindings) -> None:
    body = chat("oneOnOne", bind.of("agent"), bind.of("alice"))
    first = await graph.post("/chats", json=body)
    again = await graph.post("/chats", json=chat("oneOnOne", bind.of("alice"), bind.of("agent")))
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json()["id"] == again.json()["id"]
    halves = first.json()["id"].removeprefix("19:").removesuffix("@unq.gbl.spaces").split("_")
    assert set(halves) == {bind.people["agent"]["id"], bind.people["alice"]["id"]}
    assert (first.json()["chatType"], first.json()["topic"]) == ("oneOnOne", None)
    listed = (await graph.get(f"/chats/{first.json()['id']}/messages")).json()
    assert listed["value"] == []


async def test_a_group_is_made_every_time_and_begins_with_an_event(graph: httpx.AsyncClient, bind: Bindings) -> None:
    body = chat("group", bind.of("agent"), bind.of("alice"), bind.of("bob"), topic="Plan")
    first, again = await graph.post("/chats", json=body), await graph.post("/chats", json=body)
    assert first.json()["id"] != again.json()["id"]
    assert first.json()["id"].endswith("@thread.v2")
    assert first.json()["topic"] == "Plan"
    (event,) = (await graph.get(f"/chats/{first.json()['id']}/messages")).json()["value"]
    assert (event["from"], event["body"]["content"]) == (None, "<systemEventMessage/>")
    detail = event["eventDetail"]
    assert detail["@odata.type"] == "#microsoft.graph.membersAddedEventMessageDetail"
    assert {m["id"] for m in detail["members"]} == {bind.people[key]["id"] for key in ("agent", "alice", "bob")}
    assert detail["initiator"]["user"]["id"] == bind.people["agent"]["id"]


async def test_people_are_bound_by_id_name_or_address(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    people = sandbox.people
    agent = member(people["agent"]["upn"])
    own = sandbox.environment["ENTRABOT_GRAPH_URL"]
    here = {**member(people["bob"]["id"]), "user@odata.bind": f"{own}/v1.0/users('{people['bob']['id']}')"}
    far = member("CAROL@fabrikam.example", tenantId=people["carol"]["tenant_id"])
    for other in (member("Alice@contoso.example"), here, far):
        assert (await graph.post("/chats", json=chat("oneOnOne", agent, other))).status_code == 201
    quoted = await sandbox.add_person("o'brien", "Pat O'Brien")
    assert (
        await graph.post("/chats", json=chat("oneOnOne", agent, member(quoted["upn"].replace("'", "''"))))
    ).status_code == 201


async def test_a_federated_chat_reaches_the_person_at_home(
    graph: httpx.AsyncClient, sandbox: Sandbox, bind: Bindings
) -> None:
    far = member("carol@fabrikam.example", tenantId=bind.people["carol"]["tenant_id"])
    made = (await graph.post("/chats", json=chat("oneOnOne", bind.of("agent"), far))).json()
    assert bind.people["carol"]["id"] in made["id"]
    await graph.post(f"/chats/{made['id']}/messages", json={"body": {"content": "hello"}})
    answer = await sandbox.say("carol", "hi", chat=made["id"])
    members = (await graph.get(f"/chats/{made['id']}/members")).json()["value"]
    carol = next(m for m in members if m["displayName"] == "Carol Example")
    assert (carol["userId"], carol["email"], carol["roles"]) == (bind.people["carol"]["id"], "", ["owner"])
    heard = (await graph.get(f"/chats/{made['id']}/messages/{answer['id']}")).json()
    assert heard["from"]["user"]["id"] == bind.people["carol"]["id"]
    assert heard["from"]["user"]["displayName"] is None


@pytest.mark.parametrize(("kind", "role"), [("oneOnOne", "owner"), ("group", "guest")])
async def test_a_chat_with_a_guest_object_is_made_but_nobody_sees_it(
    graph: httpx.AsyncClient, sandbox: Sandbox, bind: Bindings, kind: str, role: str
) -> None:
    guest = member(bind.people["carol"]["guest_id"], (role,))
    made = await graph.post("/chats", json=chat(kind, bind.of("agent"), guest))
    assert made.status_code == 201
    chat_id = made.json()["id"]
    assert (await graph.post(f"/chats/{chat_id}/messages", json={"body": {"content": "hello?"}})).status_code == 201
    assert await sandbox.chats("carol") == []
    with pytest.raises(SandboxError, match="does not see this chat"):
        await sandbox.say("carol", "hi", chat=chat_id)


async def test_a_stranger_without_his_tenant_is_not_found(graph: httpx.AsyncClient, bind: Bindings) -> None:
    for reference in ("carol@fabrikam.example", bind.people["carol"]["id"], "nobody@contoso.example"):
        response = await graph.post("/chats", json=chat("oneOnOne", bind.of("agent"), member(reference)))
        assert error(response) == (404, "NotFound")


async def test_a_chat_that_breaks_a_rule_is_refused(graph: httpx.AsyncClient, bind: Bindings) -> None:
    agent, alice, bob = bind.of("agent"), bind.of("alice"), bind.of("bob")
    wrong: list[Any] = [
        chat("oneOnOne", alice, bob),
        chat("oneOnOne", agent),
        chat("oneOnOne", agent, alice, bob),
        chat("oneOnOne", agent, agent),
        chat("oneOnOne", agent, alice, topic="No topic here"),
        chat("group", agent),
        chat("group", agent, alice, alice),
        chat("meeting", agent, alice),
        chat("group", agent, alice, colour="red"),
        {"members": [agent, alice]},
        {"chatType": "group"},
        chat("oneOnOne", agent, {**alice, "roles": []}),
        chat("oneOnOne", agent, {**alice, "roles": ["admin"]}),
        chat("oneOnOne", agent, {**alice, "@odata.type": "#microsoft.graph.user"}),
        chat("oneOnOne", agent, {**alice, "user@odata.bind": "https://evil.example/v1.0/users('x')"}),
        chat("oneOnOne", agent, {**alice, "tenantId": "contoso.example"}),
        chat("oneOnOne", agent, {**alice, "tenantId": "11111111-1111-1111-1111-111111111111"}),
        [],
    ]
    for body in wrong:
        assert error(await graph.post("/chats", json=body)) == (400, "BadRequest"), body


async def test_chats_are_listed_with_what_is_expanded(
    graph: httpx.AsyncClient, sandbox: Sandbox, bind: Bindings
) -> None:
    said = await sandbox.say("alice", "good morning")
    await sandbox.create_chat("alice", ["bob"])
    plain = (await graph.get("/me/chats")).json()
    assert plain["@odata.count"] == 1
    assert "members" not in plain["value"][0]
    assert "lastMessagePreview" not in plain["value"][0]
    full = (await graph.get("/me/chats", params={"$expand": "members,lastMessagePreview"})).json()["value"][0]
    assert full["lastMessagePreview"]["id"] == said["id"]
    assert full["lastMessagePreview"]["isDeleted"] is False
    assert {m["email"] for m in full["members"]} == {"alice@contoso.example", "sati.agent@contoso.example"}
    await sandbox.delete("alice", said["chatId"], said["id"])
    preview = (await graph.get(f"/chats/{said['chatId']}", params={"$expand": "lastMessagePreview"})).json()
    assert preview["lastMessagePreview"]["isDeleted"] is True


async def test_chats_come_in_the_documented_order_page_by_page(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    topics = [f"Chat {number}" for number in range(7)]
    chats = [await sandbox.create_chat("alice", ["agent"], topic=topic) for topic in topics]
    for number in (3, 0, 6):
        await sandbox.say("alice", "news", chat=chats[number]["id"])
    order = "lastMessagePreview/createdDateTime desc"
    response = await graph.get("/me/chats", params={"$top": 2, "$orderby": order})
    seen, sizes = [], []
    while True:
        body = response.json()
        sizes.append(body["@odata.count"])
        seen += [row["topic"] for row in body["value"]]
        if "@odata.nextLink" not in body:
            break
        assert "$skiptoken=" in body["@odata.nextLink"]
        response = await graph.get(body["@odata.nextLink"])
    assert seen == ["Chat 6", "Chat 0", "Chat 3", "Chat 5", "Chat 4", "Chat 2", "Chat 1"]
    assert sizes == [2, 2, 2, 1]


async def test_other_orders_and_options_are_refused(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    preview = "lastMessagePreview/createdDateTime"
    for order in ("lastUpdatedDateTime desc", f"{preview} asc", preview, f"{preview} desc,topic"):
        assert error(await graph.get("/me/chats", params={"$orderby": order})) == (400, "BadRequest")
    options = [{"$top": "51"}, {"$top": "0"}, {"$select": "id"}, {"$skip": "1"}, {"$count": "true"}]
    for option in [*options, {"$search": "x"}, {"$expand": "messages"}, {"$skiptoken": "rubbish"}]:
        assert error(await graph.get("/me/chats", params=option)) == (400, "BadRequest"), option
    await sandbox.settings(ordering_taken=False)
    assert error(await graph.get("/me/chats", params={"$orderby": f"{preview} desc"})) == (400, "BadRequest")


async def test_chats_are_filtered_by_kind_or_topic(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    await sandbox.say("alice", "hello")
    group = await sandbox.create_chat("alice", ["agent"], topic="It's a plan")
    for text in ("chatType eq 'group'", "topic eq 'It''s a plan'", "chatType eq 'group' and topic eq 'It''s a plan'"):
        rows = (await graph.get("/me/chats", params={"$filter": text})).json()["value"]
        assert [row["id"] for row in rows] == [group["id"]]
    for text in ("chatType ne 'group'", "startswith(topic,'It')", "viewpoint/isHidden eq false", ""):
        assert error(await graph.get("/me/chats", params={"$filter": text})) == (400, "BadRequest")


async def test_a_large_group_is_cut_short_when_expanded(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    keys = [(await sandbox.add_person(f"person{n}", f"Person {n}"))["key"] for n in range(30)]
    group = await sandbox.create_chat("alice", ["agent", *keys])
    expanded = (await graph.get("/me/chats", params={"$expand": "members"})).json()["value"][0]
    assert len(expanded["members"]) == 25
    assert (await graph.get(f"/chats/{group['id']}/members")).json()["@odata.count"] == 32


async def test_chats_of_others_are_closed(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    foreign = (await sandbox.create_chat("alice", ["bob"]))["id"]
    for path in (f"/chats/{foreign}", f"/chats/{foreign}/members", f"/chats/{foreign}/messages"):
        assert error(await graph.get(path)) == (403, "Forbidden")
        assert error(await graph.get(path.replace(foreign, "19:unknown@thread.v2"))) == (404, "NotFound")
    assert error(await graph.get(f"/users/{sandbox.people['alice']['id']}/chats")) == (403, "Forbidden")
    assert (await graph.get(f"/users/{sandbox.people['agent']['upn']}/chats")).json()["value"] == []


async def test_ids_may_be_percent_encoded(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    said = await sandbox.say("alice", "hello")
    for path in (quote(said["chatId"], safe=""), said["chatId"]):
        listed = (await graph.get(f"/chats/{path}/messages")).json()["value"]
        assert [m["id"] for m in listed] == [said["id"]]


async def test_addresses_of_other_tenants_are_empty_or_their_own_claim(
    graph: httpx.AsyncClient, sandbox: Sandbox
) -> None:
    await sandbox.add_person("eve", "Alice Example", tenant="fabrikam", mail="alice@contoso.example")
    made = (await sandbox.create_chat("eve", ["agent", "alice"]))["id"]

    async def addresses() -> dict[str, str]:
        rows = (await graph.get(f"/chats/{made}/members")).json()["value"]
        return {row["userId"]: row["email"] for row in rows if row["displayName"] == "Alice Example"}

    eve = (await sandbox.state())["people"]["eve"]["id"]
    alice = sandbox.people["alice"]["id"]
    assert await addresses() == {alice: "alice@contoso.example", eve: ""}
    await sandbox.settings(federated_addresses=True)
    assert await addresses() == {alice: "alice@contoso.example", eve: "alice@contoso.example"}


async def test_members_are_added_with_or_without_the_past(
    graph: httpx.AsyncClient, sandbox: Sandbox, bind: Bindings
) -> None:
    body = chat("group", bind.of("agent"), bind.of("alice"))
    made = (await graph.post("/chats", json=body)).json()["id"]
    response = await graph.post(f"/chats/{made}/members", json=bind.of("bob"))
    assert (response.status_code, response.content) == (201, b"")
    location = response.headers["Location"]
    assert location.startswith(f"/v1.0/chats('{quote(made, safe='')}')/members('")
    everything = {**bind.of("carol"), "visibleHistoryStartDateTime": "0001-01-01T00:00:00Z"}
    assert (await graph.post(f"/chats/{made}/members", json=everything)).status_code == 201
    members = {m["displayName"]: m for m in (await graph.get(f"/chats/{made}/members")).json()["value"]}
    assert members["Bob Example"]["visibleHistoryStartDateTime"] > "2026"
    assert members["Carol Example"]["visibleHistoryStartDateTime"] == "0001-01-01T00:00:00Z"
    events = [m["eventDetail"] for m in (await graph.get(f"/chats/{made}/messages")).json()["value"]]
    assert [e["members"][0]["id"] for e in events[:2]] == [bind.people[key]["id"] for key in ("carol", "bob")]
    membership = members["Bob Example"]["id"]
    one = (await graph.get(f"/chats/{made}/members/{quote(membership, safe='')}")).json()
    assert one["userId"] == bind.people["bob"]["id"]
    assert error(await graph.get(f"/chats/{made}/members/none")) == (404, "NotFound")


async def test_members_that_cannot_be_added_are_refused(
    graph: httpx.AsyncClient, sandbox: Sandbox, bind: Bindings
) -> None:
    pair = (await sandbox.say("alice", "hello"))["chatId"]
    assert error(await graph.post(f"/chats/{pair}/members", json=bind.of("bob"))) == (400, "BadRequest")
    group = (await sandbox.create_chat("alice", ["agent"], topic="x"))["id"]
    assert error(await graph.post(f"/chats/{group}/members", json=bind.of("alice"))) == (400, "BadRequest")
    assert error(await graph.post(f"/chats/{group}/members", json=member("nobody"))) == (404, "NotFound")
    dated = {**bind.of("bob"), "visibleHistoryStartDateTime": "yesterday"}
    assert error(await graph.post(f"/chats/{group}/members", json=dated)) == (400, "BadRequest")


async def test_what_was_said_before_is_hidden_from_a_newcomer(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    group = (await sandbox.create_chat("alice", ["bob"], topic="x"))["id"]
    before = await sandbox.say("alice", "before", chat=group)
    await sandbox.add_member("alice", group, "agent")
    after = await sandbox.say("alice", "after", chat=group)
    listed = (await graph.get(f"/chats/{group}/messages")).json()["value"]
    assert listed[0]["id"] == after["id"]
    assert before["id"] not in [m["id"] for m in listed]
    assert listed[1]["eventDetail"]["members"][0]["id"] == sandbox.people["agent"]["id"]
    assert error(await graph.get(f"/chats/{group}/messages/{before['id']}")) == (404, "NotFound")
    await sandbox.remove_member("alice", group, "agent")
    assert error(await graph.get(f"/chats/{group}/messages")) == (403, "Forbidden")
    assert (await graph.get("/me/chats")).json()["value"] == []
