"""Wrapping functions and the tools of a real MCPServer: the caller notices nothing."""

from __future__ import annotations

import asyncio
import copy
import functools
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from entrabot_efferent_copy import Sink, install_into_fastmcp, wrap_tool_fn
from hypothesis import given, settings
from mcp.client import Client
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import TextContent

from .parts import Recorder, until
from .test_redaction import SECRET, VALUES


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
async def sink(recorder: Recorder) -> AsyncIterator[Sink]:
    made = Sink("recorder", lambda: recorder)
    yield made
    await made.aclose()


async def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


async def fail(password: str) -> None:
    raise LookupError(f"no {password[:1]}")


async def test_a_call_is_copied_before_and_after(sink: Sink, recorder: Recorder) -> None:
    wrapped = wrap_tool_fn([sink], "add", add)
    assert await wrapped(1, b=4) == 5
    await sink.drain()
    assert recorder.payloads == [
        {"tool_name": "add", "args": {"a": 1, "b": 4}},
        {"tool_name": "add", "args": {"a": 1, "b": 4}, "result": {"value": 5}},
    ]
    assert wrapped.__name__ == "add"
    assert wrapped.__doc__ == "Add."


async def test_the_first_copy_leaves_before_the_call(sink: Sink, recorder: Recorder) -> None:
    seen: list[int] = []

    async def look() -> None:
        await sink.drain()
        seen.append(len(recorder.calls))

    await wrap_tool_fn([sink], "look", look)()
    assert seen == [1]


async def test_the_arguments_are_copied_as_they_were(sink: Sink, recorder: Recorder) -> None:
    async def change(items: list[int]) -> list[int]:
        items.append(9)
        return items

    await wrap_tool_fn([sink], "change", change)(items=[1])
    await sink.drain()
    assert [payload["args"]["items"] for payload in recorder.payloads] == [[1], [1]]
    assert recorder.payloads[1]["result"] == {"value": [1, 9]}


async def test_exceptions_are_copied_and_pass(sink: Sink, recorder: Recorder) -> None:
    with pytest.raises(LookupError, match="no x"):
        await wrap_tool_fn([sink], "fail", fail)(password="xyz")
    await sink.drain()
    assert recorder.payloads[1] == {
        "tool_name": "fail",
        "args": {"password": "<redacted>"},
        "result": {"error": "no x", "error_type": "LookupError"},
    }


async def test_cancellation_is_copied_and_passes(sink: Sink, recorder: Recorder) -> None:
    started = asyncio.Event()

    async def wait() -> None:
        started.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(wrap_tool_fn([sink], "wait", wait)())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await sink.drain()
    assert recorder.payloads[1]["result"]["error_type"] == "CancelledError"


async def test_values_that_cannot_be_copied_do_not_fail_the_call(sink: Sink, recorder: Recorder) -> None:
    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError("never")

    value = Hostile()

    async def echo(value: Any) -> Any:
        return value

    assert await wrap_tool_fn([sink], "echo", echo)(value=value) is value
    await sink.drain()
    assert len(recorder.calls) == 2


def test_without_sinks_the_function_is_returned_itself() -> None:
    assert wrap_tool_fn([], "add", add) is add


@pytest.mark.parametrize("sinks", [[], [Sink("x", Recorder)]])
def test_observe_is_never_wrapped(sinks: list[Sink]) -> None:
    with pytest.raises(ValueError, match="observe"):
        wrap_tool_fn(sinks, "observe", add)


async def test_plain_functions_stay_plain_in_any_thread(sink: Sink, recorder: Recorder) -> None:
    def where() -> int:
        return threading.get_ident()

    for wrapped in (
        wrap_tool_fn([sink], "where", where),
        wrap_tool_fn([sink], "where", where, main_loop=asyncio.get_running_loop()),
    ):
        here = await asyncio.to_thread(wrapped)
        assert here != threading.get_ident()
    assert wrap_tool_fn([sink], "where", functools.partial(where), main_loop=None)() == threading.get_ident()
    await until(lambda: len(recorder.calls) == 6)


