"""Collections page by page, and many requests in few."""

from __future__ import annotations

import base64
from collections import Counter
from typing import Any

import pytest

from entrabot_host.auth.provider import Token
from entrabot_host.errors import (
    AuthError,
    GraphError,
    GraphNotFound,
    GraphThrottled,
    GraphUnavailable,
    TokenAudienceError,
)
from entrabot_host.graph.client import GraphClient
from entrabot_host.host import BatchRequest, GraphResponse
from tests.host.graph.conftest import Time, Tokens
from tests.host.graph.server import DROP, Received, Server, answer, failure


async def collect(graph: GraphClient, **options: Any) -> list[list[dict[str, Any]]]:
    return [page async for page in graph.pages("/me/chats", **options)]


async def test_next_links_are_followed_verbatim(graph: GraphClient, server: Server) -> None:
    link = f"{server.url}/v1.0/me/chats?$skiptoken=a%2Bb+c%3D"
    server.script.append(answer(200, {"value": [{"id": 1}], "@odata.nextLink": link}))
    server.script.append(answer(200, {"value": [{"id": 2}, "odd"]}))
    pages = await collect(graph, params={"$top": "1"}, headers={"Prefer": "p"})
    assert pages == [[{"id": 1}], [{"id": 2}]]
    assert [one.target for one in server.received] == [
        "/v1.0/me/chats?$top=1",
        "/v1.0/me/chats?$skiptoken=a%2Bb+c%3D",
    ]
    assert all(one.headers["prefer"] == "p" for one in server.received)


@pytest.mark.parametrize(
    "link",
    [
        "https://graph.microsoft.com/v1.0/me/chats?$skiptoken=x",
        "http://127.0.0.1/v1.0/me",
        "{graph}@evil.example/v1.0",
        "{graph}.evil.example/v1.0",
        "//evil.example/",
        "javascript:1",
    ],
)
async def test_next_links_may_not_leave(graph: GraphClient, server: Server, elsewhere: Server, link: str) -> None:
    for target in (link.replace("{graph}", server.url), f"{elsewhere.url}/v1.0/me/chats"):
        server.script.append(answer(200, {"value": [], "@odata.nextLink": target}))
        with pytest.raises((TokenAudienceError, GraphError)) as caught:
            await collect(graph)
        assert target not in str(caught.value)
    assert len(server.received) == 2
    assert not elsewhere.received


async def test_a_circle_of_links_ends(graph: GraphClient, server: Server) -> None:
    server.default = lambda _: answer(200, {"value": [], "@odata.nextLink": f"{server.url}/v1.0/me/chats?x=1"})
    with pytest.raises(GraphError):
        await collect(graph)
    assert len(server.received) == 2


async def test_pages_are_bounded(graph: GraphClient, server: Server) -> None:
    def page(_: Received) -> bytes:
        link = f"{server.url}/v1.0/me/chats?n={len(server.received)}"
        return answer(200, {"value": [{}], "@odata.nextLink": link})

    server.default = page
    assert len(await collect(graph, max_pages=3)) == 3
    assert len(server.received) == 3


async def test_a_redirect_is_handed_back(graph: GraphClient, server: Server, elsewhere: Server) -> None:
    server.script.append(answer(302, None, Location=f"{elsewhere.url}/x"))
    response = await graph.request("GET", "/drives/d/items/i/content")
    assert (response.status, response.headers["location"]) == (302, f"{elsewhere.url}/x")
    assert not elsewhere.received


# --- batches --------------------------------------------------------------------------------------------------------


def replying(decide: Any) -> Any:
    """A default for the server: ``decide(url, method, nth time)`` gives one part's reply, or None to leave it out."""
    seen: Counter[str] = Counter()

    def default(request: Received) -> bytes:
        replies = []
        for item in request.json["requests"]:
            seen[item["url"]] += 1
            reply = decide(item["url"], item["method"], seen[item["url"]])
            if reply is not None:
                replies.append({"id": item["id"], **reply})
        return answer(200, {"responses": replies[::-1]})

    return default


def part_failure(status: int, **headers: str) -> dict[str, Any]:
    return {"status": status, "headers": headers, "body": {"error": {"code": f"C{status}", "message": "m"}}}


async def test_forty_five_parts(graph: GraphClient, server: Server, clock: Time) -> None:
    def decide(url: str, method: str, nth: int) -> dict[str, Any] | None:
        number = int(url.rpartition("/")[2])
        if number == 3:
            return part_failure(404)
        if number == 7 and nth == 1:
            return part_failure(429, **{"Retry-After": "4"})
        if number == 8 and nth == 1:
            return part_failure(424)
        if number == 9 and nth == 1:
            return part_failure(503, **{"retry-after": "60"})
        if number == 10:
            return part_failure(429, **{"Retry-After": "1000"})
        return {"status": 200, "headers": {}, "body": {"n": number}}

    server.default = replying(decide)
    answers = await graph.batch([BatchRequest(f"/users/{n}") for n in range(45)])
    sizes = [len(one.json["requests"]) for one in server.received]
    assert sizes[:2] == [20, 20]
    assert sum(sizes) == 45 + 3, "numbers 7, 8 and 9 went out twice"
    for one in server.received:
        assert one.target == "/v1.0/$batch"
        ids = [item["id"].lower() for item in one.json["requests"]]
        assert len(ids) == len(set(ids))
    kinds = {n: type(found) for n, found in enumerate(answers) if not isinstance(found, GraphResponse)}
    assert kinds == {3: GraphNotFound, 10: GraphThrottled}
    assert isinstance(answers[10], GraphThrottled)
    assert answers[10].retry_after == 1000
    assert all(found.body == {"n": n} for n, found in enumerate(answers) if isinstance(found, GraphResponse))
    assert sum(clock.slept) == pytest.approx(60, abs=3)
    assert any(slept > 50 for slept in clock.slept)


