"""The real server loop over streams in memory, in the test's own process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification

from entrabot_host.application import Application
from entrabot_host.clock import Clock
from entrabot_host.config import Config, Layer
from entrabot_host.discovery import Installed, installed_plugins
from entrabot_host.serve import run
from entrabot_host.testing.agent import Agent, Channel, client

_END_SECONDS = 10.0
_LOOK_SECONDS = 0.01
Chosen = str | object
"""A plugin: the name of an installed one, or a module (or object) with hook implementations."""


class MemoryTransport:
    """Implements `entrabot_host.serve.Transport` over the SDK's memory streams."""

    stalled = False

    def __init__(self, streams: Any) -> None:
        self.read_stream, self.write_stream = streams

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification."""
        message = JSONRPCNotification(jsonrpc="2.0", method=method, params=params)
        await self.write_stream.send(SessionMessage(message))


@asynccontextmanager
async def served(
    plugins: Sequence[Chosen],
    settings: Mapping[str, str],
    *,
    mode: str,
    name: str = "claude-code",
    clock: Clock | None = None,
) -> AsyncIterator[Agent]:
    """Assemble a server from ``plugins`` and connect to it. ``settings`` are its whole environment.

    Nothing rides along on results unless they set ``ENTRABOT_INBOX``.
    """
    environment = {"ENTRABOT_INBOX": "off", **settings}
    application = Application(Config([Layer("the test", environment)]), plugins=_installed(plugins), clock=clock)
    channel = Channel()
    async with create_client_server_memory_streams() as (client_streams, server_streams):
        serving = asyncio.create_task(run(application, MemoryTransport(server_streams)), name="entrabot:served")
        try:
            async with client(_Given(client_streams), channel, name=name, mode=mode) as connected:
                yield Agent(connected, channel)
                await _idle(application)
        finally:
            await _ended(serving)


async def _idle(application: Application) -> None:
    """Let what is under way end first: a connection that is cut while it is made is never closed by its library."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_END_SECONDS):
            while application.runtime.busy:  # noqa: ASYNC110 - derived from many states, none of which tells
                await asyncio.sleep(_LOOK_SECONDS)


class _Given:
    """Streams that exist already, as an SDK client transport."""

    def __init__(self, streams: Any) -> None:
        self._streams = streams

    async def __aenter__(self) -> Any:
        return self._streams

    async def __aexit__(self, *exception: object) -> None:
        for stream in self._streams:
            await stream.aclose()


async def _ended(serving: asyncio.Task[None]) -> None:
    """Wait for the server's own end, which comes with that of its input."""
    done, _ = await asyncio.wait({serving}, timeout=_END_SECONDS)
    if not done:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        raise AssertionError(f"The server did not end within {_END_SECONDS:g} seconds after its client.")
    serving.result()


def _installed(plugins: Sequence[Chosen]) -> list[Installed]:
    known = {plugin.name: plugin for plugin in installed_plugins()}
    if missing := [plugin for plugin in plugins if isinstance(plugin, str) and plugin not in known]:
        raise LookupError(
            f"No plugin {missing[0]!r} is installed ({', '.join(known) or 'none is'}); try: pip install -e ."
        )
    chosen = [known[plugin] if isinstance(plugin, str) else _from_object(plugin) for plugin in plugins]
    return sorted(chosen, key=lambda plugin: plugin.name)


def _from_object(plugin: object) -> Installed:
    name = str(getattr(plugin, "__name__", type(plugin).__name__)).removesuffix(".plugin").rsplit(".", 1)[-1]
    return Installed(name, "the test", "0", lambda: plugin)
