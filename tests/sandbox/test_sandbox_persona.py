"""The persona server over both transports, and how it fails."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import httpx
import httpx2
import pytest
from entrabot_sandbox.client import Sandbox
from mcp.client import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

Open = Callable[[str], AbstractAsyncContextManager[Client]]
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
BOTH = {"Accept": "application/json, text/event-stream"}


@pytest.fixture
def over_http(sandbox: Sandbox, context: ssl.SSLContext) -> Open:
    @asynccontextmanager
    async def connect(bearer: str) -> AsyncIterator[Client]:
        headers = {"Authorization": f"Bearer {bearer}"}
        async with (
            httpx2.AsyncClient(headers=headers, verify=context, trust_env=False) as http,
            Client(streamable_http_client(sandbox.persona["url"], http_client=http)) as client,
        ):
            yield client

    return connect


@pytest.fixture
def over_sse(sandbox: Sandbox, context: ssl.SSLContext) -> Open:
    def factory(headers: Any = None, timeout: Any = None, auth: Any = None) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(headers=headers, timeout=timeout, auth=auth, verify=context, trust_env=False)

    @asynccontextmanager
    async def connect(bearer: str) -> AsyncIterator[Client]:
        headers = {"Authorization": f"Bearer {bearer}"}
        async with Client(sse_client(sandbox.persona["sse_url"], headers, httpx_client_factory=factory)) as client:
            yield client

    return connect


@pytest.fixture(params=["over_http", "over_sse"])
def connect(request: pytest.FixtureRequest) -> Open:
    opened: Open = request.getfixturevalue(request.param)
    return opened


async def said(client: Client, tool: str = "get_system_prompt") -> str:
    block = (await client.call_tool(tool, {})).content[0]
    assert block.type == "text"
    return block.text


async def test_it_says_who_the_agent_is(sandbox: Sandbox, connect: Open) -> None:
    async with connect(sandbox.persona["token"]) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["get_system_prompt", "bootstrap_session"]
        assert (await said(client)).startswith("You are Sati.")
        await sandbox.set_persona("You are somebody else. ü")
        assert await said(client) == "You are somebody else. ü"
        begun = json.loads(await said(client, "bootstrap_session"))
        assert begun["session_id"]
        assert begun["system_prompt"] == "You are somebody else. ü"
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("observe", {})


async def test_it_is_not_in_the_environment_and_starts_over(sandbox: Sandbox) -> None:
    environment = json.dumps(sandbox.environment)
    assert "/persona/" not in environment
    assert sandbox.persona["token"] not in environment
    await sandbox.set_persona("other")
    await sandbox.reset()
    assert (await sandbox.call("GET", "/persona"))["text"].startswith("You are Sati.")


@pytest.mark.parametrize("bearer", ["", "wrong", "ü"])
async def test_it_wants_the_token(sandbox: Sandbox, context: ssl.SSLContext, bearer: str) -> None:
    headers = httpx.Headers({"Authorization": f"Bearer {bearer}"} if bearer else {}, encoding="utf-8")
    messages = sandbox.persona["sse_url"].replace("/sse", "/messages") + "?session_id=" + "0" * 32
    async with httpx.AsyncClient(verify=context, trust_env=False, headers=headers) as http:
        answers = [
            await http.post(sandbox.persona["url"], json=LIST, headers=BOTH),
            await http.get(sandbox.persona["sse_url"]),
            await http.post(messages, json=LIST),
        ]
    assert [(answer.status_code, answer.headers["www-authenticate"]) for answer in answers] == [(401, "Bearer")] * 3


async def test_it_fails_when_told_to(sandbox: Sandbox, connect: Open, context: ssl.SSLContext) -> None:
    headers = {"Authorization": f"Bearer {sandbox.persona['token']}", **BOTH}
    for status in (401, 503):
        await sandbox.fault("status", path="/persona/**", status=status)
        async with httpx.AsyncClient(verify=context, trust_env=False, headers=headers) as http:
            assert (await http.post(sandbox.persona["url"], json=LIST)).status_code == status
            assert (await http.get(sandbox.persona["sse_url"])).status_code == status
        await sandbox.clear_faults()
    async with connect(sandbox.persona["token"]) as client:
        assert await said(client)
    await sandbox.fault("drop_before", path="/persona/**")
    async with httpx.AsyncClient(verify=context, trust_env=False, headers=headers) as http:
        with pytest.raises(httpx.RemoteProtocolError):
            await http.get(sandbox.persona["sse_url"])


async def test_it_hangs_when_told_to(sandbox: Sandbox, connect: Open) -> None:
    fault = await sandbox.fault("latency", path="/persona/**", seconds=60)
    hanging = anyio.Event()

    async def ask() -> None:
        async with connect(sandbox.persona["token"]) as client:
            await said(client)
            pytest.fail("It answered.")

    async def watch(scope: anyio.CancelScope) -> None:
        with anyio.fail_after(20):
            while not (await sandbox.faults())[0]["hits"]:
                await anyio.sleep(0.05)
        hanging.set()
        scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        group.start_soon(watch, group.cancel_scope)
    assert hanging.is_set()
    assert fault["seconds"] == 60


async def test_when_it_ends_open_streams_end_properly() -> None:
    async with Sandbox.start() as sandbox:
        context = ssl.create_default_context(cafile=sandbox.environment["ENTRABOT_CA_BUNDLE"])
        headers = {"Authorization": f"Bearer {sandbox.persona['token']}", **BOTH}
        async with httpx.AsyncClient(verify=context, trust_env=False, headers=headers) as http:
            opened = await http.post(sandbox.persona["url"], json=INITIALIZE)
            session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
            async with (
                http.stream("GET", sandbox.persona["url"], headers=session) as in_session,
                http.stream("GET", sandbox.persona["sse_url"]) as stream,
            ):
                lines = stream.aiter_lines()
                assert await anext(lines) == "event: endpoint"
                assert sandbox.process.stdin is not None
                await sandbox.process.stdin.aclose()
                rest = [line async for line in lines]
                assert await in_session.aread() == b""
        assert rest[0].startswith("data: /persona/messages?session_id=")
        assert await sandbox.process.wait() == 0
