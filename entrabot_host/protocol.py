"""The MCP face of the assembled server, on the SDK's public lowlevel `Server`.

The high-level server validates arguments outside our wrappers, repeats rejected values, ignores unknown arguments and
sends every answer twice; the lowlevel one leaves all of it to us.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from entrabot_host.assembly import AssembledTool
from entrabot_host.calls import Answer, Calls, unknown_tool
from entrabot_host.delivery.cargo import Cargo
from entrabot_host.listing import listed
from entrabot_host.prompt.body import PROMPT_NAME, RESOURCE_URI, Instructions
from entrabot_host.tools import Image

CHANNEL_CAPABILITY = "claude/channel"
_PASSIVE = frozenset(
    {
        "initialize",
        "server/discover",
        "ping",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
    }
)
"""Requests of a client that may only be probing."""


class Offer(Protocol):
    """What a server shows and runs."""

    version: str
    tools: Mapping[str, AssembledTool]
    calls: Calls

    async def current_instructions(self) -> Instructions:
        """The instructions for a client that asks now."""
        ...


class Outgoing:
    """The cargoes of results that are on their way out, by the ids of their requests."""

    def __init__(self) -> None:
        self._cargoes: dict[types.RequestId, Cargo] = {}

    def __bool__(self) -> bool:
        return bool(self._cargoes)

    def add(self, request: types.RequestId | None, cargo: Cargo) -> None:
        """The result of this request will carry these messages."""
        if request is None:
            cargo.lost()
            return
        self.lost(request)  # a client that uses an id twice gets only one of the answers
        self._cargoes[request] = cargo

    def written(self, request: types.RequestId) -> None:
        """The result has left for the client."""
        if cargo := self._cargoes.pop(request, None):
            cargo.shown()

    def lost(self, request: types.RequestId | None, *, in_doubt: bool = False) -> None:
        """No result will be written, or it is not known whether it was."""
        if request is not None and (cargo := self._cargoes.pop(request, None)):
            cargo.lost(in_doubt=in_doubt)


@dataclass
class Client:
    """The one client of this process, as far as its messages tell.

    first_answer: a request was handled. ready: it can take notifications. begun: it has really begun, so work that
    others can see may start. listed: it knows the tools, so warming up no longer delays it. outgoing: results under
    way to it.
    """

    name: str = ""
    first_answer: asyncio.Event = field(default_factory=asyncio.Event)
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    listed: asyncio.Event = field(default_factory=asyncio.Event)
    outgoing: Outgoing = field(default_factory=Outgoing)

    def saw(self, method: str, params: Mapping[str, Any] | None, *, is_request: bool) -> None:
        """Learn from one message, before it is handled."""
        meta = (params or {}).get("_meta")
        envelope: Mapping[str, Any] = meta if isinstance(meta, Mapping) else {}
        modern = types.PROTOCOL_VERSION_META_KEY in envelope
        introduced = envelope.get(types.CLIENT_INFO_META_KEY) if modern else None
        if method == "initialize":
            introduced = (params or {}).get("clientInfo")
        if isinstance(introduced, Mapping) and isinstance(introduced.get("name"), str):
            self.name = introduced["name"].strip().lower()[:100]
        if method == "notifications/initialized" or (is_request and modern):
            self.ready.set()
        if is_request and method not in _PASSIVE:
            self.begun.set()

    def answered(self, method: str) -> None:
        """Learn that a request of this kind was handled."""
        self.first_answer.set()
        if method == "tools/list":
            self.listed.set()


def build_server(offer: Offer, client: Client) -> Server[None]:
    """Make the SDK server that shows ``offer`` and reports what it sees to ``client``."""
    offered = types.ListToolsResult(tools=[types.Tool.model_validate(listed(tool)) for tool in offer.tools.values()])
    known = sorted(offer.tools)

    async def list_tools(ctx: ServerRequestContext[None], params: Any) -> types.ListToolsResult:
        return offered

    async def call_tool(ctx: ServerRequestContext[None], params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = offer.tools.get(params.name)
        if tool is None:
            return _result(unknown_tool(params.name, known))
        answer = await offer.calls.run(tool, params.arguments or {}, RequestContext(ctx, client))
        if answer.cargo is not None:
            client.outgoing.add(ctx.request_id, answer.cargo)
        return _result(answer)

    server: Server[None] = Server(
        "entrabot",
        version=offer.version,
        title="Entrabot",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=_list_prompts,
        on_get_prompt=_get_prompt(offer),
        on_list_resources=_list_resources,
        on_read_resource=_read_resource(offer),
    )
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, _set_level)
    server.middleware.append(_Observer(offer, client))
    return server


async def _set_level(ctx: Any, params: types.SetLevelRequestParams) -> types.EmptyResult:
    """Take note that the client wants log messages; the few that there are it gets at any level."""
    return types.EmptyResult()


class _Observer:
    """Sees every message, in both protocol eras: the only place from which both are told of channels and instructions.

    The instructions are made when they are asked for, since a persona may have to come first.
    """

    def __init__(self, offer: Offer, client: Client) -> None:
        self._offer = offer
        self._client = client

    async def __call__(self, ctx: ServerRequestContext[None, Any], call_next: CallNext) -> HandlerResult:
        self._client.saw(ctx.method, ctx.params, is_request=ctx.request_id is not None)
        try:
            result = await call_next(ctx)
            if ctx.method in ("initialize", "server/discover") and isinstance(result, dict):
                await self._introduce(result)
        except BaseException:
            self._client.outgoing.lost(ctx.request_id)
            raise
        if ctx.request_id is not None:
            self._client.answered(ctx.method)
        return result

    async def _introduce(self, result: dict[str, Any]) -> None:
        """Add to the server's answer about itself."""
        capabilities = dict(result.get("capabilities") or {})
        capabilities["experimental"] = {**(capabilities.get("experimental") or {}), CHANNEL_CAPABILITY: {}}
        result["capabilities"] = capabilities
        result["instructions"] = (await self._offer.current_instructions()).text


