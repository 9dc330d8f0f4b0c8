"""The Work IQ servers at their addresses."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.routing import Route

from entrabot_sandbox.errors import GraphError
from entrabot_sandbox.mcp_hosting import Hosted, Hosting, McpEndpoint
from entrabot_sandbox.state import State
from entrabot_sandbox.work_iq_calls import Caller, Tool, ToolFailure, authenticate
from entrabot_sandbox.work_iq_files import ODSP_TOOLS, ONEDRIVE_TOOLS, SHAREPOINT_TOOLS
from entrabot_sandbox.work_iq_servers import SERVERS
from entrabot_sandbox.work_iq_word import TOOLS as WORD_TOOLS

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

CALLER = "entrabot_sandbox.caller"
TOOLS = {
    "mcp_WordServer": WORD_TOOLS,
    "mcp_SharePointRemoteServer": SHAREPOINT_TOOLS,
    "mcp_OneDriveRemoteServer": ONEDRIVE_TOOLS,
    "mcp_ODSPRemoteServer": ODSP_TOOLS,
}
INVALID_PARAMS = -32602


def routes(state: State, hosting: Hosting) -> list[Route]:
    """The addresses of every server, with and without the tenant."""
    hosted = {name: hosting.add(partial(make_server, state, name)) for name in SERVERS}

    async def admit(request: Request) -> tuple[Hosted, bool, bool, dict[str, Any]]:
        server = SERVERS.get(request.path_params["name"])
        tenant = request.path_params.get("tenant", state.agent.tenant.id).lower()
        if server is None or tenant != state.agent.tenant.id:
            raise GraphError(404, "NotFound", "There is no such MCP server.")
        caller = authenticate(state, server, request.headers.get("authorization", ""))
        settings = state.work_iq
        return hosted[server.name], settings.sessions, settings.json_next(), {CALLER: caller}

    endpoint = McpEndpoint(state, hosting, admit)
    return [
        Route("/agents/servers/{name}", endpoint),
        Route("/agents/tenants/{tenant}/servers/{name}", endpoint),
    ]


def make_server(state: State, name: str) -> Server[Any]:
    """The MCP server with the tools of one of the servers."""
    import mcp_types as types
    from mcp.server.lowlevel import Server
    from mcp.shared.exceptions import MCPError

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        names = state.work_iq.tool_names
        listed = [
            types.Tool(name=tool.called(names), description=tool.description, input_schema=tool.schema())
            for tool in TOOLS[name]
        ]
        return types.ListToolsResult(tools=listed)

    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool, given = _tool(state, name, params.name), params.arguments or {}
        if tool is None:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: '{params.name}'")
        texts, failed = await _outcome(tool, ctx.request.scope[CALLER], given)
        content: list[Any] = [types.TextContent(type="text", text=text) for text in texts]
        return types.CallToolResult(content=content, is_error=failed and state.work_iq.failures == "error")

    return Server(name, version="1.0.0", on_list_tools=list_tools, on_call_tool=call_tool)


def _tool(state: State, server: str, name: str) -> Tool | None:
    return next((tool for tool in TOOLS[server] if tool.called(state.work_iq.tool_names) == name), None)


async def _outcome(tool: Tool, caller: Caller, given: dict[str, Any]) -> tuple[list[str], bool]:
    """The texts of a result, and whether they tell of a failure."""
    wrong = tool.wrong_arguments(given)
    if wrong:
        return [wrong], True
    try:
        return await tool.run(caller, given), False
    except ToolFailure as failure:
        return [str(failure)], True