async def test_parts_carry_bodies_and_headers(graph: GraphClient, server: Server) -> None:
    raw = base64.b64encode(b"\x89PNG").decode()
    server.default = replying(lambda *_: {"status": 200, "headers": {"Content-Type": "image/png"}, "body": raw})
    found = await graph.batch(
        [
            BatchRequest("/me/chats", "post", {"a": 1}),
            BatchRequest("/me", headers={"Prefer": "p"}),
            BatchRequest(f"{server.url}/v1.0/me/chats?$skiptoken=1"),
        ]
    )
    assert server.received[0].json["requests"] == [
        {
            "id": "0",
            "method": "POST",
            "url": "/me/chats",
            "body": {"a": 1},
            "headers": {"Content-Type": "application/json"},
        },
        {"id": "1", "method": "GET", "url": "/me", "headers": {"Prefer": "p"}},
        {"id": "2", "method": "GET", "url": "/me/chats?$skiptoken=1"},
    ]
    assert all(isinstance(one, GraphResponse) and one.content == b"\x89PNG" for one in found)


async def test_a_post_in_a_batch_is_not_repeated_on_503(graph: GraphClient, server: Server) -> None:
    server.default = replying(lambda *_: part_failure(503, **{"Retry-After": "1"}))
    found = await graph.batch([BatchRequest("/me/chats", "POST", {})])
    assert len(server.received) == 1
    assert isinstance(found[0], GraphUnavailable)


async def test_a_missing_part(graph: GraphClient, server: Server) -> None:
    server.default = replying(lambda *_: None)
    read, change = await graph.batch([BatchRequest("/me"), BatchRequest("/me/chats", "POST", {})])
    assert isinstance(read, GraphUnavailable)
    assert not read.outcome_unknown
    assert isinstance(change, GraphUnavailable)
    assert change.outcome_unknown


async def test_a_batch_cut_off(graph: GraphClient, server: Server) -> None:
    server.default = lambda _: DROP
    read, change = await graph.batch([BatchRequest("/me"), BatchRequest("/me/chats", "POST", {})])
    assert len(server.received) == 1
    assert isinstance(read, GraphUnavailable)
    assert not read.outcome_unknown
    assert isinstance(change, GraphUnavailable)
    assert change.outcome_unknown


async def test_a_batch_of_reads_is_repeated(graph: GraphClient, server: Server) -> None:
    server.script.append(DROP)
    server.default = replying(lambda *_: {"status": 200})
    found = await graph.batch([BatchRequest("/me"), BatchRequest("/users/1")])
    assert all(isinstance(one, GraphResponse) for one in found)


@pytest.mark.parametrize("body", [b"no", [], {"responses": {}}, {"responses": [1, {"id": "0"}, {"status": 200}]}])
async def test_odd_batch_answers(graph: GraphClient, server: Server, body: Any) -> None:
    server.default = lambda _: answer(200, body)
    found = await graph.batch([BatchRequest("/me")])
    assert isinstance(found[0], GraphUnavailable)


async def test_a_malformed_part_stops_all_before_anything_is_sent(graph: GraphClient, server: Server) -> None:
    for path in ("/a/../b", "https://evil.example/v1.0/me", f"{server.url}/beta/me"):
        with pytest.raises((GraphError, TokenAudienceError)):
            await graph.batch([BatchRequest("/me"), BatchRequest(path)])
    assert not server.received
    assert await graph.batch([]) == []


async def test_losing_the_sign_in_half_way_keeps_what_was_done(
    graph: GraphClient, server: Server, tokens: Tokens
) -> None:
    issued = tokens.token

    async def once(audience: str, *, rejected: str = "", claims: str = "") -> Token:
        if tokens.calls:
            raise AuthError("hop 3 failed")
        return await issued(audience, rejected=rejected, claims=claims)

    tokens.token = once  # type: ignore[method-assign]
    server.default = replying(lambda *_: {"status": 201})
    found = await graph.batch([BatchRequest(f"/users/{n}", "POST", {}) for n in range(25)])
    assert sum(isinstance(one, GraphResponse) for one in found) == 20
    assert all(isinstance(one, GraphError) and one.status == 401 for one in found[20:])
    with pytest.raises(AuthError):
        await graph.batch([BatchRequest("/me")])


async def test_a_refused_batch(graph: GraphClient, server: Server) -> None:
    server.default = lambda _: failure(400, "BadRequest")
    found = await graph.batch([BatchRequest("/me"), BatchRequest("/users")])
    assert all(isinstance(one, GraphError) and one.status == 400 for one in found)
