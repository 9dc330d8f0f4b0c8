"""The plugin in the real server process, with real observers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from entrabot_host.testing.agent import Agent, ToolFailed
from entrabot_host.testing.process import launched

from .parts import Observer, alive, config, until

Launch = Callable[..., AbstractAsyncContextManager[Agent]]


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    home = tmp_path / "home"
    home.mkdir()
    base = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "ENTRABOT_PLUGINS": "efferent_copy",
        "ENTRABOT_DATA_DIR": str(tmp_path / "data"),
        "ENTRABOT_LOG_DIR": str(tmp_path / "log"),
        "ENTRABOT_AUDIT_DIR": str(tmp_path / "audit"),
    }

    @asynccontextmanager
    async def start(*observers: Observer, **settings: str) -> AsyncIterator[Agent]:
        environment = {**base, **{f"EFFERENT_COPY_{name}": value for name, value in settings.items()}}
        if observers:
            path = config(tmp_path / "peers.json", {observer.out.name: observer.entry for observer in observers})
            environment |= {"EFFERENT_COPY_ENABLE": "1", "EFFERENT_COPY_CONFIG": str(path)}
        with (tmp_path / "stderr").open("w", encoding="utf-8") as errors:
            async with launched(environment, errlog=errors) as host:
                yield host

    return start


async def health(host: Agent) -> dict[str, Any] | None:
    checks = (await host.call("whoami"))["health"]
    return next((check for check in checks if check["check"] == "efferent-copy"), None)


async def healthy(host: Agent, part: str, seconds: float = 60.0) -> dict[str, Any]:
    """Ask until the check's summary contains ``part``."""
    async with asyncio.timeout(seconds):
        while True:
            check = await health(host)
            if check is not None and part in check["summary"]:
                return check
            await asyncio.sleep(0.1)


async def refused(host: Agent, **metadata: Any) -> dict[str, Any]:
    """Call a tool that fails, because nobody is signed in."""
    with pytest.raises(ToolFailed) as caught:
        await host.call("audit_log", action="a", resource="b", metadata=json.dumps(metadata))
    return dict(caught.value.error)


def of_tool(observer: Observer, name: str) -> list[dict[str, Any]]:
    return [copy for copy in observer.copies() if copy["tool_name"] == name]


def server_process() -> psutil.Process:
    for child in psutil.Process().children():
        if "entrabot_host.main" in child.cmdline():
            return child
    raise LookupError("the server does not run")


async def test_calls_are_copied_and_answers_unchanged(launch: Launch, tmp_path: Path) -> None:
    async with launch() as host:
        assert await health(host) is None
        plain = await refused(host, n=1)
    observer = Observer(tmp_path / "observer")
    async with launch(observer) as host:
        await healthy(host, ": live")
        assert await refused(host, n=1, token="t") == plain
        assert "copied to observers" in (host.client.instructions or "")
        before, after = await until(lambda: (copies := of_tool(observer, "audit_log"))[1:] and copies)
        assert before["result"] is None
        assert json.loads(before["args"]["metadata"]) == {"n": 1, "token": "<redacted>"}
        assert before["args"]["outcome"] == "success"
        assert after["args"] == before["args"]
        assert after["result"]["error_type"] == "AttributionError"
        told = await until(lambda: [copy for copy in of_tool(observer, "whoami") if copy["result"]])
        assert told[0]["result"]["version"]
        check = await healthy(host, "delivered")
        assert check["ok"]
    assert "every tool call is copied to 'observer'" in (tmp_path / "stderr").read_text(encoding="utf-8")


async def test_many_calls_arrive_in_order_and_start_nothing(launch: Launch, tmp_path: Path) -> None:
    observers = [Observer(tmp_path / name) for name in ("one", "two")]
    async with launch(*observers) as host:
        await healthy(host, "'one': live")
        await healthy(host, "'two': live")
        started = {child.pid for child in server_process().children(recursive=True)}
        for number in range(150):
            await refused(host, n=number)
        for observer in observers:
            copies = await until(lambda o=observer: (c := of_tool(o, "audit_log"))[299:] and c)
            told = [(json.loads(copy["args"]["metadata"])["n"], copy["result"] is not None) for copy in copies]
            assert told == [(number, after) for number in range(150) for after in (False, True)]
            assert len(observer.starts()) == 1
        assert {child.pid for child in server_process().children(recursive=True)} == started


async def test_no_child_is_left_when_the_client_goes(launch: Launch, tmp_path: Path) -> None:
    polite, stubborn = Observer(tmp_path / "polite"), Observer(tmp_path / "stubborn", "--stubborn", "--hang")
    async with launch(polite, stubborn) as host:
        await healthy(host, "'polite': live")
        await healthy(host, "'stubborn': live")
        children = [child.pid for child in server_process().children(recursive=True)]
        assert len(children) == 3
    await until(lambda: not alive(children), 5)


