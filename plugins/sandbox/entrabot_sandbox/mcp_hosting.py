"""MCP servers inside the sandbox: the SDK's own, imported and started by the first request."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from entrabot_sandbox.attendance import attend
from entrabot_sandbox.errors import ConnectionDroppedError, GraphError
from entrabot_sandbox.reply import Reply
from entrabot_sandbox.service import CutConnection
from entrabot_sandbox.state import State

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

SESSION = "mcp-session-id"
START_SECONDS = 10.0
BOTH_TYPES = "Not Acceptable: Client must accept both application/json and text/event-stream"


class Hosting:
    """All MCP servers of a process, and the streams that are open to their clients."""

    def __init__(self) -> None:
        self._servers: list[Hosted] = []
        self._streams: set[anyio.CancelScope] = set()

    def add(self, make: Callable[[], Server[Any]]) -> Hosted:
        """Have a server, made when it is first needed."""
        hosted = Hosted(make)
        self._servers.append(hosted)
        return hosted

    async def stream(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve an answer that ends only with the client, or with us."""
        sent = _Sent(send)
        with anyio.CancelScope() as open_stream:
            self._streams.add(open_stream)
            try:
                await app(scope, receive, sent)
            finally:
                self._streams.discard(open_stream)
        await sent.finish()

    async def aclose(self) -> None:
        """End every stream and every server."""
        for stream in list(self._streams):
            stream.cancel()
        for hosted in self._servers:
            await hosted.aclose()


class Hosted:
    """One server over streamable HTTP. It has sessions for those who ask for one and answers others as they come."""

    def __init__(self, make: Callable[[], Server[Any]]) -> None:
        self._make = make
        self._starting = asyncio.Lock()
        self._end = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._with_sessions: StreamableHTTPSessionManager | None = None
        self._without: StreamableHTTPSessionManager | None = None
        self._server: Server[Any] | None = None

    async def server(self) -> Server[Any]:
        """The SDK's server, running."""
        async with self._starting:
            if self._server is None:
                server = await asyncio.to_thread(self._make)
                await self._run(server)
                self._server = server
        return self._server

    async def aclose(self) -> None:
        """End it with its sessions."""
        if self._task is not None:
            self._end.set()
            await self._task

    async def _run(self, server: Server[Any]) -> None:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        logging.getLogger("mcp").setLevel(logging.CRITICAL)  # what clients do wrong is answered, not printed
        self._with_sessions = StreamableHTTPSessionManager(server)
        self._without = StreamableHTTPSessionManager(server, stateless=True)
        ready = asyncio.Event()
        self._task = asyncio.create_task(self._live(ready))
        async with asyncio.timeout(START_SECONDS):
            await ready.wait()

    async def _live(self, ready: asyncio.Event) -> None:
        assert self._with_sessions is not None
        assert self._without is not None
        async with self._with_sessions.run(), self._without.run():
            ready.set()
            await self._end.wait()

    def manager(self, *, in_session: bool, json_reply: bool) -> StreamableHTTPSessionManager:
        """What answers a request that belongs to a session or opens one, or one that does not."""
        manager = self._with_sessions if in_session else self._without
        assert manager is not None, "not started"
        manager.json_response = json_reply
        return manager