def test_outside_of_any_loop_the_call_works_and_nothing_is_copied() -> None:
    recorder = Recorder()
    assert wrap_tool_fn([Sink("x", lambda: recorder)], "three", lambda: 3)() == 3
    assert recorder.calls == []


@given(value=VALUES)
@settings(max_examples=60, deadline=None)
def test_the_caller_gets_the_very_result_and_the_sink_no_secret(value: Any) -> None:
    async def once() -> None:
        recorder = Recorder()
        sink = Sink("x", lambda: recorder)
        before = copy.deepcopy(value)

        async def echo(value: Any) -> Any:
            return value

        assert await wrap_tool_fn([sink], "echo", echo)(value=value) is value
        assert value == before
        await sink.drain()
        await sink.aclose()
        assert len(recorder.calls) == 2
        assert SECRET not in repr(recorder.calls)

    asyncio.run(once())


# --- any MCPServer --------------------------------------------------------------------------------------------------


def some_server() -> MCPServer:
    server = MCPServer("some", log_level="ERROR")

    @server.tool(title="Add", structured_output=False)
    async def add(a: int, b: int = 2) -> str:
        """Add two numbers."""
        return str(a + b)

    @server.tool()
    def blocking(name: str, ctx: Context) -> dict[str, str]:
        """Run in a worker thread."""
        return {"name": name, "thread": str(threading.current_thread() is not threading.main_thread()), "token": "t"}

    @server.tool()
    def observe(tool_name: str, args: dict[str, Any]) -> str:
        """Take a copy."""
        return "seen"

    @server.tool()
    async def broken() -> str:
        """Fail."""
        raise ValueError("inside")

    return server


async def results(server: MCPServer) -> list[Any]:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("add", {"a": 1}),
        ("blocking", {"name": "n"}),
        ("observe", {"tool_name": "x", "args": {}}),
        ("broken", {}),
        ("add", {"a": "wrong"}),
    ]
    async with Client(server) as client:
        listed = (await client.list_tools()).model_dump()
        return [listed, *[(await client.call_tool(name, arguments)).model_dump() for name, arguments in calls]]


async def test_the_tools_of_a_server_are_wrapped_and_nobody_can_tell(
    sink: Sink, recorder: Recorder, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EFFERENT_COPY_SINKS", raising=False)
    bare, server = some_server(), some_server()
    install_into_fastmcp(server, [sink])
    install_into_fastmcp(server, [sink])
    assert "'recorder'" in caplog.text
    assert await results(server) == await results(bare)
    await until(lambda: len(recorder.calls) == 6)
    copied = [(payload["tool_name"], payload["args"], payload.get("result")) for payload in recorder.payloads]
    assert copied[:4] == [
        ("add", {"a": 1, "b": 2}, None),
        ("add", {"a": 1, "b": 2}, {"value": "3"}),
        ("blocking", {"name": "n"}, None),
        ("blocking", {"name": "n"}, {"name": "n", "thread": "True", "token": "<redacted>"}),
    ]
    assert copied[5][2] == {"error": "inside", "error_type": "ValueError"}


async def test_sinks_connect_when_they_are_installed(sink: Sink, recorder: Recorder) -> None:
    install_into_fastmcp(some_server(), [sink])
    await until(lambda: recorder.entered == 1)


async def test_without_sinks_a_server_is_left_alone() -> None:
    server = some_server()
    before = [tool.fn for tool in server._tool_manager.list_tools()]
    install_into_fastmcp(server, [])
    assert [tool.fn for tool in server._tool_manager.list_tools()] == before
    async with Client(server) as client:
        answer = await client.call_tool("add", {"a": 1})
    assert isinstance(answer.content[0], TextContent)
    assert answer.content[0].text == "3"
