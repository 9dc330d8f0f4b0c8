"""Troubles on demand, and the documented limits."""

from __future__ import annotations

import time

import anyio
import httpx
import pytest
from entrabot_sandbox.client import Sandbox, SandboxError

from tests.sandbox.wire import Entra, Json, error

SENDING = {"method": "POST", "path": "/v1.0/chats/*/messages"}


@pytest.fixture
async def messages(sandbox: Sandbox) -> str:
    """The path of a chat's messages."""
    return f"/chats/{(await sandbox.say('alice', 'hello'))['chatId']}/messages"


async def test_a_refusal_strikes_as_often_as_told(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    fault = await sandbox.fault("status", path="/v1.0/me", status=503, count=2, after=1)
    statuses = [(await graph.get("/me")).status_code for _ in range(5)]
    assert statuses == [200, 503, 503, 200, 200]
    assert (await sandbox.faults())[0] == {**fault, "count": 0, "after": 0, "hits": 2}


@pytest.mark.parametrize(
    ("status", "code"), [(500, "InternalServerError"), (503, "ServiceUnavailable"), (429, "TooManyRequests")]
)
async def test_a_refusal_looks_like_graphs(graph: httpx.AsyncClient, sandbox: Sandbox, status: int, code: str) -> None:
    await sandbox.fault("status", path="/v1.0/me", status=status, count=1)
    response = await graph.get("/me")
    assert error(response) == (status, code)
    assert "Retry-After" not in response.headers
    await sandbox.fault("status", path="/v1.0/me", status=status, count=1, retry_after=3, code="Other")
    response = await graph.get("/me")
    assert (error(response), response.headers["Retry-After"]) == ((status, "Other"), "3")


async def test_a_401_can_carry_a_claims_challenge(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    challenge = 'Bearer error="insufficient_claims", claims="eyJ9"'
    await sandbox.fault("status", path="/v1.0/me", status=401, headers={"WWW-Authenticate": challenge}, count=1)
    response = await graph.get("/me")
    assert error(response) == (401, "InvalidAuthenticationToken")
    assert response.headers["WWW-Authenticate"] == challenge


async def test_a_connection_dropped_before_did_nothing(
    graph: httpx.AsyncClient, sandbox: Sandbox, messages: str
) -> None:
    await sandbox.fault("drop_before", **SENDING, count=1)
    with pytest.raises(httpx.TransportError):
        await graph.post(messages, json={"body": {"content": "lost"}})
    assert len((await graph.get(messages)).json()["value"]) == 1
    assert [r["status"] for r in await sandbox.requests() if r["method"] == "POST" and "chats" in r["path"]] == [0]


async def test_a_connection_dropped_after_did_it(graph: httpx.AsyncClient, sandbox: Sandbox, messages: str) -> None:
    await sandbox.fault("drop_after", **SENDING, count=1)
    with pytest.raises(httpx.TransportError):
        await graph.post(messages, json={"body": {"content": "sent"}})
    assert (await graph.get(messages)).json()["value"][0]["body"]["content"] == "sent"
    assert (await graph.post(messages, json={"body": {"content": "again"}})).status_code == 201


async def test_latency_delays_one_request_and_no_other(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    await sandbox.fault("latency", path="/v1.0/me", seconds=30)
    with anyio.move_on_after(0.5) as scope:
        await graph.get("/me")
    assert scope.cancelled_caught
    assert (await graph.get("/me/chats")).status_code == 200


async def test_latency_is_really_waited(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    await sandbox.fault("latency", path="/v1.0/me", seconds=0.2)
    begun = time.monotonic()
    assert (await graph.get("/me")).status_code == 200
    assert time.monotonic() - begun >= 0.2


async def test_paths_are_matched_by_glob_or_expression(
    graph: httpx.AsyncClient, sandbox: Sandbox, messages: str
) -> None:
    one = (await graph.get(messages)).json()["value"][0]["id"]

    async def struck() -> list[bool]:
        paths = ("/me/chats", messages, f"{messages}/{one}")
        return [(await graph.get(path)).status_code == 503 for path in paths]

    for pattern, expected in [
        ({"path": "/v1.0/chats/*"}, [False, False, False]),
        ({"path": "/v1.0/chats/*/messages"}, [False, True, False]),
        ({"path": "/v1.0/chats/**"}, [False, True, True]),
        ({"regex": r"/v1\.0/(me/chats|.*/\d+)"}, [True, False, True]),
        ({"method": "PATCH"}, [False, False, False]),
        ({}, [True, True, True]),
    ]:
        await sandbox.fault("status", status=503, **pattern)
        assert await struck() == expected, pattern
        await sandbox.clear_faults()


async def test_probability_is_a_chance(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    await sandbox.fault("status", path="/v1.0/me", status=503, probability=0.5)
    statuses = {(await graph.get("/me")).status_code for _ in range(60)}
    assert statuses == {200, 503}


async def test_the_token_endpoint_fails_in_its_own_words(entra: Entra, sandbox: Sandbox) -> None:
    await sandbox.fault("status", path="/*/oauth2/v2.0/token", status=503, retry_after=1, count=1)
    response = await entra.hop1()
    assert (response.status_code, response.json()["error"]) == (503, "temporarily_unavailable")
    assert response.headers["Retry-After"] == "1"
    assert (await entra.hop1()).status_code == 200


async def test_nonsense_is_refused(sandbox: Sandbox) -> None:
    wrong: list[tuple[Json, str]] = [
        ({"kind": "fire"}, "kind must be one of"),
        ({"kind": "status"}, "status must be"),
        ({"kind": "status", "status": 200}, "status must be"),
        ({"kind": "latency"}, "latency needs seconds"),
        ({"kind": "drop_after", "count": -1}, "count must be a number"),
        ({"kind": "drop_after", "regex": "("}, "regex is not one"),
        ({"kind": "drop_after", "paht": "/x"}, "no 'paht'"),
    ]
    for body, message in wrong:
        with pytest.raises(SandboxError, match=message):
            await sandbox.call("POST", "/faults", body)
    with pytest.raises(SandboxError, match="no fault 99"):
        await sandbox.call("DELETE", "/faults/99")
    fault = await sandbox.fault("drop_after")
    await sandbox.call("DELETE", f"/faults/{fault['id']}")
    assert await sandbox.faults() == []


@pytest.mark.parametrize(
    ("method", "limit"), [("GET messages", 20), ("POST messages", 20), ("GET chats", 30), ("POST chats", 30)]
)
async def test_the_documented_limits_hold(
    graph: httpx.AsyncClient, sandbox: Sandbox, messages: str, method: str, limit: int
) -> None:
    await sandbox.settings(throttling=True)
    verb, what = method.split()
    path = messages if what == "messages" else "/me/chats" if verb == "GET" else "/chats"
    requests = [
        {"id": str(n), "method": verb, "url": path, **({"headers": _JSON, "body": {}} if verb == "POST" else {})}
        for n in range(limit + 5)
    ]
    answers = []
    for start in range(0, len(requests), 20):
        response = await graph.post("/$batch", json={"requests": requests[start : start + 20]})
        answers += response.json()["responses"]
    refused = [answer for answer in answers if answer["status"] == 429]
    assert len(refused) == 5
    assert {answer["headers"]["Retry-After"] for answer in refused} == {"1"}
    assert (await graph.get("/me")).status_code == 200


_JSON = {"Content-Type": "application/json"}
