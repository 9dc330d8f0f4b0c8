"""The host's side of a server process under test."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

SERVER = Path(__file__).with_name("tool_server.py")
PATIENCE = 30.0  # seconds until a test gives up waiting for something that must happen

Message = dict[str, Any]


class HostProcess:
    """An MCP host's end of two pipes, byte by byte: it can tear lines, stop reading and hang up."""

    def __init__(self, *args: str, **popen: Any) -> None:
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115
        popen = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.errors, **popen}
        self.process = subprocess.Popen([sys.executable, str(SERVER), *args], bufsize=0, **popen)
        self._buffer = b""
        self._next_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.hang_up()
        self.stop_reading()
        self.errors.close()

    def hang_up(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()

    def stop_reading(self) -> None:
        if self.process.stdout is not None:
            self.process.stdout.close()

    def send_bytes(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self.process.stdin.fileno(), rest) :]

    def send(self, method: str, params: Message | None = None, *, request: bool = True) -> int:
        message: Message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        if request:
            self._next_id += 1
            message["id"] = self._next_id
        self.send_bytes(json.dumps(message).encode() + b"\n")
        return self._next_id

    def read(self) -> Message:
        deadline = time.monotonic() + PATIENCE
        while b"\n" not in self._buffer:
            self._buffer += self._read_some(deadline)
        line, self._buffer = self._buffer.split(b"\n", 1)
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        return message

    def _read_some(self, deadline: float) -> bytes:
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(deadline - time.monotonic()):
                raise AssertionError(f"nothing more to read; standard error: {self.error_text()}")
        data = os.read(self.process.stdout.fileno(), 1 << 20)
        if not data:
            raise EOFError(self.error_text())
        return data

    def read_until(self, wanted: Callable[[Message], bool]) -> list[Message]:
        messages = [self.read()]
        while not wanted(messages[-1]):
            messages.append(self.read())
        return messages

    def answer(self, request_id: int) -> Message:
        return self.read_until(lambda message: message.get("id") == request_id)[-1]

    def start(self) -> Self:
        """Shake hands as a host of the handshake era."""
        info = {"name": "test", "version": "1"}
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
        assert "result" in self.answer(self.send("initialize", params))
        self.send("notifications/initialized", request=False)
        return self

    def begin(self, tool: str, **arguments: Any) -> int:
        return self.send("tools/call", {"name": tool, "arguments": arguments})

    def call(self, tool: str, **arguments: Any) -> str:
        result = self.answer(self.begin(tool, **arguments))["result"]
        return str(result["content"][0]["text"])

    def read_to_end(self) -> bytes:
        data = self._buffer
        while True:
            try:
                data += self._read_some(time.monotonic() + PATIENCE)
            except EOFError:
                return data

    def error_text(self) -> str:
        self.errors.seek(0)
        return self.errors.read().decode("utf-8", "replace")

    def exit_status(self, patience: float = PATIENCE) -> int:
        return self.process.wait(patience)
