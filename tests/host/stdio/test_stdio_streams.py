"""The transport without a process around it: two pipes, and the test at their other ends."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from stdio_host import PATIENCE

from entrabot_host.stdio import StdioTransport, TransportClosed, Wire

PIPE_FILL = "x" * 300_000  # more than a pipe holds


class Ends:
    """The host's ends of the two pipes."""

    def __init__(self) -> None:
        server_in, self.to_server = os.pipe()
        self.from_server, server_out = os.pipe()
        self.wire = Wire(server_in, server_out)

    def send(self, **message: Any) -> None:
        os.write(self.to_server, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def hang_up(self) -> None:
        os.close(self.to_server)
        self.to_server = -1

    def stop_reading(self) -> None:
        os.close(self.from_server)
        self.from_server = -1

    def read(self, count: int) -> list[dict[str, Any]]:
        data = b""
        while data.count(b"\n") < count:
            data += os.read(self.from_server, 1 << 20)
        return [json.loads(line) for line in data.splitlines()]


@pytest.fixture
def ends() -> Iterator[Ends]:
    both = Ends()
    yield both
    for fd in (both.to_server, both.from_server):
        with suppress(OSError):
            os.close(fd)


@asynccontextmanager
async def connected(ends: Ends, **options: Any) -> AsyncIterator[StdioTransport]:
    with anyio.fail_after(PATIENCE):
        async with StdioTransport(ends.wire, **options) as transport:
            yield transport


async def until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.001)


async def test_notify_returns_when_the_line_is_in_the_pipe(ends: Ends) -> None:
    async with connected(ends) as transport:
        await transport.notify("a", {"n": 1})
        assert not transport.stalled
        assert ends.read(1) == [{"jsonrpc": "2.0", "method": "a", "params": {"n": 1}}]


async def test_a_full_pipe_is_seen_and_clears(ends: Ends) -> None:
    async with connected(ends) as transport:
        push = asyncio.create_task(transport.notify("big", {"text": PIPE_FILL}))
        await until(lambda: transport.stalled)
        assert not push.done()
        assert len(await asyncio.to_thread(ends.read, 1)) == 1
        await push
        assert not transport.stalled


async def test_a_closed_output_fails_pending_and_later_pushes_and_ends_reading(ends: Ends) -> None:
    reasons: list[str] = []
    async with connected(ends, on_end=reasons.append) as transport:
        pushes = [asyncio.create_task(transport.notify("big", {"text": PIPE_FILL})) for _ in range(3)]
        await until(lambda: transport.stalled)
        ends.stop_reading()
        for push in pushes:
            with pytest.raises(TransportClosed):
                await push
        await transport.wait_closed()
        assert transport.closed
        with pytest.raises(TransportClosed):
            await transport.notify("late", {})
        with pytest.raises(anyio.BrokenResourceError):
            await transport.write_stream.send(SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="late")))
        with pytest.raises(anyio.EndOfStream):
            await transport.read_stream.receive()
    assert reasons == ["output closed"]


async def test_a_closed_output_is_noticed_when_idle(ends: Ends) -> None:
    async with connected(ends) as transport:
        ends.stop_reading()
        await transport.wait_closed()
        assert [message async for message in transport.read_stream] == []


async def test_a_push_taken_back_before_its_turn_is_not_sent(ends: Ends) -> None:
    async with connected(ends) as transport:
        first = asyncio.create_task(transport.notify("first", {"text": PIPE_FILL}))
        second = asyncio.create_task(transport.notify("second", {}))
        third = asyncio.create_task(transport.notify("third", {}))
        await until(lambda: transport.stalled)
        first.cancel()
        second.cancel()
        await asyncio.wait({first, second})
        messages = await asyncio.to_thread(ends.read, 2)
        await third
    assert [message["method"] for message in messages] == ["first", "third"]


async def test_reading_pauses_until_somebody_takes_the_lines(ends: Ends) -> None:
    async with connected(ends, waiting_lines=4) as transport:
        writing = asyncio.create_task(asyncio.to_thread(lambda: [ends.send(method=f"m{n}") for n in range(20_000)]))
        await until(lambda: transport._reader is not None and transport._reader._paused)
        assert not writing.done()
        for n in range(20_000):
            item = await transport.read_stream.receive()
            assert isinstance(item, SessionMessage)
            assert isinstance(item.message, JSONRPCNotification)
            assert item.message.method == f"m{n}"
        await writing


async def test_open_requests_may_be_answered_after_the_end_of_input(ends: Ends) -> None:
    answered: list[str] = []
    async with connected(ends, on_answer=answered.append, settle_seconds=PATIENCE) as transport:
        ends.send(id="7", method="slow")
        ends.hang_up()
        item = await transport.read_stream.receive()
        assert isinstance(item, SessionMessage)
        assert isinstance(item.message, JSONRPCRequest)
        end = asyncio.create_task(anext(transport.read_stream, None))
        await asyncio.sleep(0)
        assert not end.done()
        await transport.write_stream.send(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id="7", result={})))
        assert await end is None
    assert answered == ["slow"]


async def test_a_host_that_hung_up_without_reading_is_given_up_even_if_reading_is_paused(ends: Ends) -> None:
    reasons: list[str] = []
    async with connected(ends, on_end=reasons.append, waiting_lines=1, stall_seconds=0.05) as transport:
        for n in range(10):
            ends.send(method=f"m{n}")
        await until(lambda: transport._reader is not None and transport._reader._paused)
        ends.send(method="never read")
        ends.hang_up()
        with pytest.raises(TransportClosed):
            await transport.notify("big", {"text": PIPE_FILL})
    assert reasons == ["output closed"]


async def test_closed_streams_say_so(ends: Ends) -> None:
    async with connected(ends) as transport:
        async with transport.read_stream, transport.write_stream:
            pass
        with pytest.raises(anyio.ClosedResourceError):
            await transport.read_stream.receive()
        with pytest.raises(anyio.ClosedResourceError):
            await transport.write_stream.send(SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="m")))


async def test_leaving_does_not_wait_for_a_host_that_does_not_read(ends: Ends) -> None:
    async with connected(ends) as transport:
        pushes = [asyncio.create_task(transport.notify("big", {"text": PIPE_FILL})) for _ in range(2)]
        await until(lambda: transport.stalled)
    for push in pushes:
        with pytest.raises(TransportClosed):
            await push
