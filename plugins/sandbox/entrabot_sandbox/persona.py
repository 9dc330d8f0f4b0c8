"""A persona server: who the agent is, told over MCP by streamable HTTP and by the older SSE transport."""

from __future__ import annotations

import hmac
import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from entrabot_sandbox.errors import ControlError, GraphError
from entrabot_sandbox.mcp_hosting import Hosted, Hosting, McpEndpoint, Streamed, guarded, refusal
from entrabot_sandbox.reply import Reply
from entrabot_sandbox.state import State

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from mcp.server.sse import SseServerTransport

PATH, SSE_PATH, MESSAGES_PATH = "/persona/mcp", "/persona/sse", "/persona/messages"
_TOOLS = {
    "get_system_prompt": "Get the text that says who the agent is.",
    "bootstrap_session": "Begin a session: get its id and the text that says who the agent is.",
}
_INVALID_PARAMS = -32602


class Persona:
    """The server at its addresses, with either transport."""

    def __init__(self, state: State, hosting: Hosting) -> None:
        self._state = state
        self._hosting = hosting
        self._hosted = hosting.add(lambda: make_server(state))
        self._transport: SseServerTransport | None = None

    def routes(self) -> list[Route]:
        """The endpoints."""
        return [
            Route(PATH, McpEndpoint(self._state, self._hosting, self._admit)),
            Route(SSE_PATH, _App(self._sse), methods=["GET"]),
            Route(MESSAGES_PATH, _App(self._messages), methods=["POST"]),
        ]

    async def _admit(self, request: Request) -> tuple[Hosted, bool, bool, dict[str, Any]]:
        self._check(request)
        return self._hosted, True, False, {}

    def _check(self, request: Request) -> None:
        expected = f"Bearer {self._state.persona_token}".encode()
        if not hmac.compare_digest(request.headers.get("authorization", "").encode(), expected):
            raise GraphError(401, "Unauthorized", "The token is missing or wrong.", {"WWW-Authenticate": "Bearer"})

    async def _sse(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            server, transport = await self._hosted.server(), self._sse_transport()
            async with transport.connect_sse(scope, receive, send) as (read, write):
                await server.run(read, write, server.create_initialization_options())

        await self._guarded(Request(scope, receive), send, app)

    async def _messages(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await self._hosted.server()
            await self._sse_transport().handle_post_message(scope, receive, send)

        await self._guarded(Request(scope, receive), send, app)

    async def _guarded(self, request: Request, send: Send, app: Any) -> None:
        async def handle() -> Reply:
            try:
                self._check(request)
            except GraphError as error:
                return refusal(error)
            return Streamed(app)

        await guarded(self._state, self._hosting, request, send, handle)

    def _sse_transport(self) -> SseServerTransport:
        from mcp.server.sse import SseServerTransport

        if self._transport is None:
            self._transport = SseServerTransport(MESSAGES_PATH)
        return self._transport


class _App:
    """Makes Starlette take a method for a whole application, not for an endpoint that returns a response."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def make_server(state: State) -> Server[Any]:
    """The MCP server; what it says is looked up with every call."""
    import mcp_types as types
    from mcp.server.lowlevel import Server
    from mcp.shared.exceptions import MCPError

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        schema: dict[str, Any] = {"type": "object", "properties": {}}
        listed = [types.Tool(name=name, description=text, input_schema=schema) for name, text in _TOOLS.items()]
        return types.ListToolsResult(tools=listed)

    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name not in _TOOLS:
            raise MCPError(_INVALID_PARAMS, f"Unknown tool: '{params.name}'")
        text = state.persona_text
        if params.name == "bootstrap_session":
            text = json.dumps({"session_id": str(uuid4()), "system_prompt": text}, ensure_ascii=False)
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    return Server("persona", version="1.0.0", on_list_tools=list_tools, on_call_tool=call_tool)


def announcement(state: State) -> dict[str, str]:
    """What somebody needs to use it."""
    return {
        "url": state.base + PATH,
        "sse_url": state.base + SSE_PATH,
        "token": state.persona_token,
    }


def set_text(state: State, text: Any) -> dict[str, str]:
    """Change who the agent is. Raises ControlError."""
    if not isinstance(text, str):
        raise ControlError(400, "text must be a string.")
    state.persona_text = text
    return {"text": text}
