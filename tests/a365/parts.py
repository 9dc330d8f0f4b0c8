"""A Work IQ server that answers as a test says, and a host to call it from."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from entrabot_a365.client import WorkIq
from entrabot_a365.manifest import Server as WorkIqServer
from entrabot_a365.settings import A365Settings

from entrabot_host.testing.agent import ToolFailed
from tests.host.graph.server import Received, Server, answer

Json = dict[str, Any]
AUDIENCE = "c2d0c2b6-8013-4346-9f8b-b81d3b754a29"
PATH = "/agents/servers/mcp_WordServer"
NEWER = ("WordGetDocumentContent", "WordCreateNewDocument", "WordCreateNewComment", "WordReplyToComment")
OLDER = ("GetDocumentContent", "CreateDocument", "AddComment", "ReplyToComment")


class Identity:
    """Hands out ``token-1``, and the next one for each that is refused."""

    def __init__(self) -> None:
        self.count = 1
        self.asked: list[Json] = []
        self.error: Exception | None = None

    async def token(self, audience: str, **more: Any) -> str:
        self.asked.append({"audience": audience, **more})
        if self.error is not None:
            raise self.error
        if more.get("rejected") == f"token-{self.count}":
            self.count += 1
        return f"token-{self.count}"


class Host:
    """As much of a host as the client needs."""

    def __init__(self) -> None:
        self.identity = Identity()
        self.log = logging.getLogger("tests.a365")


class Mcp:
    """An MCP server over HTTP on top of a scripted one. ``tool`` makes the result of a call, or the whole reply."""

    def __init__(self, wire: Server) -> None:
        self.wire = wire
        self.tools: tuple[str, ...] = NEWER
        self.session = "s1"
        self.sse = False
        self.tool: Callable[[Json], Any] = lambda params: text("fine")
        self.resume: Callable[[Received], Any] = lambda request: answer(405)
        self.on: dict[str, Callable[[Received], Any]] = {}
        wire.default = self.reply

    @property
    def server(self) -> WorkIqServer:
        return WorkIqServer("mcp_WordServer", f"{self.wire.url}{PATH}", AUDIENCE)

    def methods(self) -> list[str]:
        return [one.json["method"] for one in self._posts()]

    def calls(self) -> list[Json]:
        return [one.json["params"] for one in self._posts() if one.json["method"] == "tools/call"]

    def _posts(self) -> list[Received]:
        return [one for one in self.wire.received if one.method == "POST" and one.target == PATH]

    def reply(self, request: Received) -> Any:
        if request.method != "POST" or request.target != PATH:
            return self.resume(request)
        message = request.json
        if handler := self.on.get(message["method"]):
            return handler(request)
        if "id" not in message:
            return answer(202)
        if message["method"] == "initialize":
            return self.result(message, self._hello(), **({"mcp_session_id": self.session} if self.session else {}))
        if self.session and request.headers.get("mcp-session-id") != self.session:
            return answer(
                404, {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "Session not found"}}
            )
        if message["method"] == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in self.tools]
            return self.result(message, {"tools": tools})
        if message["params"]["name"] not in self.tools:
            return self.error(message, -32602, f"Unknown tool: '{message['params']['name']}'")
        made = self.tool(message["params"])
        return self.result(message, made) if isinstance(made, dict) else made

    def result(self, message: Json, result: Json, **headers: str) -> bytes:
        return self._framed({"jsonrpc": "2.0", "id": message["id"], "result": result}, headers)

    def error(self, message: Json, code: int, words: str) -> bytes:
        error = {"code": code, "message": words}
        return self._framed({"jsonrpc": "2.0", "id": message["id"], "error": error}, {})

    def _framed(self, body: Json, headers: dict[str, str]) -> bytes:
        if not self.sse:
            return answer(200, body, **headers)
        stream = f"event: message\r\ndata: {json.dumps(body)}\r\n\r\n".encode()
        return answer(200, stream, content_type="text/event-stream", **headers)

    def _hello(self) -> Json:
        return {
            "protocolVersion": "2024-11-05",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "test", "version": "1"},
        }


def text(*texts: str, is_error: bool = False) -> Json:
    return {"content": [{"type": "text", "text": one} for one in texts], "isError": is_error}


def document(**values: Any) -> Json:
    return text(json.dumps({"fileName": "Plan.docx", "driveId": "b!1", "documentId": "01A", "content": "", **values}))


@asynccontextmanager
async def work_iq(ca_file: str, host: Host, **settings: Any) -> AsyncIterator[WorkIq]:
    names = {field.alias: settings[name] for name, field in A365Settings.model_fields.items() if name in settings}
    client = WorkIq(host, A365Settings.model_validate({**names, "ENTRABOT_CA_BUNDLE": ca_file}))  # type: ignore[arg-type]
    async with client.running():
        yield client


def manifest(path: Path, *entries: Json) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"mcpServers": list(entries)}), encoding="utf-8")
    return path


def entry(url: str, name: str = "mcp_WordServer", audience: str = AUDIENCE, **more: Any) -> Json:
    return {"mcpServerName": name, "mcpServerUniqueName": name, "url": url, "audience": audience, **more}


@asynccontextmanager
async def refused(kind: str) -> AsyncIterator[Json]:
    """Expect a tool to fail with this type; the error is filled in for a closer look."""
    error: Json = {}
    with pytest.raises(ToolFailed) as failed:
        yield error
    error.update(failed.value.error)
    assert error["type"] == kind, error
    assert error["message"]
    assert error["remedy"], error
