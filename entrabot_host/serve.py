"""Serving one client: transport, protocol, warm-up, the beginning and the end."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol, Self

from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCResponse

from entrabot_host.application import Application
from entrabot_host.lifecycle import Stop
from entrabot_host.protocol import Client, Outgoing, build_server
from entrabot_host.push import PushQueue
from entrabot_host.stdio import StdioTransport, Wire

log = logging.getLogger(__name__)
BEGIN_SECONDS = 3.0
"""A client that is still there after so long is no probe."""
LIST_SECONDS = 0.5
"""How long warming up waits for the client to ask for the tools, so as not to delay that answer."""


async def serve(stop: Stop, application: Application, wire: Wire) -> None:
    """Serve on ``wire`` until the client closes either pipe or ``stop`` is requested."""
    application.persona.adopt(stop.children)
    async with StdioTransport(wire, on_end=stop.request) as transport:
        stop.on_request(transport.abort_if_stalled)
        await run(application, transport)


class Transport(Protocol):
    """What `run` needs: the SDK's two streams, and a way to send notifications outside of a request."""

    @property
    def read_stream(self) -> Any:
        """Messages of the client."""
        ...

    @property
    def write_stream(self) -> Any:
        """Messages to the client."""
        ...

    @property
    def stalled(self) -> bool:
        """Whether the client is not reading now."""
        ...

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        """Write a notification; returns when it has left."""
        ...


class ObservedWrites:
    """The SDK's write stream, and what becomes of each result that carries people's messages."""

    def __init__(self, stream: Any, outgoing: Outgoing) -> None:
        self._stream = stream
        self._outgoing = outgoing

    async def send(self, item: SessionMessage, /) -> None:
        """Write one message; returns when it has left."""
        if not self._outgoing:
            await self._stream.send(item)
            return
        message = item.message
        request = message.id if isinstance(message, JSONRPCResponse | JSONRPCError) else None
        try:
            await self._stream.send(item)
        except asyncio.CancelledError:
            self._outgoing.lost(request, in_doubt=True)
            raise
        except Exception:
            self._outgoing.lost(request)
            raise
        if isinstance(message, JSONRPCResponse):
            self._outgoing.written(message.id)
        else:
            self._outgoing.lost(request)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stream.__aexit__(kind, error, trace)


async def run(application: Application, transport: Transport) -> None:
    """Serve over a transport until its read side ends."""
    client = Client()
    pushes = PushQueue(transport.notify, client.ready, lambda: transport.stalled)
    application.parts.connect(pushes, lambda: {"name": client.name, "ready_for_pushes": client.ready.is_set()})
    application.calls.carrier = application.parts.carrier
    application.delegated.tell = pushes.log
    server = build_server(application, client)
    starting = asyncio.create_task(_start(application, client), name="entrabot:start")
    options = server.create_initialization_options()
    writes = ObservedWrites(transport.write_stream, client.outgoing)
    serving = asyncio.create_task(server.run(transport.read_stream, writes, options))
    try:
        await asyncio.wait({serving, starting}, return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            await starting  # raises what makes serving on pointless: a strict operator's broken plugin
        await serving
    finally:
        for task in (serving, starting):
            task.cancel()
        await asyncio.gather(serving, starting, return_exceptions=True)
        await application.persona.aclose()
        await pushes.aclose()
        await application.runtime.aclose()


async def _start(application: Application, client: Client) -> None:
    """Warm up once the client has its first answers; begin what others can see once it has really begun."""
    loop = asyncio.get_running_loop()
    born = loop.time()
    await _first(client.first_answer, client.begun)  # a client may begin with a call, which waits for what starts here
    with suppress(TimeoutError):
        async with asyncio.timeout(LIST_SECONDS):
            await _first(client.listed, client.begun)
    warming = asyncio.create_task(application.runtime.warm_up(), name="entrabot:warm-up")
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(born + BEGIN_SECONDS):
                await client.begun.wait()
        await application.runtime.begin()
        await warming
    finally:
        warming.cancel()


async def _first(*events: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
