"""The real ``entrabot-mcp`` as a child process, with a client connected to it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TextIO

from mcp.client.stdio import StdioServerParameters, stdio_client

from entrabot_host.testing.agent import Agent, Channel, client


@asynccontextmanager
async def launched(
    environment: Mapping[str, str],
    *,
    name: str = "claude-code",
    arguments: tuple[str, ...] = (),
    errlog: TextIO | None = None,
    mode: Any = "legacy",
) -> AsyncIterator[Agent]:
    """Launch the server with these settings and connect to it as the host ``name``."""
    parameters = StdioServerParameters(
        command=sys.executable, args=["-P", "-m", "entrabot_host.main", *arguments], env=dict(environment)
    )
    channel = Channel()
    transport = stdio_client(parameters, errlog=errlog or sys.stderr)
    async with client(transport, channel, name=name, mode=mode) as connected:
        yield Agent(connected, channel)
