"""``$batch``, by Graph's rules."""

from __future__ import annotations

import base64
from typing import Any

import httpx
import pytest
from entrabot_sandbox.client import Sandbox

from tests.sandbox.wire import Json, error

JSON = {"Content-Type": "application/json"}


def get(name: str, url: str, **more: Any) -> Json:
    return {"id": name, "method": "GET", "url": url, **more}


async def run(graph: httpx.AsyncClient, *requests: Json) -> dict[str, Json]:
    response = await graph.post("/$batch", json={"requests": list(requests)})
    assert response.status_code == 200, response.text
    return {part["id"]: part for part in response.json()["responses"]}


async def test_each_part_has_its_own_answer(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    said = await sandbox.say("alice", "hello")
    chat = said["chatId"]
    send = {
        "id": "send",
        "method": "POST",
        "url": f"/chats/{chat}/messages",
        "headers": JSON,
        "body": {"body": {"content": "hi"}},
    }
    parts = await run(graph, get("me", "/me"), get("bare", f"chats/{chat}"), get("bad", "/me/chats?$top=99"), send)
    assert {name: part["status"] for name, part in parts.items()} == {"me": 200, "bare": 200, "bad": 400, "send": 201}
    assert parts["me"]["body"]["id"] == sandbox.people["agent"]["id"]
    assert parts["bad"]["body"]["error"]["code"] == "BadRequest"
    assert parts["me"]["headers"]["Content-Type"].startswith("application/json")
    assert (await sandbox.messages(chat, after=said["id"]))[0]["body"]["content"] == "hi"


async def test_answers_come_in_any_order(graph: httpx.AsyncClient) -> None:
    requests = [get(str(number), "/me") for number in range(20)]
    orders = set()
    for _ in range(5):
        response = await graph.post("/$batch", json={"requests": requests})
        orders.add(tuple(part["id"] for part in response.json()["responses"]))
    assert len(orders) > 1
    assert all(len(order) == 20 for order in orders)


async def test_bytes_come_in_base64(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    said = await sandbox.say("alice", "look", image=b"picture")
    source = said["body"]["content"].split('"')[1].split("/v1.0")[1]
    parts = await run(graph, get("1", source))
    assert base64.b64decode(parts["1"]["body"]) == b"picture"
    assert parts["1"]["headers"]["Content-Type"] == "image/png"


async def test_a_failed_dependency_is_told(graph: httpx.AsyncClient) -> None:
    parts = await run(
        graph,
        get("c", "/me", dependsOn=["b"]),
        get("b", "/me", dependsOn=["a"]),
        get("a", "/me/chats?$top=99"),
        get("e", "/me", dependsOn=["D"]),
        get("d", "/me"),
    )
    assert {name: part["status"] for name, part in parts.items()} == {"a": 400, "b": 424, "c": 424, "d": 200, "e": 200}


@pytest.mark.parametrize(
    "requests",
    [
        [],
        [get(str(number), "/me") for number in range(21)],
        [get("a", "/me"), get("A", "/me")],
        [{"method": "GET", "url": "/me"}],
        [get("1", "https://graph.microsoft.com/v1.0/me")],
        [{"id": "1", "url": "/me"}],
        [{"id": "1", "method": "POST", "url": "/chats", "body": {}}],
        [get("1", "/me", dependsOn=["2"])],
        [get("1", "/me", dependsOn=["2"]), get("2", "/me", dependsOn=["1"])],
        [get("1", "/me", headers=["x"])],
        [{"id": "1", "method": "POST", "url": "/$batch", "headers": JSON, "body": {"requests": [get("1", "/me")]}}],
        "all",
    ],
)
async def test_a_malformed_batch_is_refused_as_a_whole(graph: httpx.AsyncClient, requests: Any) -> None:
    assert error(await graph.post("/$batch", json={"requests": requests})) == (400, "BadRequest")


async def test_a_batch_needs_a_token_but_its_parts_do_not(graph: httpx.AsyncClient) -> None:
    response = await graph.post("/$batch", json={"requests": [get("1", "/me")]}, headers={"Authorization": ""})
    assert error(response) == (401, "InvalidAuthenticationToken")


async def test_faults_strike_single_parts(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    await sandbox.fault("status", path="/v1.0/me", status=429, retry_after=7, count=1)
    parts = await run(graph, get("1", "/me"), get("2", "/me/chats"))
    assert (parts["1"]["status"], parts["2"]["status"]) == (429, 200)
    assert parts["1"]["headers"]["Retry-After"] == "7"
    recorded = [r for r in await sandbox.requests() if r["batch"]]
    assert sorted((r["path"], r["status"]) for r in recorded) == [("/v1.0/me", 429), ("/v1.0/me/chats", 200)]


async def test_a_cut_connection_takes_the_whole_batch_with_it(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    await sandbox.fault("drop_before", path="/v1.0/me", count=1)
    with pytest.raises(httpx.TransportError):
        await run(graph, get("1", "/me"), get("2", "/me/chats"))
    assert len(await run(graph, get("1", "/me"), get("2", "/me/chats?$filter=topic%20eq%20'https://x'"))) == 2


async def test_a_batch_does_not_escape_the_limits(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    await sandbox.settings(throttling=True)
    requests = [get(str(number), "/me/chats") for number in range(20)]
    first, second = await run(graph, *requests), await run(graph, *requests)
    statuses = [part["status"] for part in [*first.values(), *second.values()]]
    assert statuses.count(429) > 0
    assert set(statuses) == {200, 429}
