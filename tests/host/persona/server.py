"""A persona's server for tests: a real MCP server in a thread, which misbehaves when asked to."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

TOKEN = "persona-token-0123456789"
MODERN = "2026"
STREAMABLE, SSE = ("/mcp",), ("/sse", "/messages/")


class PersonaServer:
    """Answers as ``behaviour`` says: ``answer``, ``legacy`` (older protocol), ``hang`` until it is changed, a status,
    ``garbage``, ``echo`` of the token, ``huge``, ``packed`` or ``tool error``.

    seen: every request's method, path and Authorization. held: requests that hang now. speaks: paths that are there.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.text = "You are Sati."
        self.behaviour = "answer"
        self.speaks = (*STREAMABLE, *SSE)
        self.seen: list[tuple[str, str, str]] = []
        self.held = 0
        self.calls = 0
        server = MCPServer("persona", log_level="CRITICAL")
        server.tool(name="get_system_prompt")(self._get_system_prompt)
        self._http, self._sse = server.streamable_http_app(), server.sse_app()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def sse_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/sse"

    def _get_system_prompt(self) -> str:
        """The persona."""
        self.calls += 1
        if self.behaviour == "tool error":
            raise ToolError(f"no such thing as {TOKEN}")
        return self.text

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._http(scope, receive, send)
            return
        path = scope["path"]
        sent = dict(scope["headers"]).get(b"authorization", b"").decode()
        self.seen.append((scope["method"], path, sent))
        if self.behaviour == "hang":
            await self._hold()
        if self.behaviour.isdigit():
            await _reply(send, int(self.behaviour), f"no, {sent}".encode())
        elif self.behaviour == "garbage":
            await _reply(send, 200, f"<p>{sent}</p>".encode(), b"text/html")
        elif self.behaviour == "echo":
            await _reply(send, 200, f'{{"jsonrpc": "2.0", "said": "{sent}"'.encode(), b"application/json")
        elif self.behaviour == "huge":
            kind = b"text/event-stream" if scope["method"] == "GET" else b"application/json"
            await _reply(send, 200, b": \n" * (1 << 20), kind)
        elif self.behaviour == "packed":
            await _reply(send, 200, b"x", b"application/json", [(b"content-encoding", b"gzip")])
        elif sent != f"Bearer {TOKEN}":
            await _reply(send, 401, b"no")
        elif self.behaviour == "legacy" and MODERN in dict(scope["headers"]).get(b"mcp-protocol-version", b"").decode():
            await _reply(send, 400, b"Unsupported protocol version")
        elif not any(path.startswith(known) for known in self.speaks):
            await _reply(send, 404, b"Not Found")
        else:
            await (self._sse if path.startswith(SSE) else self._http)(scope, receive, send)

    async def _hold(self) -> None:
        self.held += 1
        while self.behaviour == "hang":
            await asyncio.sleep(0.02)
        self.held -= 1


async def _reply(send: Any, status: int, body: bytes, kind: bytes = b"text/plain", extra: Any = ()) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind), *extra]})
    await send({"type": "http.response.body", "body": body})


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving() -> Iterator[PersonaServer]:
    """Run it for the length of a block."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    persona = PersonaServer(listening.getsockname()[1])
    config = uvicorn.Config(persona, log_level="critical", timeout_graceful_shutdown=0, ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])), daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started:
        assert time.monotonic() < deadline
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield persona
    finally:
        persona.behaviour = "answer"
        server.should_exit = True
        thread.join(timeout=20)
        listening.close()
    assert not thread.is_alive()
