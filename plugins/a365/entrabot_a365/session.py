"""Sessions with one server: one at a time, kept open by a task of its own, made anew when it was lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio.to_thread

from entrabot_a365.errors import A365CallError
from entrabot_a365.failures import Again, Failure
from entrabot_a365.manifest import Server
from entrabot_a365.wire import CURRENT, MAX_BODY, Exchange, Passage, make_client

Opener = Callable[[], AbstractAsyncContextManager[Any]]
_MOST_PAGES = 20
_CLOSE_SECONDS = 1.0


def opener(server: Server, passage: Passage, seconds: float, ca_bundle: str) -> Opener:
    """Return what opens a session with a server. Raises `Failure`, or `EntrabotError` when it may have no token."""

    @asynccontextmanager
    async def open_session() -> AsyncIterator[Any]:
        await passage.check()
        exchange = Exchange()
        CURRENT.set(exchange)
        http = await anyio.to_thread.run_sync(make_client, passage, seconds, ca_bundle)

        from mcp.client import Client
        from mcp.client.streamable_http import streamable_http_client
        from mcp_types import Implementation

        transport = streamable_http_client(
            server.url, http_client=http, terminate_on_close=False, max_sse_event_size=MAX_BODY
        )
        client = Client(
            transport, mode="legacy", cache=None, client_info=Implementation(name="entrabot-a365", version="1")
        )
        async with http, AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(client)
            except Exception as error:  # the SDK wraps what went wrong, and the exchange knows it
                raise exchange.failure or _not_mcp(error) from None
            yield client.session

    return open_session


def _not_mcp(error: Exception) -> Failure:
    return Failure(A365CallError(f"The Work IQ server did not begin an MCP session ({type(error).__name__})."))


@dataclass(frozen=True)
class Answer:
    """What a server's tool returned: texts of its blocks, its structured content, base64 of what is no text."""

    texts: tuple[str, ...] = field(repr=False)
    structured: Any = field(default=None, repr=False)
    blobs: tuple[str, ...] = field(default=(), repr=False)
    is_error: bool = False


class Held:
    """One session, open until it is let go and nobody uses it any more."""

    def __init__(self, open_session: Opener, seconds: float) -> None:
        self._seconds = seconds
        self._opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._end = asyncio.Event()
        self._users = 0
        self._let_go = False
        self._tools: frozenset[str] | None = None
        self._listing = asyncio.Lock()
        self._calls: set[asyncio.Future[Any]] = set()
        self._owner = asyncio.create_task(self._run(open_session), name="a365:session")

    @property
    def usable(self) -> bool:
        """Whether a further call may use it."""
        return not self._let_go and not self._owner.done()

    @property
    def ended(self) -> bool:
        """Whether nothing of it is left."""
        return self._owner.done()

    def let_go(self) -> None:
        """Use it for no further call."""
        self._let_go = True
        if not self._users:
            self._end.set()

    async def aclose(self) -> None:
        """End it now, without network."""
        self._owner.cancel()
        for call in self._calls:
            call.cancel()
        await asyncio.wait({self._owner, *self._calls}, timeout=_CLOSE_SECONDS)

    @asynccontextmanager
    async def used(self) -> AsyncIterator[Held]:
        """Use it in the block. Raises why it could not be opened.

        One in which a call was given up is let go: the request may go on for ever, and ends with its session only.
        """
        self._users += 1
        try:
            await self._open()
            try:
                yield self
            except asyncio.CancelledError:
                self._let_go = True
                raise
        finally:
            self._users -= 1
            if self._let_go:
                self.let_go()

    async def _open(self) -> None:
        try:
            await asyncio.shield(self._opened)
        except Failure as failure:
            raise failure.before_the_call() from None

    async def _run(self, open_session: Opener) -> None:
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self._seconds):
                    session = await stack.enter_async_context(open_session())
                self._opened.set_result(session)
                await self._end.wait()
        except Exception as error:  # handed to those who wait; nothing of a session ends anything else
            if not self._opened.done():
                self._opened.set_exception(_reason(error))
                self._opened.exception()  # looked at, so that it is not reported where nobody waits any more
        finally:
            if not self._opened.done():
                self._opened.set_exception(_closed())
                self._opened.exception()

    # --- calls ------------------------------------------------------------------------------------------------------

    async def tools(self, *, anew: bool = False) -> frozenset[str]:
        """Return the names of the server's tools. Raises `Failure`."""
        async with self._listing:
            if self._tools is None or anew:
                try:
                    self._tools = frozenset(await self._list())
                except Failure as failure:
                    raise failure.before_the_call() from None
            return self._tools

    async def _list(self) -> list[str]:
        from mcp_types import PaginatedRequestParams

        session = self._opened.result()
        names: list[str] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            params = PaginatedRequestParams(cursor=cursor) if cursor else None
            page = await self._asked(session.list_tools, Exchange(), params=params)
            names += [tool.name for tool in page.tools]
            cursor = page.next_cursor
            if not cursor:
                break
        return names

    async def call(self, name: str, arguments: dict[str, Any], exchange: Exchange) -> Answer:
        """Call a tool. Raises `Failure`; MCPError passes."""
        from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult

        request = CallToolRequest(params=CallToolRequestParams(name=name, arguments=arguments))
        # Not `session.call_tool`: that also checks the answer against the tool's output schema, for nothing.
        return _answer(await self._asked(self._opened.result().send_request, exchange, request, CallToolResult))

    async def _asked(self, ask: Callable[..., Any], exchange: Exchange, *arguments: Any, **more: Any) -> Any:
        """Ask in a task of its own: giving up is not waited for, since telling the server of it takes time."""

        async def asking() -> Any:
            CURRENT.set(exchange)
            return await ask(*arguments, **more)

        call = asyncio.create_task(asking(), name="a365:call")
        self._calls.add(call)
        call.add_done_callback(self._ended)
        try:
            await asyncio.wait({call})
        finally:
            call.cancel()
        return _outcome(call, exchange)

    def _ended(self, call: asyncio.Future[Any]) -> None:
        self._calls.discard(call)
        if not call.cancelled():
            call.exception()  # looked at, as above


