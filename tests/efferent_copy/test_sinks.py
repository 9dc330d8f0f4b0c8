"""Handing copies to observers: order, time limits, loss and return, all in memory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from entrabot_efferent_copy import WARN_THROTTLE_S, Sink, _has_compatible_observe, fire_observe
from entrabot_efferent_copy import channel as channel_module

from .parts import Recorder, until


@pytest.fixture
async def sink_of() -> AsyncIterator[Callable[..., Sink]]:
    made: list[Sink] = []

    def make(factory: Callable[[], Any], name: str = "observer") -> Sink:
        made.append(Sink(name, factory))
        return made[-1]

    yield make
    for sink in made:
        await sink.aclose()


async def test_a_copy_is_an_observe_call(sink_of: Callable[..., Sink]) -> None:
    recorder, other = Recorder(), Recorder()
    sinks = [sink_of(lambda: recorder), sink_of(lambda: other)]
    args = {"a": 1, "token": "t"}
    await fire_observe(sinks, "tool", args)
    await fire_observe(sinks, "tool", args, {"ok": True, "secret": "s"})
    await asyncio.gather(*(sink.drain() for sink in sinks))
    told = {"a": 1, "token": "<redacted>"}
    assert recorder.calls == [
        ("observe", {"tool_name": "tool", "args": told}),
        ("observe", {"tool_name": "tool", "args": told, "result": {"ok": True, "secret": "<redacted>"}}),
    ]
    assert other.calls == recorder.calls
    assert args == {"a": 1, "token": "t"}
    assert recorder.entered == 1


async def test_order_is_kept_and_one_session_serves_all(sink_of: Callable[..., Sink]) -> None:
    recorder = Recorder()
    sink = sink_of(lambda: recorder)
    for number in range(500):
        await fire_observe([sink], "tool", {"number": number})
    await sink.drain()
    assert [payload["args"]["number"] for payload in recorder.payloads] == list(range(500))
    assert recorder.entered == 1
    assert sink.counts.delivered == 500


async def test_it_returns_at_once_whatever_the_sink_does(sink_of: Callable[..., Sink]) -> None:
    class Hanging(Recorder):
        async def call_tool(self, name: str, payload: dict[str, Any]) -> None:
            await asyncio.Event().wait()

    class Unreachable(Recorder):
        async def __aenter__(self) -> Recorder:
            return await asyncio.Event().wait()  # type: ignore[return-value]

    healthy = Recorder()
    sinks = [sink_of(Hanging), sink_of(Unreachable), sink_of(lambda: healthy)]
    fired = asyncio.ensure_future(fire_observe(sinks, "tool", {}))
    await asyncio.sleep(0)
    assert fired.done()
    await sinks[2].drain()
    assert len(healthy.calls) == 1
    await until(lambda: sinks[0].counts.failed == 1)


async def test_a_late_answer_is_cut_off_and_the_next_copy_sent(sink_of: Callable[..., Sink]) -> None:
    class Slow(Recorder):
        cancelled = 0

        async def call_tool(self, name: str, payload: dict[str, Any]) -> None:
            if payload["args"]["slow"]:
                try:
                    await asyncio.Event().wait()
                finally:
                    self.cancelled += 1
            await super().call_tool(name, payload)

    slow = Slow()
    sink = sink_of(lambda: slow)
    await fire_observe([sink], "tool", {"slow": True})
    await fire_observe([sink], "tool", {"slow": False})
    await sink.drain()
    assert slow.cancelled == 1
    assert [payload["args"] for payload in slow.payloads] == [{"slow": False}]
    assert (sink.counts.delivered, sink.counts.failed, slow.entered) == (1, 1, 1)


async def test_failures_are_warned_of_once_a_minute(
    sink_of: Callable[..., Sink], caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(Recorder):
        async def call_tool(self, name: str, payload: dict[str, Any]) -> None:
            raise ValueError("refused, Bearer abcdefghijklmnopqrstuvwxyz")

    sink = sink_of(Failing)
    for _ in range(20):
        await fire_observe([sink], "tool", {})
    await sink.drain()
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "abcdefghijkl" not in caplog.text
    assert sink.counts.failed == 20
    sink._last_warn_ts -= WARN_THROTTLE_S
    await fire_observe([sink], "tool", {})
    await sink.drain()
    assert "21 failed" in caplog.text


async def test_a_lost_session_is_opened_again_and_nothing_is_missing(sink_of: Callable[..., Sink]) -> None:
    class Dying(Recorder):
        async def call_tool(self, name: str, payload: dict[str, Any]) -> None:
            if payload["args"]["number"] == 3 and self.entered == 1:
                raise ConnectionResetError("gone")
            await super().call_tool(name, payload)

    dying = Dying()
    sink = sink_of(lambda: dying)
    for number in range(6):
        await fire_observe([sink], "tool", {"number": number})
    await sink.drain()
    assert [payload["args"]["number"] for payload in dying.payloads] == list(range(6))
    assert dying.entered == 2


async def test_a_copy_that_kills_every_session_is_given_up(sink_of: Callable[..., Sink]) -> None:
    class Poisoned(Recorder):
        async def call_tool(self, name: str, payload: dict[str, Any]) -> None:
            if payload["args"]["poison"]:
                raise ConnectionResetError("gone")
            await super().call_tool(name, payload)

    poisoned = Poisoned()
    sink = sink_of(lambda: poisoned)
    await fire_observe([sink], "tool", {"poison": True})
    await fire_observe([sink], "tool", {"poison": False})
    await sink.drain()
    assert [payload["args"] for payload in poisoned.payloads] == [{"poison": False}]
    assert sink.counts.failed == 1


async def test_the_queue_is_bounded_and_drops_the_oldest(
    sink_of: Callable[..., Sink], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_module, "QUEUE_ITEMS", 10)
    ready = asyncio.Event()

    class Later(Recorder):
        async def __aenter__(self) -> Recorder:
            await ready.wait()
            return self

    later = Later()
    sink = sink_of(lambda: later)
    for number in range(25):
        await fire_observe([sink], "tool", {"number": number})
    ready.set()
    await sink.drain()
    assert [payload["args"]["number"] for payload in later.payloads] == list(range(15, 25))
    assert sink.counts.dropped == 15


async def test_closing_leaves_the_session(sink_of: Callable[..., Sink]) -> None:
    left = asyncio.Event()
    recorder = Recorder()

    @asynccontextmanager
    async def factory() -> AsyncIterator[Recorder]:
        try:
            yield recorder
        finally:
            left.set()

    sink = sink_of(factory)
    await fire_observe([sink], "tool", {})
    await sink.drain()
    await sink.aclose()
    assert left.is_set()


# --- the question whether a peer observes ---------------------------------------------------------------------------

TOOL = {"type": "object", "properties": {"tool_name": {"type": "string"}, "args": {"type": "object"}}}


def session(name: str, schema: Any, attribute: str = "inputSchema") -> Any:
    class Session:
        async def list_tools(self) -> Any:
            return SimpleNamespace(tools=[SimpleNamespace(name=name, **{attribute: schema})])

    return Session()


def schema(tool_name: Any, args: Any, **root: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"tool_name": tool_name, "args": args}, **root}


@pytest.mark.parametrize(
    ("shape", "compatible"),
    [
        (TOOL, True),
        (schema({"type": "string"}, {"type": ["object", "null"]}), True),
        (schema({"type": "string"}, {"anyOf": [{"type": "null"}, {"type": "object"}]}), True),
        (schema({"type": "string"}, {}), True),
        (schema({"type": "string"}, True), True),
        (schema({"type": "string"}, {"$ref": "#/$defs/A"}, **{"$defs": {"A": {"type": "object"}}}), True),
        (schema({"type": "string"}, {"$ref": "#/$defs/A"}, **{"$defs": {"A": {"$ref": "#/$defs/A"}}}), False),
        (schema({"type": "string"}, {"type": "string"}), False),
        (schema({"type": "integer"}, {"type": "object"}), False),
        (schema({}, {"type": "object"}), False),
        (schema({"type": "string"}, False), False),
        ({"type": "object", "properties": {"tool_name": {"type": "string"}}}, False),
        ({"type": "object"}, False),
        (None, False),
    ],
)
async def test_observe_is_known_by_its_schema(shape: Any, compatible: bool) -> None:
    assert await _has_compatible_observe(session("observe", shape)) is compatible
    assert await _has_compatible_observe(session("observe", shape, "input_schema")) is compatible
    assert not await _has_compatible_observe(session("watch", shape))
