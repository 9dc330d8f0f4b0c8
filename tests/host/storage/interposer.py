"""A TLS server between a backend and the emulator that refuses, hangs, breaks off, or delivers late."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web

from tests.host.storage.azurite import ACCOUNT, Azurite

Fault = Callable[["Interposer", web.Request, bytes], "asyncio.Future[web.StreamResponse]"]


@dataclass
class Interposer:
    """faults: what happens to the next requests that ``applies`` takes, first to last; the rest is passed on."""

    azurite: Azurite
    client: aiohttp.ClientSession
    endpoint: str = ""
    applies: Callable[[web.Request], bool] = lambda request: True
    faults: list[Fault] = field(default_factory=list)
    always: Fault | None = None
    late: list[tuple[web.Request, bytes]] = field(default_factory=list)
    seen: list[tuple[str, str, str]] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.seen.append((request.method, request.path_qs, request.headers.get("Authorization", "")))
        fault = self.always
        if fault is None and self.faults and self.applies(request):
            fault = self.faults.pop(0)
        return await (fault or passed)(self, request, body)

    async def forward(self, request: web.Request, body: bytes) -> web.Response:
        origin = self.azurite.endpoint.removesuffix(f"/{ACCOUNT}")
        headers = {k: v for k, v in request.headers.items() if k not in ("Host", "Content-Length", "Transfer-Encoding")}
        async with self.client.request(request.method, origin + request.path_qs, headers=headers, data=body) as answer:
            content = await answer.read()
            kept = {k: v for k, v in answer.headers.items() if k not in ("Transfer-Encoding", "Connection")}
            if request.method != "HEAD":
                kept.pop("Content-Length", None)
            return web.Response(status=answer.status, headers=kept, body=content)


async def passed(between: Interposer, request: web.Request, body: bytes) -> web.StreamResponse:
    """Pass it on."""
    return await between.forward(request, body)


def answers(status: int, code: str = "", **headers: str) -> Fault:
    """Answer it with an error, and pass nothing on."""

    async def fault(between: Interposer, request: web.Request, body: bytes) -> web.StreamResponse:
        text = f'<?xml version="1.0" encoding="utf-8"?><Error><Code>{code}</Code><Message>No.</Message></Error>'
        more = {"x-ms-error-code": code, "x-ms-request-id": "request-1", **headers}
        return web.Response(status=status, headers=more, text=text, content_type="application/xml")

    return fault  # type: ignore[return-value]


async def hangs(between: Interposer, request: web.Request, body: bytes) -> web.StreamResponse:
    """Never answer, until the end."""
    await between.over.wait()
    return await breaks(between, request, body)


async def breaks(between: Interposer, request: web.Request, body: bytes) -> web.StreamResponse:
    """Break the connection off, and pass nothing on."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def done_but_breaks(between: Interposer, request: web.Request, body: bytes) -> web.StreamResponse:
    """Pass it on, then break the connection off instead of answering."""
    await between.forward(request, body)
    return await breaks(between, request, body)


async def done_but_503(between: Interposer, request: web.Request, body: bytes) -> web.StreamResponse:
    """Pass it on, but answer that it failed."""
    await between.forward(request, body)
    return await answers(503, "ServerBusy")(between, request, body)


async def kept_for_later(between: Interposer, request: web.Request, body: bytes) -> web.StreamResponse:
    """Answer that it failed, and keep it."""
    between.late.append((request, body))
    return await answers(500, "InternalError")(between, request, body)


async def late_ones_first(between: Interposer, request: web.Request, body: bytes) -> web.StreamResponse:
    """Deliver what was kept, then this."""
    while between.late:
        await between.forward(*between.late.pop(0))
    return await between.forward(request, body)


@asynccontextmanager
async def interposed(azurite: Azurite) -> AsyncIterator[Interposer]:
    """Run one with the emulator's own certificate."""
    certificate = Path(azurite.ca_bundle)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    trust = ssl.create_default_context(cafile=certificate)
    connector = aiohttp.TCPConnector(ssl=trust)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as client:
        between = Interposer(azurite, client)
        application = web.Application(client_max_size=1 << 30)
        application.router.add_route("*", "/{path:.*}", between.handle)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        host, port = runner.addresses[0][:2]
        between.endpoint = f"https://{host}:{port}/{ACCOUNT}"
        try:
            yield between
        finally:
            between.over.set()
            await runner.cleanup()