def _outcome(call: asyncio.Task[Any], exchange: Exchange) -> Any:
    import anyio
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED, PARSE_ERROR
    from pydantic import ValidationError

    if call.cancelled():
        raise _lost(exchange)
    error = call.exception()
    if error is None:
        return call.result()
    if exchange.failure is not None:
        raise exchange.failure
    if isinstance(error, MCPError) and error.code not in (CONNECTION_CLOSED, PARSE_ERROR):
        raise error
    if isinstance(error, MCPError) and error.code == CONNECTION_CLOSED:
        raise _lost(exchange)
    if isinstance(error, MCPError | ValidationError):
        raise Failure(A365CallError("The Work IQ server's answer makes no sense."), unknown=True)
    if isinstance(error, anyio.ClosedResourceError | anyio.BrokenResourceError | RuntimeError):
        raise _lost(exchange)
    raise error


def _lost(exchange: Exchange) -> Failure:
    error = A365CallError("The connection to the Work IQ server broke.", remedy="Try again.")
    again = Again.IF_IT_ONLY_READS if exchange.sent else Again.ALWAYS
    return Failure(error, again, unknown=exchange.sent, session_lost=True)


def _closed() -> Failure:
    return Failure(A365CallError("The server is shutting down.", remedy="Start it again."))


def _reason(error: Exception) -> BaseException:
    """Return what kept a session from being opened: the first of whatever the SDK wrapped."""
    first: BaseException = error
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    if isinstance(first, TimeoutError):
        error = A365CallError("The Work IQ server did not begin a session in time.", remedy="Try again.")
        return Failure(error, Again.ALWAYS)  # it was another call's time that ran out: this one may have some left
    return first


def _answer(result: Any) -> Answer:
    texts, blobs = [], []
    for block in result.content:
        held = getattr(block, "resource", block)
        if isinstance(text := getattr(held, "text", None), str):
            texts.append(text)
        elif isinstance(data := getattr(held, "blob", None) or getattr(held, "data", None), str):
            blobs.append(data)
    return Answer(tuple(texts), result.structured_content, tuple(blobs), bool(result.is_error))


class Sessions:
    """The sessions of one plugin: one for each server, opened when first needed."""

    def __init__(self, make_opener: Callable[[Server], Opener], seconds: float) -> None:
        self._make_opener = make_opener
        self._seconds = seconds
        self._held: dict[Server, Held] = {}
        self._ending: set[Held] = set()
        self._is_closed = False

    def of(self, server: Server) -> Held:
        """Return the server's session, which may be on its way. Raises `Failure` after `aclose`."""
        if self._is_closed:
            raise _closed()
        held = self._held.get(server)
        if held is None or not held.usable:
            self._forget(other for other in self._held if other.name == server.name)
            held = self._held[server] = Held(self._make_opener(server), self._seconds)
        return held

    def _forget(self, servers: Iterable[Server]) -> None:
        """Let go of what the manifest does not say any more, or what was lost."""
        self._ending = {held for held in self._ending if not held.ended}
        for server in list(servers):
            held = self._held.pop(server)
            self._ending.add(held)
            held.let_go()

    async def aclose(self) -> None:
        """End all sessions, without network."""
        self._is_closed = True
        held, self._held, self._ending = {*self._held.values(), *self._ending}, {}, set()
        await asyncio.gather(*(one.aclose() for one in held))