class McpEndpoint:
    """A server's address: streamable HTTP behind a check, under the faults in force, with a note of each request.

    ``admit`` gets a request and returns which server is meant, whether it hands out sessions, whether this reply is a
    JSON document, and what the server's tools find in the request's scope; it raises GraphError.
    """

    def __init__(self, state: State, hosting: Hosting, admit: Admit) -> None:
        self._state = state
        self._hosting = hosting
        self._admit = admit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        request = Request(scope, receive)
        try:
            body = await request.body()
        except ClientDisconnect:
            return await Response(status_code=400)(scope, receive, send)
        message = _message(body)

        async def handle() -> Reply:
            try:
                return await self._handle(request, message, _again(body, receive))
            except GraphError as error:
                return refusal(error)

        return await guarded(self._state, self._hosting, request, send, handle, _detail(message))

    async def _handle(self, request: Request, message: dict[str, Any], receive: Receive) -> Reply:
        hosted, sessions, json_reply, extra = await self._admit(request)
        request.scope.update(extra)
        in_session = SESSION in request.headers or (sessions and message.get("method") == "initialize")
        if request.method == "POST":
            _check_accept(request)
        elif not in_session:
            raise GraphError(405, "MethodNotAllowed", "There is no session here.", {"Allow": "POST"})
        await hosted.server()
        app = hosted.manager(in_session=in_session, json_reply=json_reply).handle_request
        if request.method == "GET":
            return Streamed(partial(_with_receive, app, receive))
        return await _collected(app, request.scope, receive)


Admit = Callable[[Request], Awaitable[tuple[Hosted, bool, bool, dict[str, Any]]]]


class Streamed(Reply):
    """An answer that goes on: the application that gives it."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(200)
        self.app = app


async def guarded(
    state: State,
    hosting: Hosting,
    request: Request,
    send: Send,
    handle: Callable[[], Awaitable[Reply]],
    detail: dict[str, str] | None = None,
) -> None:
    """Handle a request as every service does: under the faults in force, and noted."""
    scope, receive = request.scope, request.receive
    path, query = str(scope["path"]), request.url.query
    try:
        reply = await attend(state, request.method, path, query, handle, refusal, detail=detail)
    except ConnectionDroppedError:
        return await CutConnection()(scope, receive, send)
    if isinstance(reply, Streamed):
        return await hosting.stream(reply.app, scope, receive, send)
    headers = {"Date": state.clock.http_date(), **reply.headers}
    await Response(reply.content(), reply.status, headers)(scope, receive, send)
    return None


def refusal(error: GraphError) -> Reply:
    """A refusal by the gateway in front of a server: JSON, but plain text where it is the gateway that fails."""
    if error.status >= 500:
        return Reply(error.status, {**error.headers, "Content-Type": "text/plain"}, body=error.message.encode())
    body = {"error": {"code": error.code, "message": error.message}}
    return Reply(error.status, {**error.headers, "Content-Type": "application/json"}, json=body)


class _Sent:
    """Passes on what is sent and can end it properly."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._open = False

    async def __call__(self, message: Message) -> None:
        self._open = message["type"] == "http.response.start" or bool(message.get("more_body"))
        await self._send(message)

    async def finish(self) -> None:
        """Send the end if there is something without one."""
        if self._open:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


def _message(body: bytes) -> dict[str, Any]:
    try:
        message = json.loads(body)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


def _detail(message: dict[str, Any]) -> dict[str, str]:
    """What of a message may be noted: its method and the tool's name."""
    params = message.get("params")
    tool = params.get("name") if isinstance(params, dict) and message.get("method") == "tools/call" else None
    named = {"rpc": message.get("method"), "tool": tool}
    return {name: value for name, value in named.items() if isinstance(value, str)}


def _check_accept(request: Request) -> None:
    from mcp.server.streamable_http import check_accept_headers

    if not all(check_accept_headers(request)):
        raise GraphError(406, "NotAcceptable", BOTH_TYPES)


async def _with_receive(app: ASGIApp, receive: Receive, scope: Scope, _: Receive, send: Send) -> None:
    await app(scope, receive, send)


def _again(body: bytes, receive: Receive) -> Receive:
    """A request's messages with the body that has been read already."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return first.pop() if first else await receive()

    return again


async def _collected(app: ASGIApp, scope: Scope, receive: Receive) -> Reply:
    messages: list[Message] = []

    async def keep(message: Message) -> None:
        messages.append(message)

    await app(scope, receive, keep)
    if not messages:
        return Reply(400, body=b"")
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in messages[0]["headers"]}
    headers.pop("content-length", None)
    body = b"".join(message.get("body", b"") for message in messages[1:])
    return Reply(messages[0]["status"], headers, body=body)
