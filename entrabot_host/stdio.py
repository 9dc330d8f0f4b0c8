"""The MCP transport over standard input and output, on the event loop and cancellable at any moment.

`claim_descriptors` comes first, before any plugin is imported. `StdioTransport` then offers the two streams that the
SDK's serving loops want. The SDK itself is imported with the first message, not before::

    wire = claim_descriptors()
    ...
    async with StdioTransport(wire, on_end=stop.request) as transport:
        stop.on_request(transport.abort_if_stalled)
        await serve_dual_era_loop(server, transport.read_stream, transport.write_stream, lifespan_state=state)
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from entrabot_host.wire.descriptors import Wire, claim_descriptors
from entrabot_host.wire.lines import LineSplitter, Overlong
from entrabot_host.wire.pipes import (
    EndOfLines,
    LineReader,
    LineWriter,
    TransportClosed,
    open_reader,
    open_writer,
    same_file,
)

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage
    from mcp_types import JSONRPCMessage, RequestId

__all__ = ["LINE_LIMIT", "StdioTransport", "TransportClosed", "Wire", "claim_descriptors"]

LINE_LIMIT: Final = 96 * 1024 * 1024
"""Longest line read, in bytes: an upload of 64 MiB in base64 with room to spare."""

_LONG_LINE: Final = 1024 * 1024  # bytes
_WAITING_LINES: Final = 64
_SETTLE_SECONDS: Final = 0.25
_STALL_SECONDS: Final = 0.5
_FINISH_SECONDS: Final = 0.2


class StdioTransport:
    """One connection to the host, as an async context manager.

    Lines longer than ``line_limit`` bytes are skipped and answered with an error. ``on_answer(method)`` is called
    whenever a response has left, with the method of its request. ``on_end(reason)`` is called once, when the host has
    closed either pipe; the read stream ends then too. ``settle_seconds`` is how long requests that are still open at
    the end of input may take to be answered before the read stream ends. A host that has closed its input and reads
    nothing for ``stall_seconds`` is given up.
    """

    def __init__(
        self,
        wire: Wire,
        *,
        on_answer: Callable[[str], None] | None = None,
        on_end: Callable[[str], None] | None = None,
        line_limit: int = LINE_LIMIT,
        waiting_lines: int = _WAITING_LINES,
        settle_seconds: float = _SETTLE_SECONDS,
        stall_seconds: float = _STALL_SECONDS,
    ) -> None:
        self.read_stream: Final = _ReadStream(self)
        self.write_stream: Final = _WriteStream(self)
        self.line_limit: Final = line_limit
        self._wire = wire
        self._waiting_lines = waiting_lines
        self._on_answer = on_answer
        self._on_end = on_end
        self._settle_seconds = settle_seconds
        self._stall_seconds = stall_seconds
        self._open_requests: dict[RequestId, str] = {}
        self._all_answered = asyncio.Event()
        self._closed = asyncio.Event()
        self._reader: LineReader | None = None
        self._writer: LineWriter | None = None
        self._stall_check: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        fds, shared = self._wire, same_file(*self._wire)
        splitter = LineSplitter(self.line_limit)
        self._writer = await open_writer(fds.write_fd, self._writer_lost, self._writer_full, shared=shared)
        self._reader = await open_reader(fds.read_fd, splitter, self._waiting_lines, shared=shared)
        if self._closed.is_set():
            self._reader.hang_up()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._on_end = None
        if self._stall_check is not None:
            self._stall_check.cancel()
        try:
            if self._writer is not None:
                await self._writer.finish(_FINISH_SECONDS)
        finally:
            self.abort()

    @property
    def stalled(self) -> bool:
        """Whether the host is not reading right now: a line is waiting for room in the pipe."""
        return self._writer is not None and self._writer.stalled

    @property
    def closed(self) -> bool:
        """Whether the pipe to the host is gone."""
        return self._closed.is_set()

    async def wait_closed(self) -> None:
        """Wait until the pipe to the host is gone."""
        await self._closed.wait()

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send one notification; returns when its line has left for the host.

        Cancelled before its turn came, the notification is not sent; cancelled while its line is on the way, it is.

        Raises:
            TransportClosed: the host is gone.
        """
        from mcp_types import JSONRPCNotification

        await self.send(JSONRPCNotification(jsonrpc="2.0", method=method, params=params))

    async def send(self, message: JSONRPCMessage) -> None:
        """Send one message; returns when its line has left for the host.

        Raises:
            TransportClosed: the host is gone.
        """
        from entrabot_host.wire.jsonrpc import encode

        if self._writer is None:
            raise TransportClosed("the transport was not entered")
        await self._writer.send(encode(message), self._after(message))

    async def receive(self) -> SessionMessage:
        """Return the next valid message; broken lines are answered on the way.

        Raises:
            EndOfLines: the host has closed its end.
        """
        from mcp.shared.message import SessionMessage

        from entrabot_host.wire.jsonrpc import InvalidLineError

        while True:
            try:
                message = await self._next_message()
            except InvalidLineError as error:
                await self._answer_broken(error)
                await asyncio.sleep(0)  # a flood of broken lines must not keep the loop for itself
                continue
            self._note_received(message)
            return SessionMessage(message)

    def abort_if_stalled(self) -> None:
        """Give the host up if it is not reading, so that nothing waits for it while the server stops."""
        if self.stalled:
            self.abort()

    def abort(self) -> None:
        """Give the host up at once: pending and later sends fail, the read stream ends."""
        if self._writer is not None:
            self._writer.abort()
        if self._reader is not None:
            self._reader.hang_up()

    async def _next_message(self) -> JSONRPCMessage:
        from entrabot_host.wire.jsonrpc import overlong, parse, to_message

        line = await self._next_line()
        if isinstance(line, Overlong):
            raise overlong(self.line_limit)
        if len(line) > _LONG_LINE:
            await asyncio.sleep(0)  # parsing it holds the loop: whoever is due goes first
        box = [line]
        del line
        return to_message(parse(box.pop()))  # the line is freed before its value is validated: it may be 96 MiB

    async def _next_line(self) -> bytes | Overlong:
        """Return the next line that is not blank."""
        assert self._reader is not None
        try:
            while True:
                line = await self._reader.next()
                if isinstance(line, Overlong) or not (line.isspace() or line == b""):
                    return line
        except EndOfLines:
            await self._settle()
            self._report_end("end of input")
            raise

    async def _answer_broken(self, error: Any) -> None:
        try:
            await self.send(error.answer)
        except TransportClosed:
            return  # the read stream ends by itself

    def _note_received(self, message: JSONRPCMessage) -> None:
        from mcp_types import JSONRPCNotification, JSONRPCRequest

        if isinstance(message, JSONRPCRequest):
            self._open_requests[message.id] = message.method
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._close_request((message.params or {}).get("requestId"))

    def _after(self, message: JSONRPCMessage) -> Callable[[], None] | None:
        from mcp_types import JSONRPCError, JSONRPCResponse

        if not isinstance(message, JSONRPCResponse | JSONRPCError) or message.id is None:
            return None
        request_id = message.id

        def answered() -> None:
            method = self._close_request(request_id)
            if self._on_answer is not None:
                self._on_answer(method)

        return answered

    def _close_request(self, request_id: Any) -> str:
        method = self._open_requests.pop(request_id, "") if isinstance(request_id, str | int) else ""
        if not self._open_requests:
            self._all_answered.set()
        return method

    async def _settle(self) -> None:
        """Give open requests a moment: requests piped in from a file or a script end before they are answered."""
        if not self._open_requests or self.closed:
            return
        self._all_answered.clear()
        try:
            async with asyncio.timeout(self._settle_seconds):
                await self._all_answered.wait()
        except TimeoutError:
            return

    def _writer_lost(self) -> None:
        self._closed.set()
        self._all_answered.set()
        if self._reader is not None:
            self._reader.hang_up()
        self._report_end("output closed")

    def _report_end(self, reason: str) -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(reason)

    def _writer_full(self) -> None:
        if self._stall_check is None:
            self._check_stall_later()

    def _check_stall_later(self) -> None:
        assert self._writer is not None
        loop = asyncio.get_running_loop()
        self._stall_check = loop.call_later(self._stall_seconds, self._check_stall, self._writer.written)

    def _check_stall(self, written_before: int) -> None:
        """End the wait for a host that hung up without reading; reading may be paused, and not see the end itself."""
        assert self._writer is not None
        self._stall_check = None
        if not self.stalled:
            return
        if self._writer.written == written_before and self._has_hung_up():
            self.abort()
        else:
            self._check_stall_later()

    def _has_hung_up(self) -> bool:
        assert self._reader is not None
        if self._reader.ended or not hasattr(select, "poll"):
            return self._reader.ended
        poll = select.poll()
        poll.register(self._wire.read_fd, 0)
        return any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(0))


class _ReadStream:
    """The SDK's view of the input. One consumer at a time."""

    def __init__(self, transport: StdioTransport) -> None:
        self._transport = transport
        self._is_closed = False

    async def receive(self) -> SessionMessage | Exception:
        import anyio
        import anyio.lowlevel

        if self._is_closed:
            raise anyio.ClosedResourceError
        await anyio.lowlevel.checkpoint()
        try:
            return await self._transport.receive()
        except EndOfLines:
            raise anyio.EndOfStream from None

    async def aclose(self) -> None:
        self._is_closed = True

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        import anyio

        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _WriteStream:
    """The SDK's view of the output. Any number of senders."""

    def __init__(self, transport: StdioTransport) -> None:
        self._transport = transport
        self._is_closed = False

    async def send(self, item: SessionMessage, /) -> None:
        import anyio

        if self._is_closed:
            raise anyio.ClosedResourceError
        try:
            await self._transport.send(item.message)
        except TransportClosed:
            raise anyio.BrokenResourceError from None

    async def aclose(self) -> None:
        self._is_closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
