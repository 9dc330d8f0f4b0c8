"""An MCP host driven by a script: the real `entrabot-mcp` as a child process, and the pushes it sends."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TextIO

from mcp.client import Client
from mcp.client.extension import ClientExtension, NotificationBinding
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import Implementation, TextContent
from pydantic import BaseModel

from entrabot_host.errors import EntrabotError

_CALL_SECONDS = 60.0


class ChannelParams(BaseModel):
    """The parameters of ``notifications/claude/channel``."""

    content: str
    meta: dict[str, str] = {}


class Channel(ClientExtension):
    """Collects pushes, as a host with channels does."""

    identifier = "com.example/channel"

    def __init__(self) -> None:
        self.pushes: asyncio.Queue[ChannelParams] = asyncio.Queue(1000)

    def notifications(self) -> list[NotificationBinding[Any]]:
        """Bind the one notification."""
        return [
            NotificationBinding(
                method="notifications/claude/channel", params_type=ChannelParams, handler=self.pushes.put
            )
        ]


class ToolFailed(EntrabotError):
    """A tool answered with an error; ``error`` is its error object."""

    def __init__(self, tool: str, error: Mapping[str, Any]) -> None:
        super().__init__(f"{tool}: {error.get('type')}: {error.get('message')}", remedy=str(error.get("remedy", "")))
        self.error = error


class ScriptedHost:
    """A connected client. ``client`` is the SDK's."""

    def __init__(self, client: Client, channel: Channel) -> None:
        self.client = client
        self._channel = channel

    async def call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool and return its data. Raises `ToolFailed`."""
        result = await self.client.call_tool(tool, arguments, read_timeout_seconds=_CALL_SECONDS)
        first = result.content[0]
        if not isinstance(first, TextContent):
            raise TypeError(f"{tool} answered with {first.type}")
        data = json.loads(first.text)
        if result.is_error:
            raise ToolFailed(tool, data["error"])
        return data

    async def next_push(self, timeout: float = 30.0) -> ChannelParams:
        """Return the next push. Raises `TimeoutError`."""
        async with asyncio.timeout(timeout):
            return await self._channel.pushes.get()

    @property
    def waiting_pushes(self) -> int:
        """How many pushes arrived that nobody has taken."""
        return self._channel.pushes.qsize()


@asynccontextmanager
async def launched(
    environment: Mapping[str, str],
    *,
    name: str = "claude-code",
    arguments: tuple[str, ...] = (),
    errlog: TextIO | None = None,
    mode: Any = "legacy",
) -> AsyncIterator[ScriptedHost]:
    """Launch ``entrabot-mcp`` with these settings and connect to it as the host ``name``."""
    parameters = StdioServerParameters(
        command=sys.executable, args=["-m", "entrabot_host.main", *arguments], env=dict(environment)
    )
    channel = Channel()
    client = Client(
        stdio_client(parameters, errlog=errlog or sys.stderr),
        client_info=Implementation(name=name, version="1.0"),
        extensions=[channel],
        mode=mode,
    )
    async with client:
        yield ScriptedHost(client, channel)
