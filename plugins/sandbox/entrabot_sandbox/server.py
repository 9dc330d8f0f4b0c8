"""The process: a loopback socket, TLS, and an end that leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from entrabot_sandbox.app import make_app
from entrabot_sandbox.certificates import make_authority, server_context
from entrabot_sandbox.mcp_hosting import Hosting
from entrabot_sandbox.people import describe_people
from entrabot_sandbox.persona import announcement as persona_announcement
from entrabot_sandbox.runtime import announced
from entrabot_sandbox.service import ABORT
from entrabot_sandbox.state import State

Announce = Callable[[dict[str, Any]], None]


class _Protocol(H11Protocol):
    """HTTP/1.1 that lets the application cut its connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        app = self.config.loaded_app

        async def with_abort(scope: Any, receive: Any, send: Any) -> None:
            scope[ABORT] = transport.abort
            await app(scope, receive, send)

        self.app = with_abort

    def shutdown(self) -> None:
        """At the end, cut an idle connection at once: TLS would wait for the other side's farewell."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()
        else:
            super().shutdown()


class _Server(uvicorn.Server):
    """uvicorn without its signal handling, which would raise the signal again at the end."""

    ready: asyncio.Event
    hosting: Hosting

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End what streams to clients first: its connections would be waited for."""
        await self.hosting.aclose()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def run(port: int, announce: Announce, *, until_stdin_closes: bool) -> int:
    """Serve until told to stop; ``announce`` gets the environment once connections are accepted. Returns 0."""
    signal.signal(signal.SIGTERM, _give_up)
    folder = Path(tempfile.mkdtemp(prefix="entrabot-sandbox-"))
    try:
        asyncio.run(_serve(port, folder, announce, until_stdin_closes))
    except KeyboardInterrupt:
        pass
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _give_up(number: int, frame: Any) -> None:
    """Until the server has its own way to stop: end, but not without tidying up."""
    raise KeyboardInterrupt


async def _serve(port: int, folder: Path, announce: Announce, until_stdin_closes: bool) -> None:
    # The protocol is named because asyncio turns Nagle's delay off only for sockets that say they are TCP.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with listener:
        listener.bind(("127.0.0.1", port))
        base = f"https://127.0.0.1:{listener.getsockname()[1]}"
        state = State(base, folder)
        token = secrets.token_urlsafe(32)
        authority = make_authority()
        ca_file = folder / "ca.pem"
        ca_file.write_bytes(authority.pem)
        files = _files_listener(state)
        hosting = Hosting()
        server = _make_server(make_app(state, token, hosting), authority, folder)
        server.hosting = hosting
        _stop_on_signals(server)
        if until_stdin_closes:
            _stop_at_end_of_input(server)
        announcement: dict[str, Any] = {
            "environment": state.environment(ca_file),
            "control": {"url": f"{base}/_control", "token": token, "ca_bundle": str(ca_file)},
            "people": describe_people(state),
            "persona": persona_announcement(state),
            "delegated": state.delegated(),
        }
        with announced(announcement["control"]):
            await _serve_and_announce(server, [listener, files], lambda: announce(announcement))


def _files_listener(state: State) -> socket.socket:
    """Listen on another port too: to a client it is another origin, as SharePoint's own addresses are to Graph."""
    files = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    files.bind(("127.0.0.1", 0))
    state.set_files_origin(f"https://127.0.0.1:{files.getsockname()[1]}")
    return files


def _make_server(app: Any, authority: Any, folder: Path) -> _Server:
    config = uvicorn.Config(
        app,
        http=_Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=1,
    )
    logging.getLogger("uvicorn").addHandler(logging.StreamHandler(sys.stderr))
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    config.load()
    config.ssl = server_context(authority, folder)
    return _Server(config)


async def _serve_and_announce(server: _Server, listeners: list[socket.socket], announce: Callable[[], None]) -> None:
    server.ready = asyncio.Event()
    serving = asyncio.create_task(server.serve(sockets=listeners))
    ready = asyncio.create_task(server.ready.wait())
    await asyncio.wait([serving, ready], return_when=asyncio.FIRST_COMPLETED)
    if server.ready.is_set():
        announce()
    ready.cancel()
    await serving


def _stop_on_signals(server: _Server) -> None:
    def stop() -> None:
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, stop)
        except NotImplementedError:
            signal.signal(number, lambda *_: stop())


def _stop_at_end_of_input(server: _Server) -> None:
    def watch() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        server.should_exit = True

    threading.Thread(target=watch, name="end of input", daemon=True).start()
