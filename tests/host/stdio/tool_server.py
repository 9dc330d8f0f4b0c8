"""A server process for the tests: the SDK's lowlevel Server on our transport, with tools that misbehave on purpose."""

# ruff: noqa: E402

from __future__ import annotations

import gc

gc.disable()  # as the real entry module does: it starts in two thirds of the time

from entrabot_host.stdio import StdioTransport, claim_descriptors

WIRE = claim_descriptors()

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio.to_thread
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_dual_era_loop

from entrabot_host.lifecycle import Stop, run_server


class Tools:
    """The tools, by name; each takes the call's arguments and returns a text."""

    def __init__(self, stop: Stop, transport: StdioTransport) -> None:
        self.stop = stop
        self.transport = transport
        self.answers: list[str] = []
        self.pushed = 0

    async def length(self, text: str) -> str:
        return str(len(text))

    async def blob(self, size: int) -> str:
        return "x" * size

    async def answered(self) -> str:
        return ",".join(self.answers)

    async def noise(self) -> str:
        print("printed")
        sys.stdout.write("written\n")
        os.write(1, b"raw\n")
        subprocess.run(["echo", "from a child"], check=True)
        child_input = subprocess.run(["cat"], check=True, capture_output=True).stdout
        try:
            typed = input("prompt> ")
        except EOFError:
            typed = "end of file"
        return f"{typed}; child read {len(child_input)} bytes"

    async def push(self, count: int, size: int) -> str:
        sending = [self.transport.notify("notifications/test", {"n": n, "text": "x" * size}) for n in range(count)]
        await asyncio.gather(*sending)
        return "pushed"

    async def push_some_cancelled(self, count: int, size: int) -> str:
        tasks = [
            asyncio.create_task(self.transport.notify("notifications/test", {"n": n, "text": "x" * size}))
            for n in range(count)
        ]
        await asyncio.sleep(0)
        for task in tasks[::3]:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        return ",".join(str(n) for n, result in enumerate(results) if result is None)

    async def push_in_background(self, count: int, size: int) -> str:
        self.task = asyncio.create_task(self._push_one_by_one(count, size))
        return "started"

    async def _push_one_by_one(self, count: int, size: int) -> None:
        for n in range(count):
            await self.transport.notify("notifications/test", {"n": n, "text": "x" * size})
            self.pushed += 1

    async def stall_then_look(self, file: str) -> str:
        """Fill the pipe, then let other coroutines run and leave word of it in a file."""
        self.task = asyncio.create_task(self._push_one_by_one(100, 5000))
        async with asyncio.timeout(10):
            while not self.transport.stalled:
                await asyncio.sleep(0.001)
        ran = [await asyncio.to_thread(lambda n=n: n) for n in range(10)]
        report = f"{self.pushed < 100} {len(ran)}"
        part = Path(file + ".part")
        part.write_text(report, encoding="utf-8")
        part.rename(file)
        return "looked"

    async def block_thread(self) -> str:
        started = threading.Event()
        work = asyncio.create_task(anyio.to_thread.run_sync(lambda: (started.set(), time.sleep(60))))
        await asyncio.to_thread(started.wait)
        await self.transport.notify("notifications/blocked", {})
        await work
        return "never"

    async def block_thread_abandoned(self) -> str:
        await self.transport.notify("notifications/blocked", {})
        await asyncio.to_thread(time.sleep, 60)
        return "never"

    async def block_loop(self) -> str:
        await self.transport.notify("notifications/blocked", {})
        time.sleep(60)
        return "never"

    async def spawn(self, command: list[str]) -> str:
        child = subprocess.Popen(command, stdin=subprocess.PIPE)
        self.stop.children.add(child)
        return str(child.pid)

    async def wait_long(self) -> str:
        await self.transport.notify("notifications/blocked", {})
        await asyncio.sleep(60)
        return "never"


def make_server(tools: Tools) -> Server[Any]:
    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        names = [name for name in vars(Tools) if not name.startswith("_")]
        return types.ListToolsResult(tools=[types.Tool(name=n, input_schema={"type": "object"}) for n in names])

    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool: Callable[..., Awaitable[str]] = getattr(tools, params.name)
        text = await tool(**(params.arguments or {}))
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    @asynccontextmanager
    async def lifespan(server: Server[Any]) -> AsyncIterator[None]:
        try:
            yield
        finally:
            print("lifespan left", file=sys.stderr, flush=True)

    return Server("test", on_list_tools=list_tools, on_call_tool=call_tool, lifespan=lifespan)


async def serve(stop: Stop) -> None:
    if "crash" in sys.argv:
        raise ValueError("it broke\nbadly")
    limit = {"line_limit": 100_000} if "small-limit" in sys.argv else {}
    answers: list[str] = []
    gc.freeze()
    gc.enable()
    async with StdioTransport(WIRE, on_end=stop.request, on_answer=answers.append, **limit) as transport:
        stop.on_request(transport.abort_if_stalled)
        stop.watch(*WIRE)
        tools = Tools(stop, transport)
        tools.answers = answers
        server = make_server(tools)
        async with server.lifespan(server) as state:
            await serve_dual_era_loop(server, transport.read_stream, transport.write_stream, lifespan_state=state)


if __name__ == "__main__":
    run_server(serve)