@dataclass(frozen=True)
class RequestContext:
    """Implements `entrabot_host.ToolContext` for one request."""

    _request: ServerRequestContext[None]
    _client: Client
    call_id: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def client_name(self) -> str:
        """The MCP host's name."""
        return self._client.name

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress; the SDK drops it when the client gave no token."""
        await self._request.session.report_progress(progress, total, message)


def _result(answer: Answer) -> types.CallToolResult:
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=answer.text)]
    content += [_image(image) for image in answer.images]
    if answer.aside:
        content.append(types.TextContent(type="text", text=answer.aside))
    return types.CallToolResult(content=content, is_error=answer.is_error)


def _image(image: Image) -> types.ImageContent:
    import base64

    return types.ImageContent(type="image", data=base64.b64encode(image.data).decode(), mime_type=image.media_type)


# --- the instructions as a prompt and as a resource: some hosts never show them to the model ------------------------

_PROMPT = types.Prompt(
    name=PROMPT_NAME, title="Entrabot: instructions", description="The full instructions of this server."
)
_RESOURCE = types.Resource(
    name=PROMPT_NAME,
    title="Entrabot: instructions",
    uri=RESOURCE_URI,
    description="The full instructions of this server.",
    mime_type="text/markdown",
)


async def _list_prompts(ctx: Any, params: Any) -> types.ListPromptsResult:
    return types.ListPromptsResult(prompts=[_PROMPT])


async def _list_resources(ctx: Any, params: Any) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=[_RESOURCE])


def _get_prompt(offer: Offer) -> Any:
    async def get(ctx: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        if params.name != PROMPT_NAME:
            raise MCPError(types.INVALID_PARAMS, f"The only prompt is {PROMPT_NAME!r}.")
        instructions = await offer.current_instructions()
        text = types.TextContent(type="text", text=instructions.text)
        return types.GetPromptResult(
            description=_PROMPT.description, messages=[types.PromptMessage(role="user", content=text)]
        )

    return get


def _read_resource(offer: Offer) -> Any:
    async def read(ctx: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        if str(params.uri) != RESOURCE_URI:
            raise MCPError(types.INVALID_PARAMS, f"The only resource is {RESOURCE_URI}.")
        instructions = await offer.current_instructions()
        contents = types.TextResourceContents(uri=RESOURCE_URI, mime_type="text/markdown", text=instructions.text)
        return types.ReadResourceResult(contents=[contents])

    return read
