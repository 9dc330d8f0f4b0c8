"""A client connected to a server: what a test does as the agent's MCP host."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from mcp.client import Client
from mcp.client.extension import ClientExtension, NotificationBinding
from mcp_types import Implementation, TextContent
from pydantic import BaseModel, Field

from entrabot_host.errors import EntrabotError
from entrabot_host.push import CHANNEL_METHOD

CALL_SECONDS = 60.0


class Push(BaseModel):
    """The parameters of ``notifications/claude/channel``."""

    content: str
    meta: dict[str, str] = Field(default_factory=dict)


class Channel(ClientExtension):
    """Collects pushes, as a host with channels does."""

    identifier = "com.example/channel"

    def __init__(self) -> None:
        self.pushes: asyncio.Queue[Push] = asyncio.Queue(10_000)

    def notifications(self) -> list[NotificationBinding[Any]]:
        """Bind the one notification."""
        return [NotificationBinding(method=CHANNEL_METHOD, params_type=Push, handler=self.pushes.put)]


class ToolFailed(EntrabotError):
    """A tool answered with an error; ``error`` is its error object."""

    def __init__(self, tool: str, error: Mapping[str, Any]) -> None:
        super().__init__(f"{tool}: {error.get('type')}: {error.get('message')}", remedy=str(error.get("remedy", "")))
        self.error = error


class Agent:
    """A connected client. ``client`` is the SDK's."""

    def __init__(self, client: Client, channel: Channel) -> None:
        self.client = client
        self._channel = channel

    async def call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool and return its data. Raises `ToolFailed`."""
        result = await self.client.call_tool(tool, arguments, read_timeout_seconds=CALL_SECONDS)
        first = result.content[0]
        if not isinstance(first, TextContent):
            raise TypeError(f"{tool} answered with {first.type}")
        data = json.loads(first.text)
        if result.is_error:
            raise ToolFailed(tool, data["error"])
        return data

    async def tools(self) -> list[str]:
        """Return the names of the tools on offer."""
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def next_push(self, timeout: float = 30.0) -> Push:
        """Return the next push. Raises `TimeoutError`."""
        async with asyncio.timeout(timeout):
            return await self._channel.pushes.get()

    @property
    def waiting_pushes(self) -> int:
        """How many pushes arrived that nobody has taken."""
        return self._channel.pushes.qsize()


def client(transport: Any, channel: Channel, *, name: str, mode: Any) -> Client:
    """Make the SDK's client: ``mode`` is ``"legacy"`` or a modern protocol version."""
    return Client(
        transport,
        client_info=Implementation(name=name, version="1.0"),
        extensions=[channel],
        mode=mode,
    )