async def test_no_child_is_left_when_the_server_is_killed(launch: Launch, tmp_path: Path) -> None:
    observer = Observer(tmp_path / "observer", "--stubborn", "--hang")
    async with launch(observer) as host:
        await healthy(host, ": live")
        server = server_process()
        children = [child.pid for child in server.children(recursive=True)]
        server.send_signal(signal.SIGKILL)
        await until(lambda: not alive(children), 5)


async def test_a_hanging_observer_is_told_of_and_harms_nobody(launch: Launch, tmp_path: Path) -> None:
    healthy_one, hanging = Observer(tmp_path / "healthy"), Observer(tmp_path / "hanging", "--hang")
    async with launch(healthy_one, hanging) as host:
        await healthy(host, "'healthy': live")
        await healthy(host, "'hanging': live")
        for number in range(20):
            await refused(host, n=number)
        await until(lambda: len(of_tool(healthy_one, "audit_log")) == 40)
        async with asyncio.timeout(30):
            while (check := await health(host)) is None or check["ok"]:
                await asyncio.sleep(0.1)
        assert "hanging" in check["remedy"]
    assert "did not answer within 250 ms" in (tmp_path / "stderr").read_text(encoding="utf-8")


async def test_an_observer_that_is_killed_comes_back(launch: Launch, tmp_path: Path) -> None:
    observer = Observer(tmp_path / "observer")
    async with launch(observer) as host:
        await healthy(host, ": live")
        await refused(host, n=1)
        await until(lambda: len(of_tool(observer, "audit_log")) == 2)
        os.kill(observer.starts()[0]["pid"], signal.SIGKILL)
        for number in range(2, 10):
            await refused(host, n=number)
        copies = await until(lambda: (c := of_tool(observer, "audit_log"))[17:] and c)
        assert [json.loads(copy["args"]["metadata"])["n"] for copy in copies] == [n for n in range(1, 10) for _ in "ab"]
        assert len(observer.starts()) == 2


async def test_the_relay_comes_back_when_it_is_killed(launch: Launch, tmp_path: Path) -> None:
    observer = Observer(tmp_path / "observer")
    async with launch(observer) as host:
        await healthy(host, ": live")
        (relay,) = server_process().children()
        relay.kill()
        await until(lambda: len(observer.starts()) == 2)
        await healthy(host, ": live")
        before = len(of_tool(observer, "audit_log"))
        await refused(host, n=1)
        await until(lambda: len(of_tool(observer, "audit_log")) == before + 2)


async def test_a_slow_starter_joins_later(launch: Launch, tmp_path: Path) -> None:
    slow = Observer(tmp_path / "slow", "--slow-start", "5")
    async with launch(slow) as host:
        assert ": live" not in (await healthy(host, "slow"))["summary"]
        await refused(host, n=1)
        await healthy(host, ": live")
        await refused(host, n=2)
        copies = await until(lambda: (c := of_tool(slow, "audit_log"))[1:] and c)
        assert {json.loads(copy["args"]["metadata"])["n"] for copy in copies} == {2}


async def test_a_hostile_working_directory_starts_nothing(
    launch: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "repository"
    folder.mkdir()
    monkeypatch.chdir(folder)
    hostile = Observer(tmp_path / "hostile")
    config(folder / ".mcp.json", {"hostile": hostile.entry})
    async with launch(ENABLE="1") as host:
        check = await healthy(host, "'hostile'")
        assert "EFFERENT_COPY_SINKS" in check["remedy"]
        assert server_process().children() == []
    assert hostile.starts() == []
    assert "None was started" in (tmp_path / "stderr").read_text(encoding="utf-8")
    async with launch(ENABLE="1", SINKS="hostile") as host:
        await healthy(host, ": live")
    assert len(hostile.starts()) == 1


async def test_disable_wins(launch: Launch, tmp_path: Path) -> None:
    observer = Observer(tmp_path / "observer")
    async with launch(observer, DISABLE="1") as host:
        assert await health(host) is None
        assert "observers" not in (host.client.instructions or "")
    assert observer.starts() == []


async def test_a_named_peer_that_does_not_observe_is_told_of(launch: Launch, tmp_path: Path) -> None:
    other = Observer(tmp_path / "other", "--tool", "watch")
    async with launch(other, SINKS="other, absent") as host:
        check = await healthy(host, "not an observer")
        assert check["ok"]
        await refused(host, n=1)
    told = (tmp_path / "stderr").read_text(encoding="utf-8")
    assert "'other' gets no copies" in told
    assert "'absent'" in told
    assert other.copies() == []
    assert len(other.starts()) == 1
