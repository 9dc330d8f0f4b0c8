"""The real server as a child process, spoken to line by line, so that a test sees every byte it writes."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any, Self

Json = dict[str, Any]
PUSH = "notifications/claude/channel"
MODERN = "2026-07-28"
LEGACY = "2025-11-25"
_LINE = 1 << 24
_SECONDS = 40.0


class Refused(Exception):
    """A JSON-RPC error, or a tool's error: ``error`` is its object."""

    def __init__(self, error: Json) -> None:
        super().__init__(json.dumps(error))
        self.error = error


class Server:
    """A running server. ``lines`` are all lines of its standard output as they came; ``pushes`` the channel params."""

    def __init__(self, process: asyncio.subprocess.Process, errors: Any, era: str) -> None:
        self.process = process
        self.era = era
        self.lines: list[bytes] = []
        self.pushes: asyncio.Queue[Json] = asyncio.Queue()
        self._errors = errors
        self._numbers = count(1)
        self._answers: dict[int, asyncio.Future[Json]] = {}
        self._reading = asyncio.create_task(self._read())

    @property
    def stderr(self) -> str:
        """What it has written to standard error so far."""
        self._errors.seek(0)
        return str(self._errors.read().decode("utf-8", "replace"))

    async def _read(self) -> None:
        assert self.process.stdout is not None
        try:
            while line := await self.process.stdout.readline():
                self.lines.append(line)
                self._take(line)
        finally:
            for future in self._answers.values():
                if not future.done():
                    future.set_exception(ConnectionError(f"the server has ended: {self.stderr[-2000:]}"))
                    future.exception()

    def _take(self, line: bytes) -> None:
        with suppress(ValueError, UnicodeDecodeError):  # what is no JSON is for the test to find in ``lines``
            message = json.loads(line)
            if message.get("method") == PUSH:
                self.pushes.put_nowait(message["params"])
            elif (future := self._answers.pop(message.get("id"), None)) and not future.done():
                future.set_result(message)

    async def write(self, message: Json) -> None:
        """Send any message."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        await self.process.stdin.drain()

    async def ask(self, method: str, params: Json | None = None, *, timeout: float = _SECONDS) -> Json:
        """Send a request and return its result. Raises `Refused` for a JSON-RPC error."""
        number = next(self._numbers)
        future = self._answers[number] = asyncio.get_running_loop().create_future()
        body = dict(params or {})
        if self.era == MODERN:
            body["_meta"] = {**_ENVELOPE, **body.get("_meta", {})}
        await self.write({"jsonrpc": "2.0", "id": number, "method": method, "params": body})
        async with asyncio.timeout(timeout):
            message = await future
        if "error" in message:
            raise Refused(message["error"])
        return dict(message["result"])

    async def greet(self, name: str = "claude-code") -> Json:
        """Introduce ourselves as hosts of this era do; return what the server says of itself."""
        if self.era == MODERN:
            return await self.ask("server/discover")
        client = {"name": name, "version": "1.0"}
        result = await self.ask("initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client})
        await self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return result

    async def call_raw(self, tool: str, **arguments: Any) -> Json:
        """Call a tool and return the whole result."""
        return await self.ask("tools/call", {"name": tool, "arguments": arguments})

    async def call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool and return its data. Raises `Refused` with the tool's error object."""
        result = await self.call_raw(tool, **arguments)
        data = json.loads(result["content"][0]["text"])
        if result.get("isError"):
            raise Refused(data["error"])
        return data

    async def failing(self, tool: str, **arguments: Any) -> Json:
        """Call a tool that must fail; return its error object."""
        try:
            data = await self.call(tool, **arguments)
        except Refused as refused:
            return refused.error
        raise AssertionError(f"{tool} succeeded: {data}")

    async def tools(self) -> dict[str, Json]:
        """The tools by name."""
        return {tool["name"]: tool for tool in (await self.ask("tools/list"))["tools"]}

    async def next_push(self, timeout: float = _SECONDS) -> Json:
        """The next push. Raises `TimeoutError`."""
        async with asyncio.timeout(timeout):
            return await self.pushes.get()

    def hang_up(self) -> None:
        """Close its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def ended(self, timeout: float = 10.0) -> int:
        """Wait for its end and return the exit status. Raises `TimeoutError`."""
        async with asyncio.timeout(timeout):
            return await self.process.wait()

    async def stop(self) -> int:
        """Hang up and wait."""
        self.hang_up()
        return await self.ended()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.hang_up()
        try:
            await self.ended()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
        await asyncio.wait({self._reading}, timeout=5)
        if not self._reading.done():  # a grandchild holds the pipe
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        with suppress(ConnectionError, BrokenPipeError):
            assert self.process.stdin is not None
            await self.process.stdin.wait_closed()
        self.process._transport.close()  # type: ignore[attr-defined]


_ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "claude-code", "version": "1.0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@asynccontextmanager
async def served(
    environment: Mapping[str, str],
    *arguments: str,
    era: str = LEGACY,
    greet: bool = True,
    command: Sequence[str] = (sys.executable, "-m", "entrabot_host.main"),
    cwd: str | None = None,
) -> AsyncIterator[Server]:
    """Run the server for the length of a block; with ``greet``, introduced."""
    with tempfile.TemporaryFile() as errors:
        process = await asyncio.create_subprocess_exec(
            *command,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env=dict(environment),
            cwd=cwd,
            limit=_LINE,
        )
        async with Server(process, errors, era) as server:
            if greet:
                await server.greet()
            yield server


async def until(condition: Callable[[], Awaitable[Any]], what: str, timeout: float = _SECONDS) -> Any:
    """Ask again until the condition holds; return its value. Fails when it does not in time."""
    try:
        async with asyncio.timeout(timeout):
            while not (value := await condition()):
                await asyncio.sleep(0.05)
            return value
    except TimeoutError:
        raise AssertionError(f"not within {timeout:g} seconds: {what}") from None
