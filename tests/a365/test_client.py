"""Calls over TLS to a server that behaves, misbehaves and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from entrabot_a365 import catalog
from entrabot_a365.catalog import Operation, Request
from entrabot_a365.client import WorkIq
from entrabot_a365.errors import A365CallError, A365ConsentMissingError, A365Error, A365TokenError
from entrabot_a365.manifest import Server as WorkIqServer

from entrabot_host import AuthError, NotSignedIn, TokenAudienceError
from tests.a365.parts import AUDIENCE, NEWER, OLDER, PATH, Host, Mcp, text, work_iq
from tests.host.graph.server import DROP, HANG, Authority, Received, answer, proxy_running, running

CREATES = (catalog.CREATE_DOCUMENT, catalog.ADD_COMMENT, catalog.REPLY)


@pytest.fixture
async def client(authority: Authority, host: Host) -> AsyncIterator[WorkIq]:
    async with work_iq(authority.ca_file, host, timeout_seconds=5) as client:
        yield client


def read(mcp: Mcp, **arguments: Any) -> Request:
    return Request(mcp.server, catalog.READ_DOCUMENT, arguments)


def to(mcp: Mcp, operation: Operation) -> Request:
    return Request(mcp.server, operation, {"newComment": "x"})


async def failing(client: WorkIq, request: Request, kind: type[A365Error] = A365CallError) -> Any:
    with pytest.raises(kind) as failed:
        await client.call(request)
    assert failed.value.message
    assert failed.value.remedy
    assert "token-" not in str(failed.value.to_dict())
    return failed.value


@pytest.mark.parametrize("sse", [False, True])
@pytest.mark.parametrize("names", [NEWER, OLDER])
@pytest.mark.parametrize("session", ["s1", ""])
async def test_both_generations_framings_and_with_and_without_session(
    client: WorkIq, mcp: Mcp, sse: bool, names: tuple[str, ...], session: str
) -> None:
    mcp.sse, mcp.tools, mcp.session = sse, names, session
    mcp.tool = lambda params: text("one", "two")
    found = await client.call(read(mcp, url="u"))
    assert found.texts == ("one", "two")
    assert mcp.calls()[0]["name"] == names[0]
    assert mcp.calls()[0]["arguments"] == {"url": "u"}
    posts = [one for one in mcp.wire.received if one.method == "POST"]
    assert all(one.headers["authorization"] == "Bearer token-1" for one in posts)
    assert all({"application/json", "text/event-stream"} <= set(one.headers["accept"].split(", ")) for one in posts)
    assert all(one.target == PATH for one in mcp.wire.received)


async def test_one_session_serves_all_calls(client: WorkIq, mcp: Mcp) -> None:
    await asyncio.gather(*(client.call(read(mcp)) for _ in range(20)))
    await client.call(read(mcp))
    assert mcp.methods().count("initialize") == 1
    assert mcp.methods().count("tools/list") == 1
    assert not [one for one in mcp.wire.received if one.method != "POST"]


async def test_a_server_that_changes_generation_is_listed_anew(client: WorkIq, mcp: Mcp) -> None:
    await client.call(read(mcp))
    mcp.tools = OLDER
    await client.call(read(mcp))
    assert mcp.calls()[-1]["name"] == OLDER[0]
    assert mcp.methods().count("initialize") == 1


async def test_a_server_without_the_tool(client: WorkIq, mcp: Mcp) -> None:
    mcp.tools = ("somethingElse",)
    error = await failing(client, read(mcp))
    assert "GetDocumentContent" in error.message
    assert not mcp.calls()


async def test_what_is_refused_with_401_is_tried_once_with_another_token(client: WorkIq, mcp: Mcp, host: Host) -> None:
    mcp.on["tools/call"] = lambda request: (
        answer(401, {}, www_authenticate='Bearer error="invalid_token"')
        if request.headers["authorization"] == "Bearer token-1"
        else mcp.result(request.json, text("fine"))
    )
    assert (await client.call(to(mcp, catalog.ADD_COMMENT))).texts == ("fine",)
    assert host.identity.asked[-1]["rejected"] == "token-1"
    assert host.identity.asked[-1]["challenge"] == 'Bearer error="invalid_token"'
    assert all(one["work_iq"] and one["url"] == mcp.server.url for one in host.identity.asked)
    assert len(mcp.calls()) == 2


async def test_a_fresh_token_that_is_refused_too(client: WorkIq, mcp: Mcp) -> None:
    mcp.on["tools/call"] = lambda request: answer(401, b"no")
    error = await failing(client, to(mcp, catalog.ADD_COMMENT), A365TokenError)
    assert "audience" in error.remedy
    assert len(mcp.calls()) == 2


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (NotSignedIn("Nobody."), NotSignedIn),
        (TokenAudienceError("No."), TokenAudienceError),
        (AuthError("no consent", hop="hop 3", code=65001), A365ConsentMissingError),
        (AuthError("unknown", hop="hop 3", code=500011), A365TokenError),
    ],
)
async def test_without_a_token_nothing_is_sent(
    client: WorkIq, mcp: Mcp, host: Host, error: AuthError, kind: type[Exception]
) -> None:
    host.identity.error = error
    with pytest.raises(kind) as failed:
        await client.call(read(mcp))
    assert failed.value.details == error.details  # type: ignore[attr-defined]
    assert mcp.wire.connections == 0


async def test_a_token_that_is_lost_in_mid_session(client: WorkIq, mcp: Mcp, host: Host) -> None:
    await client.call(read(mcp))
    host.identity.error = AuthError("gone", hop="hop 3", code=50173)
    error = await failing(client, to(mcp, catalog.REPLY), A365TokenError)
    assert error.details["code"] == "AADSTS50173"
    host.identity.error = None
    await client.call(read(mcp))
    assert mcp.methods().count("initialize") == 1


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("where", ["the same origin", "another origin"])
async def test_a_redirect_is_never_followed(
    client: WorkIq, mcp: Mcp, authority: Authority, status: int, where: str
) -> None:
    async with running(authority) as other:
        target = f"{mcp.wire.url if where == 'the same origin' else other.url}/elsewhere"
        mcp.on["tools/call"] = lambda request: answer(status, b"", location=target)
        error = await failing(client, read(mcp))
        assert "redirect" in error.message
        assert other.connections == 0
    assert {one.target for one in mcp.wire.received} == {PATH}


@pytest.mark.parametrize(
    ("status", "kind", "calls"),
    [
        (403, A365ConsentMissingError, 1),
        (406, A365CallError, 1),
        (413, A365CallError, 1),
        (500, A365CallError, 3),
        (502, A365CallError, 3),
        (503, A365CallError, 3),
    ],
)
async def test_statuses_of_a_read(client: WorkIq, mcp: Mcp, status: int, kind: type[A365Error], calls: int) -> None:
    mcp.on["tools/call"] = lambda request: answer(status, {"error": {"code": "X", "message": "Because\nof it."}})
    error = await failing(client, read(mcp), kind)
    assert f"{status}: Because of it." in error.message
    assert error.details["status"] == status
    assert len(mcp.calls()) == calls


@pytest.mark.parametrize("operation", CREATES)
@pytest.mark.parametrize(("status", "unknown"), [(500, True), (502, True), (504, True), (503, False), (400, False)])
async def test_statuses_of_a_create(client: WorkIq, mcp: Mcp, operation: Operation, status: int, unknown: bool) -> None:
    mcp.session = ""
    mcp.on["tools/call"] = lambda request: answer(status, b"<html>sorry</html>")
    error = await failing(client, to(mcp, operation))
    assert error.details["outcome_unknown"] is unknown
    assert len(mcp.calls()) == 1


async def test_too_many_requests_are_repeated_when_asked_soon(client: WorkIq, mcp: Mcp) -> None:
    left = [answer(429, b"", retry_after="0")]
    mcp.on["tools/call"] = lambda request: left.pop() if left else mcp.result(request.json, text("fine"))
    assert (await client.call(to(mcp, catalog.ADD_COMMENT))).texts == ("fine",)
    assert len(mcp.calls()) == 2


async def test_too_many_requests_are_not_repeated_when_asked_late(client: WorkIq, mcp: Mcp) -> None:
    mcp.on["tools/call"] = lambda request: answer(429, b"", retry_after="120")
    error = await failing(client, read(mcp))
    assert "120 seconds" in error.remedy
    assert len(mcp.calls()) == 1


async def test_an_unknown_server(client: WorkIq, mcp: Mcp) -> None:
    mcp.on["initialize"] = lambda request: answer(404, {"error": {"message": "There is no such MCP server."}})
    error = await failing(client, read(mcp))
    assert error.status == 404
    assert mcp.methods() == ["initialize"]


@pytest.mark.parametrize("operation", CREATES)
async def test_a_connection_that_breaks_in_the_middle_of_a_create(
    client: WorkIq, mcp: Mcp, operation: Operation
) -> None:
    mcp.on["tools/call"] = lambda request: DROP
    error = await failing(client, to(mcp, operation))
    assert error.outcome_unknown
    assert operation.makes in error.message
    assert len(mcp.calls()) == 1
    mcp.on.clear()
    await client.call(read(mcp))


async def test_a_stream_that_breaks_in_the_middle_of_a_create(client: WorkIq, mcp: Mcp) -> None:
    mcp.on["tools/call"] = lambda request: (
        b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\nevent: message\r\ndata: {"
    )
    error = await failing(client, to(mcp, catalog.CREATE_DOCUMENT))
    assert error.outcome_unknown
    assert len(mcp.calls()) == 1


@pytest.mark.parametrize("body", [b"{", b'{"jsonrpc": "2.0", "id": 3, "result": {"content": 7}}', b"[]"])
async def test_an_answer_to_a_create_that_makes_no_sense(client: WorkIq, mcp: Mcp, body: bytes) -> None:
    def nonsense(request: Received) -> bytes:
        return answer(200, body.replace(b": 3,", f": {request.json['id']},".encode()), content_type="application/json")

    mcp.on["tools/call"] = nonsense
    error = await failing(client, to(mcp, catalog.CREATE_DOCUMENT))
    assert error.outcome_unknown
    assert len(mcp.calls()) == 1


async def test_an_answer_that_is_no_mcp(client: WorkIq, mcp: Mcp) -> None:
    mcp.on["tools/call"] = lambda request: answer(200, b"<html>", content_type="text/html")
    assert not (await failing(client, read(mcp))).outcome_unknown
    assert (await failing(client, to(mcp, catalog.REPLY))).outcome_unknown


async def test_a_read_is_repeated_when_the_connection_breaks(client: WorkIq, mcp: Mcp) -> None:
    left = [DROP, DROP]
    mcp.on["tools/call"] = lambda request: left.pop() if left else mcp.result(request.json, text("fine"))
    assert (await client.call(read(mcp))).texts == ("fine",)


async def test_connecting_and_listing_are_repeated_also_for_a_create(client: WorkIq, mcp: Mcp) -> None:
    drops = {"initialize": [DROP], "tools/list": [DROP]}
    for method in drops:
        mcp.on[method] = lambda request, method=method: (  # type: ignore[misc]
            drops[method].pop() if drops[method] else _as_usual(mcp, method, request)
        )
    await client.call(to(mcp, catalog.ADD_COMMENT))
    assert len(mcp.calls()) == 1


def _as_usual(mcp: Mcp, method: str, request: Received) -> Any:
    mcp.on.pop(method)
    return mcp.reply(request)


async def test_connecting_that_fails_for_good_leaves_no_doubt(client: WorkIq, mcp: Mcp) -> None:
    mcp.on["initialize"] = lambda request: DROP
    assert not (await failing(client, to(mcp, catalog.ADD_COMMENT))).outcome_unknown
    gone = Request(WorkIqServer("mcp_WordServer", "https://127.0.0.1:9/agents/servers/x", AUDIENCE), CREATES[0], {})
    assert not (await failing(client, gone)).outcome_unknown


@pytest.mark.parametrize("status", [404, 400])
async def test_a_server_that_forgot_the_session(client: WorkIq, mcp: Mcp, status: int) -> None:
    await client.call(read(mcp))
    mcp.session = "s2"
    if status == 400:
        mcp.on["tools/call"] = lambda request: (
            answer(400, b"Bad Request: no valid session")
            if request.headers["mcp-session-id"] == "s1"
            else mcp.result(request.json, text("fine"))
        )
    await client.call(to(mcp, catalog.ADD_COMMENT))
    assert mcp.methods().count("initialize") == 2
    assert [one["name"] for one in mcp.calls()].count("WordCreateNewComment") == 2


async def test_a_server_that_was_restarted_between_calls(client: WorkIq, mcp: Mcp) -> None:
    await client.call(read(mcp))
    for writer in list(mcp.wire.writers):
        writer.transport.abort()
    mcp.session = "s2"
    await client.call(read(mcp))
    assert mcp.methods().count("initialize") == 2


async def test_a_hanging_server_costs_one_call_its_time_and_the_others_nothing(
    authority: Authority, host: Host, mcp: Mcp
) -> None:
    mcp.tool = lambda params: HANG if params["arguments"] else text("fine")
    async with work_iq(authority.ca_file, host, timeout_seconds=1) as client:
        await client.call(read(mcp))
        hanging = asyncio.create_task(failing(client, read(mcp, url="x")))
        for _ in range(5):
            await client.call(read(mcp))
        error = await hanging
        assert "within 1 seconds" in error.message
        assert (await failing(client, to(mcp, catalog.ADD_COMMENT))).outcome_unknown
        await client.call(read(mcp))


async def test_calls_that_are_given_up_hold_nothing_and_nobody(client: WorkIq, mcp: Mcp) -> None:
    """More of them than there are connections, and a server that does not take word of it either."""
    mcp.tool = lambda params: HANG if params["arguments"] else text("fine")
    mcp.on["notifications/cancelled"] = lambda request: HANG
    await client.call(read(mcp))
    hanging = [asyncio.create_task(client.call(read(mcp, url="x"))) for _ in range(30)]
    async with asyncio.timeout(10):
        while len(mcp.calls()) < 20:
            await asyncio.sleep(0.01)
        for one in hanging:
            one.cancel()
        await asyncio.wait(hanging)
    assert all(one.cancelled() for one in hanging)
    async with asyncio.timeout(3):
        assert (await client.call(read(mcp))).texts == ("fine",)
        while len(mcp.wire.writers) > 3:
            await asyncio.sleep(0.01)


async def test_a_call_that_is_given_up_leaves_the_others(client: WorkIq, mcp: Mcp) -> None:
    mcp.tool = lambda params: HANG if params["arguments"].get("url") == "never" else text("fine")
    first = asyncio.create_task(client.call(read(mcp, url="never")))
    async with asyncio.timeout(10):
        while not mcp.calls():
            await asyncio.sleep(0.01)
        second = asyncio.create_task(client.call(read(mcp, url="x")))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).texts == ("fine",)
    assert mcp.methods().count("initialize") == 1


async def test_cancelling_who_connects_leaves_the_session_to_the_others(client: WorkIq, mcp: Mcp) -> None:
    first, second = (asyncio.create_task(client.call(read(mcp))) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).texts == ("fine",)
    assert mcp.methods().count("initialize") == 1


async def test_a_large_answer(client: WorkIq, mcp: Mcp) -> None:
    mcp.sse = True
    mcp.tool = lambda params: text("x" * 6_000_000)
    assert len((await client.call(read(mcp))).texts[0]) == 6_000_000
    mcp.sse = False
    mcp.tool = lambda params: text("x" * 17_000_000)
    assert "16 MB" in (await failing(client, read(mcp))).message


async def test_an_authority_nobody_knows(host: Host, mcp: Mcp) -> None:
    async with work_iq("", host, timeout_seconds=5) as client:
        error = await failing(client, read(mcp))
    assert "ENTRABOT_CA_BUNDLE" in error.remedy
    assert not mcp.wire.received


@pytest.mark.parametrize("refuse", [False, True])
async def test_a_proxy(
    authority: Authority, host: Host, mcp: Mcp, monkeypatch: pytest.MonkeyPatch, refuse: bool
) -> None:
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    async with proxy_running() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        proxy.refuse = refuse
        async with work_iq(authority.ca_file, host, timeout_seconds=5) as client:
            if refuse:
                assert not (await failing(client, to(mcp, catalog.ADD_COMMENT))).outcome_unknown
                assert not mcp.wire.connections
            else:
                await client.call(read(mcp))
        assert set(proxy.tunnels) == {mcp.wire.url.removeprefix("https://")}


async def test_a_server_that_does_not_begin(authority: Authority, host: Host, mcp: Mcp) -> None:
    mcp.on["initialize"] = lambda request: HANG
    async with work_iq(authority.ca_file, host, timeout_seconds=1) as client:
        error = await failing(client, to(mcp, catalog.ADD_COMMENT))
        assert not error.outcome_unknown
        mcp.on.clear()
        await client.call(to(mcp, catalog.ADD_COMMENT))
    assert len(mcp.calls()) == 1


async def test_time_that_runs_out_while_waiting_leaves_no_doubt(authority: Authority, host: Host, mcp: Mcp) -> None:
    mcp.on["tools/call"] = lambda request: answer(429, b"", retry_after="9")
    async with work_iq(authority.ca_file, host, timeout_seconds=1) as client:
        assert not (await failing(client, to(mcp, catalog.ADD_COMMENT))).outcome_unknown
    assert len(mcp.calls()) == 1


async def test_what_the_server_says_unasked_is_not_listened_to(client: WorkIq, mcp: Mcp) -> None:
    await client.call(read(mcp))
    assert not [one for one in mcp.wire.received if one.method == "GET"]


async def test_a_stream_is_resumed_where_the_server_offers_it(client: WorkIq, mcp: Mcp) -> None:
    held: list[bytes] = []

    def broken(request: Received) -> bytes:
        held.append(mcp.result(request.json, text("made")))
        head = b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
        return head + b"id: 7\r\nretry: 10\r\ndata: \r\n\r\n"

    mcp.sse = True
    mcp.on["tools/call"] = broken
    mcp.resume = lambda request: held[0] if request.headers.get("last-event-id") == "7" else answer(405)
    assert (await client.call(to(mcp, catalog.CREATE_DOCUMENT))).texts == ("made",)
    assert len(mcp.calls()) == 1
    resumed = [one for one in mcp.wire.received if one.method == "GET"]
    assert [one.headers["authorization"] for one in resumed] == ["Bearer token-1"]


@pytest.mark.parametrize(
    "resumed", [answer(404), answer(400), answer(401), answer(405), answer(429), answer(503), answer(302), DROP]
)
async def test_a_create_is_not_repeated_when_its_stream_cannot_be_resumed(
    client: WorkIq, mcp: Mcp, resumed: Any
) -> None:
    head = b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    mcp.on["tools/call"] = lambda request: head + b"id: 7\r\nretry: 10\r\ndata: \r\n\r\n"
    mcp.resume = lambda request: resumed
    assert (await failing(client, to(mcp, catalog.CREATE_DOCUMENT))).outcome_unknown
    assert len(mcp.calls()) == 1
    await failing(client, read(mcp))
    assert len(mcp.calls()) == 4


async def test_a_changed_manifest_makes_a_new_session(client: WorkIq, mcp: Mcp) -> None:
    await client.call(read(mcp))
    other = WorkIqServer(mcp.server.name, mcp.server.url, "other")
    await client.call(Request(other, catalog.READ_DOCUMENT, {}))
    assert mcp.methods().count("initialize") == 2


async def test_nothing_is_left_behind(authority: Authority, host: Host, mcp: Mcp) -> None:
    before = asyncio.all_tasks()
    mcp.tool = lambda params: HANG
    async with work_iq(authority.ca_file, host) as client:
        task = asyncio.create_task(client.call(read(mcp)))
        async with asyncio.timeout(10):
            while not mcp.calls():
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait({task})
    mine = {one for one in asyncio.all_tasks() - before if one.get_name().startswith("a365")}
    assert not mine
    assert "DELETE" not in {one.method for one in mcp.wire.received}
    with pytest.raises(A365CallError):
        await client.call(read(mcp))
