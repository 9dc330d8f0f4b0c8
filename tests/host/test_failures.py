"""Plugins that fail while a server runs: named, shown, written down; fatal when the operator is strict."""

import asyncio
import json
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from entrabot_host import BackgroundTask, Gate, PluginError, hookimpl
from entrabot_host.discovery import Installed
from entrabot_host.failures import KEY, Failures, parse
from entrabot_host.storage.local import LocalBackend
from entrabot_host.testing.agent import ToolFailed

from .plugin_parts import tool

pytestmark = pytest.mark.anyio
TIDE = Installed("tide", "entrabot-tide", "1.2", object)


def module(**hooks: Any) -> SimpleNamespace:
    return SimpleNamespace(__name__="tide", **{name: hookimpl(hook) for name, hook in hooks.items()})


@asynccontextmanager
async def broken() -> Any:
    raise RuntimeError("no sea")
    yield


async def fail() -> None:
    raise RuntimeError("no moon")


async def test_a_failing_lifespan_is_named_and_the_rest_works(entrabot: Any, caplog: Any) -> None:
    settings = {"ENTRABOT_STRICT_PLUGINS": "0"}
    broken_module = module(lifespan=lambda host: broken(), register_tools=lambda host: [tool()])
    async with entrabot(broken_module, "promises", settings=settings) as agent:
        await agent.call("whoami")
        plugins = (await agent.call("whoami"))["plugins"]
        assert "add_promise" in await agent.tools()

        with pytest.raises(ToolFailed, match="could not start") as refused:
            await agent.call("greet", name="Ada")
        assert refused.value.error["type"] == "PluginError"

    (failing,) = plugins["failing"]
    assert failing.pop("cause").startswith("RuntimeError: no sea (test_failures.py, line ")
    assert failing == {"name": "tide", "version": "0", "step": "lifespan"}
    assert "plugin 'tide' (the test 0) failed: lifespan: RuntimeError: no sea" in caplog.text


async def test_a_failing_task_is_named_and_stops_nothing(entrabot: Any) -> None:
    task = BackgroundTask(name="look", run=fail, interval=60, description="Looks", gate=Gate.ALWAYS)
    async with entrabot(module(background_tasks=lambda host: [task])) as agent:
        await agent.call("whoami")
        (failing,) = (await agent.call("whoami"))["plugins"]["failing"]

    assert failing["step"] == "task look"
    assert failing["cause"].startswith("RuntimeError: no moon (test_failures.py, line ")


async def test_strictness_makes_a_failing_lifespan_fatal(entrabot: Any) -> None:
    async def serve() -> None:
        settings = {"ENTRABOT_STRICT_PLUGINS": "1"}
        async with entrabot(module(lifespan=lambda host: broken()), settings=settings) as agent:
            for _ in range(1000):
                await agent.call("whoami")

    with pytest.raises(PluginError, match="lifespan of plugin 'tide'"):
        await serve()


async def test_failures_are_written_down_until_they_are_over(tmp_path: Any) -> None:
    backend = LocalBackend(tmp_path)

    async def source() -> LocalBackend:
        return backend

    failures, others = Failures(source), Failures(source)
    await failures.note(TIDE, "task look", RuntimeError("one\nBearer abcdefghijklmnopqrstuvwxyz.0123456789"))
    await others.note(TIDE, "lifespan", RuntimeError("two"))
    written = {item.step: item for item in parse((await backend.read(KEY)).data)}  # type: ignore[union-attr]

    assert sorted(written) == ["lifespan", "task look"]
    assert (written["lifespan"].distribution, written["lifespan"].version) == ("entrabot-tide", "1.2")
    assert "abcdefghij" not in written["task look"].cause

    await failures.over(TIDE, "task look")
    assert failures.current() == []
    assert [item.step for item in parse((await backend.read(KEY)).data)] == ["lifespan"]  # type: ignore[union-attr]
    await backend.aclose()


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b'[{"plugin": "x"}]', b"\xff"])
async def test_a_damaged_file_is_no_failure(data: bytes) -> None:
    assert parse(data) == []


async def test_old_failures_are_forgotten() -> None:
    old = {"plugin": "a", "distribution": "d", "version": "1", "step": "s", "cause": "c", "at": 1.0}
    assert parse(json.dumps([old]).encode()) == []


async def test_a_call_waits_until_its_plugin_has_started(entrabot: Any) -> None:
    started: list[str] = []

    @asynccontextmanager
    async def slow() -> Any:
        await asyncio.sleep(0.05)
        started.append("lifespan")
        yield

    async def use() -> list[str]:
        """Use what the lifespan made."""
        return list(started)

    mine = module(lifespan=lambda host: slow(), register_tools=lambda host: [tool("use", fn=use)])
    async with entrabot(mine) as agent:
        assert await agent.call("use") == ["lifespan"]
