"""The control API: who may use it, and what it says to mistakes."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx
import pytest
from entrabot_sandbox.client import Sandbox, SandboxError

from tests.sandbox.wire import Entra


@pytest.fixture
async def web(sandbox: Sandbox, context: ssl.SSLContext) -> AsyncIterator[httpx.AsyncClient]:
    """Anybody on this machine."""
    async with httpx.AsyncClient(base_url=sandbox.control_url, verify=context, trust_env=False) as http:
        yield http


async def test_only_the_runs_token_opens_it(web: httpx.AsyncClient, sandbox: Sandbox, entra: Entra) -> None:
    good = f"Bearer {sandbox.control['token']}"
    for authorization in (None, "", "Bearer x", good + "x", f"Bearer {await entra.user_token()}"):
        headers = {} if authorization is None else {"Authorization": authorization}
        response = await web.get("/state", headers=headers)
        assert response.status_code == 401
        assert "printed at start" in response.json()["error"]["message"]
    assert (await web.get("/state", headers={"Authorization": good})).status_code == 200


async def test_web_pages_and_rebound_names_stay_outside(web: httpx.AsyncClient, sandbox: Sandbox) -> None:
    good = {"Authorization": f"Bearer {sandbox.control['token']}"}
    own = sandbox.environment["ENTRABOT_GRAPH_URL"]
    port = own.rpartition(":")[2]
    foreign = ["https://evil.example", "null", f"https://evil.example:{port}", f"http://127.0.0.1:{port}"]
    for origin in [*foreign, "https://127.0.0.1:1"]:
        response = await web.post("/say", json={"as": "alice", "text": "hi"}, headers={**good, "Origin": origin})
        assert response.status_code == 403, origin
    assert (await web.get("/state", headers={**good, "Origin": own})).status_code == 200
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", "127.0.0.1:1"):
        assert (await web.get("/state", headers={**good, "Host": host})).status_code == 403, host
    assert (await web.get("/state", headers={**good, "Host": f"localhost:{port}"})).status_code == 200
    assert await sandbox.chats() == []


async def test_its_own_requests_are_not_recorded_nor_are_secrets(sandbox: Sandbox, entra: Entra) -> None:
    await sandbox.clear_requests()
    await entra.hop1(fmi_path="some-path")
    (entry,) = await sandbox.requests()
    assert (entry["method"], entry["status"], entry["batch"]) == ("POST", 200, False)
    assert entry["path"].endswith("/oauth2/v2.0/token")
    assert entry["detail"]["fmi_path"] == "some-path"
    assert set(entry["detail"]) == {"grant_type", "client_id", "scope", "fmi_path"}
    assert await sandbox.counts() == {f"POST {entry['path']}": 1}
    assert await sandbox.requests(since=entry["seq"]) == []


async def test_people_speak_only_where_they_are(sandbox: Sandbox) -> None:
    group = (await sandbox.create_chat("alice", ["bob", "carol"], topic="Plan"))["id"]
    said = await sandbox.say("carol", "hello", chat=group, mention=["bob"])
    assert said["body"]["content"] == '<p><at id="0">Bob Example</at>&nbsp;</p><p>hello</p>'
    for action, message in [
        (sandbox.say("mallory", "hi", chat=group), "mallory does not see this chat"),
        (sandbox.say("alice", "hi", chat="19:x"), "There is no chat"),
        (sandbox.say("nobody", "hi"), "There is no person 'nobody'. There are: agent, alice"),
        (sandbox.say("alice"), "either text or html"),
        (sandbox.say("alice", "a", html="b"), "either text or html"),
        (sandbox.say("agent", "hi"), "chat is needed"),
        (sandbox.say("alice", "hi", reply_to="1"), "no message '1'"),
        (sandbox.edit("alice", group, said["id"], "mine"), "not alice's own"),
        (sandbox.delete("bob", group, said["id"]), "not bob's own"),
        (sandbox.add_member("alice", group, "bob"), "bob is a member already"),
        (sandbox.remove_member("alice", group, "mallory"), "mallory is not a member"),
        (sandbox.create_chat("alice", []), "A chat needs somebody else"),
        (sandbox.create_chat("alice", ["bob"], type="party"), "type must be"),
        (sandbox.add_person("bob", "Bob"), "person 'bob' already"),
        (sandbox.add_person("dan", "Dan", tenant="nowhere"), "no tenant 'nowhere'"),
        (sandbox.add_person("dan", "Dan", guest=True), "of another tenant"),
        (sandbox.invite("bob"), "of another tenant"),
        (sandbox.add_tenant("x", "X", "contoso.example"), "is taken"),
        (sandbox.grant("mail", scopes=[]), "resource must be"),
        (sandbox.settings(weather="fine"), "no setting 'weather'"),
        (sandbox.settings(throttling="no"), "wrong type"),
    ]:
        with pytest.raises(SandboxError, match=message):
            await action


async def test_malformed_bodies_are_refused(web: httpx.AsyncClient, sandbox: Sandbox) -> None:
    headers = {"Authorization": f"Bearer {sandbox.control['token']}"}
    for content in (b"{", b"[]", b'"x"'):
        assert (await web.post("/say", content=content, headers=headers)).status_code == 400
    wrong: list[tuple[str, str, Any]] = [
        ("POST", "/say", {}),
        ("POST", "/say", {"as": "alice", "text": 5}),
        ("POST", "/say", {"as": "alice", "text": "x", "image": "*"}),
        ("POST", "/say", {"as": "alice", "text": "x", "mention": "bob"}),
        ("POST", "/chats", {"as": "alice"}),
        ("POST", "/people", {"key": "x"}),
        ("PUT", "/sponsors", {"sponsors": "alice"}),
        ("PUT", "/clock", {"offset": "later"}),
        ("PUT", "/grants", {"resource": "graph", "scopes": "Chat.Read"}),
    ]
    for method, path, body in wrong:
        assert (await web.request(method, path, json=body, headers=headers)).status_code == 400, (path, body)
    for method, path, status in (("GET", "/nothing", 404), ("GET", "/say", 405)):
        response = await web.request(method, path, headers=headers)
        assert response.status_code == status
        assert response.json()["error"]["message"] == "There is no such control call."


async def test_one_can_wait_for_words(sandbox: Sandbox, graph: httpx.AsyncClient) -> None:
    said = await sandbox.say("alice", "are you there?")
    heard: list[str] = []

    async def listen() -> None:
        message = await sandbox.wait_for_message(said["chatId"], after=said["id"], timeout=10)
        heard.append(message["body"]["content"])

    async with anyio.create_task_group() as group:
        group.start_soon(listen)
        path = f"/chats/{said['chatId']}/messages"
        assert (await graph.post(path, json={"body": {"content": "yes"}})).status_code == 201
    assert heard == ["yes"]
    with pytest.raises(SandboxError, match="No message of bob"):
        await sandbox.wait_for_message(said["chatId"], sender="bob", timeout=0)


async def test_a_reset_starts_over_with_the_same_ids(sandbox: Sandbox, graph: httpx.AsyncClient) -> None:
    before = await sandbox.state()
    await sandbox.say("alice", "hello")
    await sandbox.add_person("dan", "Dan")
    await sandbox.set_sponsors([])
    await sandbox.fault("drop_before")
    await sandbox.set_clock(60)
    await sandbox.reset()
    await sandbox.settings(throttling=False)
    assert await sandbox.state() == before
    assert await sandbox.chats() == []
    assert (await graph.get("/me")).json()["id"] == sandbox.people["agent"]["id"]


async def test_somebody_from_elsewhere_becomes_a_guest(sandbox: Sandbox, graph: httpx.AsyncClient) -> None:
    await sandbox.add_tenant("northwind", "Northwind", "northwind.example")
    dan = await sandbox.add_person("dan", "Dan Example", tenant="northwind")
    assert (dan["guest_id"], dan["upn"]) == (None, "dan@northwind.example")
    invited = await sandbox.invite("dan")
    assert invited == await sandbox.invite("dan@northwind.example")
    assert (await graph.get(f"/users/{invited['guest_id']}")).json()["userPrincipalName"] == invited["guest_upn"]


async def test_reactions_come_and_go(sandbox: Sandbox) -> None:
    said = await sandbox.say("alice", "hello")
    reacted = await sandbox.react("alice", said["chatId"], said["id"], "heart")
    assert [r["reactionType"] for r in reacted["reactions"]] == ["heart"]
    path = f"/chats/{said['chatId']}/messages/{said['id']}/reactions"
    assert (await sandbox.call("DELETE", path, {"as": "alice"}))["reactions"] == []
