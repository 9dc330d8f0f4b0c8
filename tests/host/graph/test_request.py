"""One request: tokens, refusals, waiting, and what is never repeated."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from entrabot_host.errors import (
    GraphError,
    GraphForbidden,
    GraphNotFound,
    GraphThrottled,
    GraphUnavailable,
    SettingsError,
    TokenAudienceError,
)
from entrabot_host.graph.client import GraphClient
from entrabot_host.host import Graph
from entrabot_host.security.clouds import Cloud
from tests.host.graph.conftest import Time, Tokens
from tests.host.graph.server import DROP, HANG, Authority, Server, answer, failure, proxy_running

MESSAGES = "/chats/19%3Aabc%40thread.v2/messages"


async def test_the_client_is_the_facet(graph: GraphClient) -> None:
    facet: Graph = graph
    assert facet is graph


async def test_a_request_and_its_answer(graph: GraphClient, server: Server, tokens: Tokens) -> None:
    server.script.append(answer(200, {"id": "x"}, ETag="e1"))
    response = await graph.request(
        "get", "/me/chats", params={"$top": "50", "$orderby": "a/b desc"}, headers={"Prefer": "p"}
    )
    assert (response.status, response.body, response.headers["etag"]) == (200, {"id": "x"}, "e1")
    got = server.received[0]
    assert (got.method, got.target) == ("GET", "/v1.0/me/chats?$top=50&$orderby=a/b%20desc")
    assert got.headers["authorization"] == "Bearer user-1"
    assert got.headers["prefer"] == "p"
    assert len(got.headers["client-request-id"]) == 36
    assert tokens.calls == [("https://graph.microsoft.com", "", "")]


async def test_raw_content_goes_out_as_it_is_with_the_token(graph: GraphClient, server: Server) -> None:
    server.script.append(answer(201, {"id": "1"}))
    await graph.request("PUT", "/me/drive/items/1/content", content=b"\x00raw", headers={"Content-Type": "image/png"})
    got = server.received[0]
    assert got.body == b"\x00raw"
    assert got.headers["content-type"] == "image/png"
    assert got.headers["authorization"] == "Bearer user-1"


async def test_json_body_beta_and_app_token(graph: GraphClient, server: Server) -> None:
    server.script.append(answer(201, {"id": "1"}))
    response = await graph.request("POST", MESSAGES, json={"t": "ü\ud800"}, beta=True, app_only=True)
    got = server.received[0]
    assert response.status == 201
    assert got.target == f"/beta{MESSAGES}"
    assert got.json == {"t": "ü?"}
    assert got.headers["content-type"] == "application/json"
    assert got.headers["authorization"] == "Bearer app-1"


async def test_connections_are_kept_and_dropped(graph: GraphClient, server: Server) -> None:
    await graph.request("GET", "/me")
    await graph.request("GET", "/me")
    assert server.connections == 1
    await graph.drop_connections()
    await graph.request("GET", "/me")
    assert server.connections == 2


async def test_a_request_under_way_survives_a_drop(graph: GraphClient, server: Server) -> None:
    arrived, go_on = asyncio.Event(), asyncio.Event()

    async def token(audience: str, **_: str) -> object:
        arrived.set()
        await go_on.wait()
        return await Tokens().token(audience)

    graph._tokens.token = token  # type: ignore[attr-defined]
    task = asyncio.create_task(graph.request("GET", "/me"))
    await asyncio.wait_for(arrived.wait(), 10)
    await graph.drop_connections()
    go_on.set()
    assert (await asyncio.wait_for(task, 10)).status == 200
    assert not graph._wire._users


async def test_a_closed_client_says_so(graph: GraphClient) -> None:
    await graph.request("GET", "/me")
    await graph.aclose()
    with pytest.raises(GraphUnavailable, match="closed"):
        await graph.request("POST", "/me", json={})


async def test_binary_answers_come_as_content(graph: GraphClient, server: Server) -> None:
    server.script.append(answer(200, b"\x89PNG", content_type="image/png"))
    response = await graph.request("GET", f"{MESSAGES}/1/hostedContents/a/$value")
    assert (response.content, response.body) == (b"\x89PNG", None)


# --- 401 ------------------------------------------------------------------------------------------------------------


async def test_a_refused_token_is_replaced_once(graph: GraphClient, server: Server, tokens: Tokens) -> None:
    server.script.append(failure(401, "InvalidAuthenticationToken"))
    response = await graph.request("POST", MESSAGES, json={"a": 1})
    assert response.status == 200
    assert [one.headers["authorization"] for one in server.received] == ["Bearer user-1", "Bearer user-2"]
    assert [one.json for one in server.received] == [{"a": 1}] * 2
    assert tokens.calls[1][1] == "user-1"


async def test_a_second_refusal_is_final(graph: GraphClient, server: Server) -> None:
    server.default = lambda _: failure(401, "InvalidAuthenticationToken")
    with pytest.raises(GraphError) as caught:
        await graph.request("GET", "/me")
    assert len(server.received) == 2
    assert (caught.value.status, caught.value.code) == (401, "InvalidAuthenticationToken")
    assert "sign in" in caught.value.remedy


@pytest.mark.parametrize(
    ("challenge", "expected"),
    [
        ({"access_token": {"nbf": {"essential": True, "value": "1604106651"}}}, True),
        ([1], False),
        (None, False),
    ],
)
async def test_claims_are_passed_on(
    graph: GraphClient, server: Server, tokens: Tokens, challenge: object, expected: bool
) -> None:
    text = json.dumps(challenge)
    encoded = base64.b64encode(text.encode()).decode() if challenge is not None else "A"
    header = (
        f'Bearer realm="", authorization_uri="https://x/authorize", error="insufficient_claims", claims="{encoded}"'
    )
    server.script.append(failure(401, WWW_Authenticate=header))
    await graph.request("GET", "/me")
    assert tokens.calls[1][2] == (text if expected else "")


async def test_a_post_that_was_refused_and_then_lost_may_have_been_done(graph: GraphClient, server: Server) -> None:
    server.script.extend([failure(401), DROP])
    with pytest.raises(GraphUnavailable) as caught:
        await graph.request("POST", MESSAGES, json={})
    assert caught.value.outcome_unknown, "the second one did leave"


async def test_no_token_goes_to_another_host(graph: GraphClient, elsewhere: Server) -> None:
    with pytest.raises(TokenAudienceError):
        await graph.request("GET", f"{elsewhere.url}/v1.0/me")
    assert not elsewhere.received


@pytest.mark.parametrize(
    "path", ["me", "", "//evil.example/x", "/a\r\nX: y", "/chats/../me", "/chats/%2e%2E/me", "/a\\b", "/a#b", "/a/./b"]
)
async def test_malformed_paths_are_refused(graph: GraphClient, server: Server, path: str) -> None:
    with pytest.raises((GraphError, TokenAudienceError)):
        await graph.request("GET", path)
    assert not server.received


@pytest.mark.parametrize("header", [{"Authorization": "Bearer x"}, {"X": "a\r\nb: c"}, {"Host": "x"}, {"X": "é"}])
async def test_headers_that_are_not_the_callers(graph: GraphClient, server: Server, header: dict[str, str]) -> None:
    with pytest.raises(GraphError):
        await graph.request("GET", "/me", headers=header)
    assert not server.received


# --- waiting --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_retry_after_in_seconds(graph: GraphClient, server: Server, clock: Time, method: str) -> None:
    server.script.append(failure(429, "TooManyRequests", Retry_After="7"))
    assert (await graph.request(method, "/me/chats")).status == 200
    assert clock.slept == [7.0]


async def test_retry_after_as_a_date(graph: GraphClient, server: Server, clock: Time) -> None:
    server.script.append(
        failure(503, Date="Mon, 30 Nov 2026 18:00:00 GMT", Retry_After="Mon, 30 Nov 2026 18:00:09 GMT")
    )
    await graph.request("GET", "/me/chats")
    assert clock.slept == pytest.approx([9.0])


@pytest.mark.parametrize("header", ["", "soon", "-5", "1e9", "Mon, 99 Nov"])
async def test_backoff_grows_within_bounds(graph: GraphClient, server: Server, clock: Time, header: str) -> None:
    server.default = lambda _: failure(503, Retry_After=header)
    with pytest.raises(GraphUnavailable) as caught:
        await graph.request("GET", "/me", timeout=600)
    assert len(server.received) == 5
    assert all(wait / 2 <= slept <= wait for slept, wait in zip(clock.slept, [0.5, 1, 2, 4], strict=True))
    assert (caught.value.status, caught.value.outcome_unknown) == (503, False)


async def test_a_wait_beyond_the_timeout_is_not_begun(graph: GraphClient, server: Server, clock: Time) -> None:
    server.script.append(failure(429, Retry_After="120"))
    with pytest.raises(GraphThrottled, match="429") as caught:
        await graph.request("GET", "/me", timeout=30)
    assert not clock.slept
    assert "120 seconds" in caught.value.remedy
    assert caught.value.retry_after == caught.value.details["retry_after"] == 120
    server.script.append(failure(423, "locked"))
    with pytest.raises(GraphError) as locked:
        await graph.request("PATCH", "/me", json={})
    assert locked.value.retry_after is None
    assert "retry_after" not in locked.value.details


@pytest.mark.parametrize("status", [502, 503, 504])
async def test_reads_are_repeated(graph: GraphClient, server: Server, status: int) -> None:
    server.script.append(failure(status))
    assert (await graph.request("GET", "/me")).status == 200


@pytest.mark.parametrize(("status", "unknown"), [(500, True), (502, True), (503, False), (504, True)])
@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
async def test_changes_are_not(graph: GraphClient, server: Server, method: str, status: int, unknown: bool) -> None:
    server.default = lambda _: failure(status, "ServiceDown", Retry_After="1")
    with pytest.raises(GraphUnavailable) as caught:
        await graph.request(method, MESSAGES, json={})
    assert len(server.received) == 1
    assert caught.value.outcome_unknown is unknown
    assert caught.value.details["outcome_unknown"] is unknown
    assert caught.value.retry_after == 1
    assert (caught.value.code, caught.value.request_id[:8]) == ("ServiceDown", "11111111")


async def test_a_post_cut_off_after_sending_has_an_unknown_outcome(graph: GraphClient, server: Server) -> None:
    server.default = lambda _: DROP
    with pytest.raises(GraphUnavailable) as caught:
        await graph.request("POST", MESSAGES, json={"a": 1})
    assert caught.value.outcome_unknown
    assert len(server.received) == 1


async def test_an_answer_cut_off_half_way_is_no_answer(graph: GraphClient, server: Server) -> None:
    server.script.append(
        b'HTTP/1.1 201 X\r\ncontent-type: application/json\r\ncontent-length: 99\r\nconnection: close\r\n\r\n{"id": '
    )
    with pytest.raises(GraphUnavailable) as caught:
        await graph.request("POST", MESSAGES, json={"a": 1})
    assert caught.value.outcome_unknown


async def test_a_get_cut_off_is_repeated(graph: GraphClient, server: Server) -> None:
    server.script.append(DROP)
    assert (await graph.request("GET", "/me")).status == 200
    assert len(server.received) == 2


async def test_silence_ends_with_the_timeout(graph: GraphClient, server: Server) -> None:
    await graph.request("GET", "/me")  # a connection, so that the time limit meets the silence
    server.default = lambda _: HANG
    with pytest.raises(GraphUnavailable, match="in time") as caught:
        await graph.request("POST", MESSAGES, json={}, timeout=0.3)
    assert caught.value.outcome_unknown
    with pytest.raises(GraphUnavailable) as caught:
        await graph.request("GET", "/me", timeout=0.3)
    assert not caught.value.outcome_unknown


async def test_a_token_that_never_comes_sends_nothing(graph: GraphClient, server: Server) -> None:
    async def never(*_: str, **__: str) -> None:
        await asyncio.Event().wait()

    graph._tokens.token = never  # type: ignore[attr-defined]
    with pytest.raises(GraphUnavailable) as caught:
        await graph.request("POST", MESSAGES, json={}, timeout=0.3)
    assert not caught.value.outcome_unknown
    assert not server.received


async def test_a_refused_connection_is_tried_again(
    graph: GraphClient, server: Server, clock: Time, cloud: Cloud, tokens: Tokens, authority: Authority
) -> None:
    gone = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = gone.sockets[0].getsockname()[1]
    gone.close()
    nobody = replace(cloud, graph_url=f"https://127.0.0.1:{port}")
    client = GraphClient(nobody, tokens, ca_bundle=authority.ca_file, clock=clock, sleep=clock.sleep)
    with pytest.raises(GraphUnavailable, match="no connection") as caught:
        await client.request("POST", MESSAGES, json={})
    await client.aclose()
    assert len(clock.slept) == 4
    assert not caught.value.outcome_unknown
    assert str(port) not in str(caught.value)


# --- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, GraphError), (403, GraphForbidden), (404, GraphNotFound), (409, GraphError), (507, GraphError)],
)
async def test_refusals_are_typed(graph: GraphClient, server: Server, status: int, kind: type[GraphError]) -> None:
    message = "No\r\nsuch\u202e thing. Bearer abcdefghijklmnopqrstuvwx " + "x" * 1000
    server.script.append(failure(status, "NotFound", message))
    with pytest.raises(GraphError) as caught:
        await graph.request("DELETE", "/chats/1")
    error = caught.value
    assert type(error) is kind
    assert (error.status, error.code, error.request_id[:8]) == (status, "NotFound", "11111111")
    assert error.remedy
    assert "No such thing. Bearer [redacted]" in error.message
    assert len(error.message) < 400


@pytest.mark.parametrize(
    ("body", "code", "request_id"),
    [
        ({"error": {"code": "", "innererror": {"request-id": "abc"}}}, "", "abc"),
        ({"Error": {"Code": "X", "InnerError": {"Request-Id": "abc"}}}, "X", "abc"),
        ({"error": "invalid_client"}, "", ""),
        ({"error": {"code": 7, "message": ["x"], "innerError": None}}, "", ""),
        ([], "", ""),
        (b"<html>", "", ""),
        (b"[" * 100_000, "", ""),
    ],
)
async def test_odd_error_bodies(graph: GraphClient, server: Server, body: object, code: str, request_id: str) -> None:
    server.script.append(answer(404, body))
    with pytest.raises(GraphNotFound) as caught:
        await graph.request("GET", "/x")
    assert (caught.value.code, caught.value.request_id) == (code, request_id)


async def test_unreadable_json_is_an_error(graph: GraphClient, server: Server) -> None:
    server.script.append(answer(200, b"{", content_type="application/json"))
    with pytest.raises(GraphUnavailable, match="could not be read"):
        await graph.request("GET", "/me")


async def test_an_untrusted_certificate_names_the_setting(
    cloud: Cloud, tokens: Tokens, clock: Time, server: Server
) -> None:
    client = GraphClient(cloud, tokens, clock=clock, sleep=clock.sleep)
    with pytest.raises(GraphUnavailable, match="certificate") as caught:
        await client.request("POST", MESSAGES, json={})
    await client.aclose()
    assert "ENTRABOT_CA_BUNDLE" in caught.value.remedy
    assert not caught.value.outcome_unknown
    assert not clock.slept


async def test_an_unusable_ca_bundle_is_a_settings_error(cloud: Cloud, tokens: Tokens) -> None:
    client = GraphClient(cloud, tokens, ca_bundle="/nowhere/ca.pem")
    with pytest.raises(SettingsError, match="ENTRABOT_CA_BUNDLE"):
        await client.request("GET", "/me")
    await client.aclose()


# --- the network between --------------------------------------------------------------------------------------------


async def test_proxy_variables_count(graph: GraphClient, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxy_running() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        assert (await graph.request("GET", "/me")).status == 200
        assert proxy.tunnels == [server.url.removeprefix("https://")]
        await graph.aclose()


async def test_what_a_proxy_refuses_was_not_sent(
    graph: GraphClient, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with proxy_running() as proxy:
        proxy.refuse = True
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        with pytest.raises(GraphUnavailable, match="proxy") as caught:
            await graph.request("POST", "/me", json={})
        assert not caught.value.outcome_unknown
        await graph.aclose()
    assert not server.received


async def test_cookies_are_not_kept(graph: GraphClient, server: Server) -> None:
    server.script.append(answer(200, {}, Set_Cookie="a=b; Path=/"))
    await graph.request("GET", "/me")
    await graph.request("GET", "/me")
    assert "cookie" not in server.received[1].headers


# --- time -----------------------------------------------------------------------------------------------------------


async def test_graphs_clock(graph: GraphClient, server: Server, clock: Time) -> None:
    assert abs((graph.now() - datetime.now(UTC)).total_seconds()) < 60
    server.script.append(answer(200, {}, Date="Mon, 30 Nov 2026 18:00:00 GMT"))
    await graph.request("GET", "/me")
    clock.now += 5
    assert graph.now() == datetime(2026, 11, 30, 18, 0, 5, tzinfo=UTC)
    server.script.append(answer(200, {}, Date="nonsense"))
    await graph.request("GET", "/me")
    assert graph.now() == datetime(2026, 11, 30, 18, 0, 5, tzinfo=UTC)


# --- quiet ----------------------------------------------------------------------------------------------------------


async def test_nothing_is_logged_or_shown_that_is_secret(
    graph: GraphClient, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.script.append(answer(302, None, Location="https://files.example/x?tempauth=secret"))
    response = await graph.request("GET", "/drives/secretdrive/items/1/content")
    assert response.headers["location"].endswith("tempauth=secret")
    assert "secret" not in caplog.text + repr(response.headers)
    assert "user-1" not in caplog.text
    assert not [record for record in caplog.records if record.name.startswith(("httpx", "httpcore"))]


def test_the_module_imports_nothing_heavy() -> None:
    code = (
        "import sys, entrabot_host.graph.client, entrabot_host.security.tls, entrabot_host.security.envelope;"
        "print([m for m in ('httpx', 'requests', 'truststore', 'cryptography', 'msal') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "[]"


async def test_a_cancelled_request_lets_go_of_everything(graph: GraphClient, server: Server) -> None:
    arrived = asyncio.Event()

    def hang(_: object) -> object:
        arrived.set()
        return HANG

    server.default = hang
    task = asyncio.create_task(graph.request("GET", "/me"))
    await asyncio.wait_for(arrived.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not graph._wire._users
    server.default = lambda _: answer(200, {})
    assert (await graph.request("GET", "/me")).status == 200
