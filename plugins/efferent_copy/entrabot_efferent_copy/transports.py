"""Sessions with peers over stdio, SSE and streamable HTTP, and the question whether a peer observes."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from entrabot_efferent_copy.channel import NotAnObserver, SessionLost
from entrabot_efferent_copy.peers import DISABLE, Peer

_MOST_PAGES = 20
_MEMBERS = 16


def session_factory(peer: Peer, *, probe: bool = False) -> Callable[[], AbstractAsyncContextManager[Any]]:
    """Return what opens a session with the peer. probe: raise `NotAnObserver` if it offers no compatible observe."""

    @asynccontextmanager
    async def open_session() -> AsyncIterator[McpSession]:
        from mcp.client import Client
        from mcp_types import Implementation

        with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: ASYNC230 - it has no disk to wait for
            client = Client(
                _transport(peer, nowhere),
                # The handshake is what every server speaks today and is half the cost per call on stdio. Over HTTP
                # the newer protocol is the cheaper one, and asking for it costs one request.
                mode="auto" if peer.transport == "http" else "legacy",
                client_info=Implementation(name="entrabot-efferent-copy", version="1"),
            )
            async with client:
                session = McpSession(client.session)
                if probe and not await _has_compatible_observe(session):
                    raise NotAnObserver('it offers no tool "observe" that takes tool_name and args')
                yield session

    return open_session


def _transport(peer: Peer, nowhere: Any) -> Any:
    if peer.transport == "sse":
        from mcp.client.sse import sse_client

        return sse_client(peer.url, headers=dict(peer.headers))
    if peer.transport == "http":
        return _http(peer)
    from mcp.client.stdio import StdioServerParameters, stdio_client

    parameters = StdioServerParameters(
        command=peer.command,
        args=list(peer.args),
        env={**peer.env, DISABLE: "1"},  # last: a peer that is ourselves after all must not look for peers of its own
        cwd=peer.cwd or None,
        encoding_error_handler="replace",
    )
    # Its standard error goes nowhere: our own belongs to the host, and a pipe that is not read would stall the peer.
    return stdio_client(parameters, errlog=nowhere)


@asynccontextmanager
async def _http(peer: Peer) -> AsyncIterator[Any]:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    async with (
        httpx2.AsyncClient(headers=dict(peer.headers), timeout=httpx2.Timeout(30.0, read=300.0)) as client,
        streamable_http_client(peer.url, http_client=client) as streams,
    ):
        yield streams


class McpSession:
    """A session of the SDK, with its failures sorted: lost, or merely refused."""

    def __init__(self, session: Any) -> None:
        self._session = session

    async def list_tools(self, **arguments: Any) -> Any:
        """Return one page of the peer's tools."""
        from mcp_types import PaginatedRequestParams

        return await self._session.list_tools(params=PaginatedRequestParams(**arguments) if arguments else None)

    async def call_tool(self, name: str, payload: dict[str, Any]) -> None:
        """Call a tool and wait for its answer. Raises `SessionLost`, or `RuntimeError` when the tool refused."""
        import anyio
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST, CallToolRequest, CallToolRequestParams, CallToolResult

        request = CallToolRequest(params=CallToolRequestParams(name=name, arguments=payload))
        try:
            # Not `session.call_tool`: that also checks the answer against the tool's output schema, for nothing.
            answer = await self._session.send_request(request, CallToolResult)
        except MCPError as error:
            # An HTTP server that was restarted no longer knows the session and calls the request invalid.
            if error.code in (CONNECTION_CLOSED, INVALID_REQUEST):
                raise SessionLost(str(error)) from error
            raise
        except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            raise SessionLost("the connection is closed") from error
        if answer.is_error:
            raise RuntimeError(f"it refused: {_first_text(answer)}")


def _first_text(answer: Any) -> str:
    return str(getattr(answer.content[0], "text", ""))[:200] if answer.content else "without a reason"


async def _has_compatible_observe(session: Any) -> bool:
    """Whether ``tools/list`` shows an ``observe`` with ``tool_name`` (string) and ``args`` (takes an object)."""
    page = await session.list_tools()
    for _ in range(_MOST_PAGES):
        for tool in page.tools:
            if tool.name == "observe":
                return _is_compatible(getattr(tool, "input_schema", None) or getattr(tool, "inputSchema", None))
        cursor = getattr(page, "next_cursor", None)
        if not isinstance(cursor, str) or not cursor:
            return False
        page = await session.list_tools(cursor=cursor)
    return False


def _is_compatible(schema: Any) -> bool:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or not {"tool_name", "args"} <= set(properties):
        return False
    return _takes(properties["tool_name"], "string", schema) and _takes(properties["args"], "object", schema, open=True)


def _takes(part: Any, kind: str, root: dict[str, Any], *, open: bool = False, depth: int = 0) -> bool:
    """Whether a schema admits values of ``kind``. open: one that names no type counts, too."""
    if part is True:
        return open
    if not isinstance(part, dict) or depth > _MEMBERS:
        return False
    if isinstance(reference := part.get("$ref"), str):
        return _takes(_resolved(reference, root), kind, root, open=open, depth=depth + 1)
    for union in ("anyOf", "oneOf"):
        if isinstance(members := part.get(union), list):
            return any(_takes(member, kind, root, open=open, depth=depth + 1) for member in members)
    if isinstance(members := part.get("allOf"), list) and members and "type" not in part:
        return all(_takes(member, kind, root, open=open, depth=depth + 1) for member in members)
    types = part.get("type")
    if types is None:
        return open and "enum" not in part and "const" not in part
    return kind in types if isinstance(types, list) else types == kind


def _resolved(reference: str, root: dict[str, Any]) -> Any:
    part: Any = root
    for step in reference.removeprefix("#/").split("/"):
        part = part.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(part, dict) else None
    return part
