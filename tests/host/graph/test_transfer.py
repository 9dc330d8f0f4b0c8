"""Pre-signed addresses: without the token, bounded, and in no error or log."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import anyio
import pytest

from entrabot_host.errors import EntrabotError, GraphError, GraphUnavailable
from entrabot_host.graph.client import GraphClient
from tests.host.graph.conftest import Time
from tests.host.graph.server import DROP, HANG, Received, Server, answer, failure

SECRET = "/x/download.aspx?tempauth=hushhush"


async def fetch(graph: GraphClient, url: str, max_bytes: int = 1000) -> bytes:
    return b"".join([chunk async for chunk in graph.download(url, max_bytes=max_bytes)])


async def test_a_download_carries_no_token(graph: GraphClient, server: Server, elsewhere: Server) -> None:
    await graph.request("GET", "/me")
    elsewhere.script.append(answer(302, None, Location=f"{server.url}/final?sig=1"))
    server.script.append(answer(200, b"data"))
    assert await fetch(graph, elsewhere.url + SECRET) == b"data"
    for one in (elsewhere.received[0], server.received[1]):
        assert "authorization" not in one.headers
    assert server.received[1].target == "/final?sig=1"


async def test_a_relative_redirect(graph: GraphClient, elsewhere: Server) -> None:
    elsewhere.script.extend([answer(302, None, Location="/y?z=1"), answer(200, b"data")])
    assert await fetch(graph, elsewhere.url + SECRET) == b"data"


@pytest.mark.parametrize("location", ["http://127.0.0.1/x", "ftp://x/", "https://user:hushhush@127.0.0.1/"])
async def test_redirects_stay_on_https(graph: GraphClient, elsewhere: Server, location: str) -> None:
    elsewhere.script.append(answer(302, None, Location=location))
    with pytest.raises(GraphError) as caught:
        await fetch(graph, elsewhere.url + SECRET)
    assert "hushhush" not in str(caught.value)
    assert len(elsewhere.received) == 1


async def test_redirects_are_bounded(graph: GraphClient, elsewhere: Server) -> None:
    elsewhere.default = lambda _: answer(302, None, Location="/again")
    with pytest.raises(GraphError):
        await fetch(graph, elsewhere.url + SECRET)
    assert len(elsewhere.received) == 6


@pytest.mark.parametrize("url", ["http://127.0.0.1/hushhush", "hushhush", "https://h/hush\r\nhush", "file:///hushhush"])
async def test_other_addresses_are_refused(graph: GraphClient, url: str) -> None:
    with pytest.raises(GraphError) as download:
        await fetch(graph, url)
    with pytest.raises(GraphError) as upload:
        await graph.upload(url, b"", headers={})
    assert "hush" not in f"{download.value} {upload.value}"


async def test_a_download_is_bounded(graph: GraphClient, elsewhere: Server) -> None:
    elsewhere.default = lambda _: answer(200, b"x" * 1001)
    with pytest.raises(GraphError, match="larger"):
        await fetch(graph, elsewhere.url + SECRET)
    chunked = b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n" + b"1f4\r\n" + b"x" * 500 + b"\r\n"
    elsewhere.default = lambda _: chunked + b"1f5\r\n" + b"x" * 501 + b"\r\n0\r\n\r\n"
    with pytest.raises(GraphError, match="larger"):
        await fetch(graph, elsewhere.url + SECRET)
    elsewhere.default = lambda _: answer(200, b"x" * 1000)
    assert len(await fetch(graph, elsewhere.url + SECRET)) == 1000


async def test_a_download_begins_again_before_its_first_byte_only(
    graph: GraphClient, elsewhere: Server, clock: Time
) -> None:
    elsewhere.script.extend([DROP, failure(503, Retry_After="3"), answer(200, b"data")])
    assert await fetch(graph, elsewhere.url + SECRET) == b"data"
    assert clock.slept[1] == 3
    elsewhere.script.append(b"HTTP/1.1 200 X\r\ncontent-length: 9\r\nconnection: close\r\n\r\ndata")
    with pytest.raises(GraphUnavailable) as caught:
        await fetch(graph, elsewhere.url + SECRET)
    assert len(elsewhere.received) == 4
    assert "hushhush" not in repr(caught.value)


async def test_an_expired_address(graph: GraphClient, elsewhere: Server) -> None:
    elsewhere.script.append(failure(403, "denied", "tempauth=hushhush is over"))
    with pytest.raises(GraphError) as caught:
        await fetch(graph, elsewhere.url + SECRET)
    assert caught.value.status == 403
    assert "new one" in caught.value.remedy
    assert "hushhush" not in str(caught.value)


async def test_a_download_left_early_lets_go_of_its_connection(graph: GraphClient, elsewhere: Server) -> None:
    elsewhere.default = lambda _: answer(200, b"x" * 200_000)
    stream = graph.download(elsewhere.url + SECRET, max_bytes=10**6)
    assert await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined]
    assert not graph._wire._users


async def test_an_upload_carries_no_token_and_returns_any_status(graph: GraphClient, elsewhere: Server) -> None:
    for status in (202, 201, 404, 416, 503):
        elsewhere.script.append(answer(status, {"nextExpectedRanges": ["4-"]}))
        response = await graph.upload(elsewhere.url + SECRET, b"data", headers={"Content-Range": "bytes 0-3/8"})
        assert (response.status, response.body) == (status, {"nextExpectedRanges": ["4-"]})
    for one in elsewhere.received:
        assert (one.method, one.body, one.target) == ("PUT", b"data", SECRET)
        assert one.headers["content-range"] == "bytes 0-3/8"
        assert "authorization" not in one.headers


async def test_a_streamed_upload(graph: GraphClient, elsewhere: Server) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"da"
        yield b"ta"

    response = await graph.upload(elsewhere.url + SECRET, chunks(), headers={"Content-Length": "4"})
    assert response.status == 200
    assert elsewhere.received[0].body == b"data"
    assert "transfer-encoding" not in elsewhere.received[0].headers


async def test_an_upload_follows_what_asks_for_the_same_again(
    graph: GraphClient, server: Server, elsewhere: Server
) -> None:
    elsewhere.script.extend([answer(307, None, Location=f"{server.url}/there"), answer(302, None, Location="/no")])
    assert (await graph.upload(elsewhere.url + SECRET, b"data", headers={})).status == 200
    assert (server.received[0].target, server.received[0].body) == ("/there", b"data")
    assert "authorization" not in server.received[0].headers
    assert (await graph.upload(elsewhere.url + SECRET, b"data", headers={})).status == 302


async def test_an_upload_cut_off_has_an_unknown_outcome(graph: GraphClient, elsewhere: Server) -> None:
    elsewhere.default = lambda _: DROP
    with pytest.raises(GraphUnavailable) as caught:
        await graph.upload(elsewhere.url + SECRET, b"data", headers={})
    assert caught.value.outcome_unknown
    assert len(elsewhere.received) == 1
    assert "hushhush" not in repr(caught.value)


@pytest.mark.parametrize(("status", "confirmed"), [(204, True), (404, True), (401, False), (503, False)])
async def test_a_session_that_is_given_up(graph: GraphClient, elsewhere: Server, status: int, confirmed: bool) -> None:
    elsewhere.script.append(answer(status))
    assert await graph.discard(elsewhere.url + SECRET) is confirmed
    (one,) = elsewhere.received
    assert (one.method, one.target, one.body) == ("DELETE", SECRET, b"")
    assert "authorization" not in one.headers


@pytest.mark.parametrize("reply", [DROP, HANG, answer(302, None, Location="/elsewhere")])
async def test_giving_a_session_up_raises_nothing(graph: GraphClient, elsewhere: Server, reply: object) -> None:
    elsewhere.default = lambda _: reply
    await graph.request("GET", "/me")
    assert not await graph.discard(elsewhere.url + SECRET, timeout=1)
    assert not await graph.discard("http://127.0.0.1/hushhush")
    assert len(elsewhere.received) == 1


async def test_a_session_is_given_up_although_the_caller_is_cancelled(graph: GraphClient, elsewhere: Server) -> None:
    with anyio.CancelScope() as scope:
        try:
            scope.cancel()
            await anyio.sleep(10)
        finally:
            assert await graph.discard(elsewhere.url + SECRET)
    assert [one.method for one in elsewhere.received] == ["DELETE"]


async def test_no_trace_of_the_address_in_logs_or_chained_errors(
    graph: GraphClient, elsewhere: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    replies = [DROP] * 5

    def default(_: Received) -> object:
        return replies.pop() if replies else answer(200, b"x")

    elsewhere.default = default
    with pytest.raises(EntrabotError) as caught:
        await fetch(graph, elsewhere.url + SECRET)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    await fetch(graph, elsewhere.url + SECRET)
    assert "hushhush" not in caplog.text
