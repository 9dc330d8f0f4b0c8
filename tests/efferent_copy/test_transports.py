"""Real observers as child processes, over every transport."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from entrabot_efferent_copy import Sink, discover_sinks, fire_observe

from .parts import Observer, alive, answers, config, free_port, served, until


@pytest.fixture(autouse=True)
def enabled(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISABLE", "SINKS", "CONFIG", "TRUST_WORKDIR"):
        monkeypatch.delenv(f"EFFERENT_COPY_{name}", raising=False)
    monkeypatch.setenv("EFFERENT_COPY_ENABLE", "1")


@pytest.fixture
async def sinks() -> AsyncIterator[list[Sink]]:
    kept: list[Sink] = []
    yield kept
    await asyncio.gather(*(sink.aclose() for sink in kept))


async def copy_to(sinks: list[Sink], count: int) -> None:
    for number in range(count):
        await fire_observe(sinks, "tool", {"number": number, "token": "t"})
    async with asyncio.timeout(30):
        await asyncio.gather(*(sink.drain() for sink in sinks))


async def test_observers_over_every_transport_get_every_copy_in_order(tmp_path: Path, sinks: list[Sink]) -> None:
    observers = {name: Observer(tmp_path / name) for name in ("stdio", "sse", "http", "other")}
    observers["other"] = Observer(tmp_path / "other", "--tool", "watch")
    with ExitStack() as stack:
        ports = {"sse": free_port(), "http": free_port()}
        urls = {
            "sse": stack.enter_context(served(observers["sse"], "sse", ports["sse"])),
            "http": stack.enter_context(served(observers["http"], "streamable-http", ports["http"])),
        }
        await until(lambda: all(map(answers, ports.values())))
        entries = {
            "stdio": observers["stdio"].entry,
            "sse": {"type": "sse", "url": urls["sse"], "headers": {"X-Test": "1"}},
            "http": {"type": "streamable-http", "url": urls["http"], "headers": {"X-Test": "1"}},
            "other": observers["other"].entry,
            "missing": {"command": str(tmp_path / "missing")},
            "refused": {"type": "http", "url": f"http://127.0.0.1:{free_port()}/mcp"},
        }
        sinks += await discover_sinks(config(tmp_path / "peers.json", entries))
        assert [sink.name for sink in sinks] == ["stdio", "sse", "http"]
        await copy_to(sinks, 30)
        for name in ("stdio", "sse", "http"):
            copies = observers[name].copies()
            assert [copy["args"]["number"] for copy in copies] == list(range(30))
            assert {copy["args"]["token"] for copy in copies} == {"<redacted>"}
    assert all(start["disable"] == "1" for start in observers["stdio"].starts())
    assert len(observers["stdio"].starts()) == 2  # asked once, then one session


async def test_a_peer_is_given_five_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entrabot_efferent_copy.sinks.DISCOVERY_TIMEOUT_S", 0.5)
    slow = Observer(tmp_path / "slow", "--slow-start", "60")
    assert await discover_sinks(config(tmp_path / "peers.json", {"slow": slow.entry})) == []
    await until(lambda: not alive([start["pid"] for start in slow.starts()]))


async def test_nothing_is_started_unless_enabled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    observer = Observer(tmp_path / "observer")
    path = config(tmp_path / "peers.json", {"observer": observer.entry})
    monkeypatch.setenv("EFFERENT_COPY_DISABLE", "1")
    assert await discover_sinks(path) == []
    monkeypatch.delenv("EFFERENT_COPY_DISABLE")
    monkeypatch.delenv("EFFERENT_COPY_ENABLE")
    assert await discover_sinks(path) == []
    assert observer.starts() == []


async def test_a_hostile_working_directory_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile, wanted = Observer(tmp_path / "hostile"), Observer(tmp_path / "wanted")
    monkeypatch.chdir(tmp_path)
    config(tmp_path / ".mcp.json", {"hostile": hostile.entry, "wanted": wanted.entry})
    assert await discover_sinks() == []
    monkeypatch.setenv("EFFERENT_COPY_SINKS", "wanted")
    assert [sink.name for sink in await discover_sinks()] == ["wanted"]
    assert hostile.starts() == []
    assert len(wanted.starts()) == 1


async def test_a_stdio_observer_that_dies_returns_and_misses_nothing(tmp_path: Path, sinks: list[Sink]) -> None:
    observer = Observer(tmp_path / "observer", "--die-after", "10")
    sinks += await discover_sinks(config(tmp_path / "peers.json", {"observer": observer.entry}))
    await copy_to(sinks, 15)
    # The tenth is what it died of, before it could answer: it is sent once more.
    numbers = [copy["args"]["number"] for copy in observer.copies()]
    assert numbers == [*range(10), *range(9, 15)]
    assert len(observer.starts()) == 3


@pytest.mark.parametrize("transport", ["sse", "streamable-http"])
async def test_an_http_observer_that_is_restarted_is_found_again(
    transport: str, tmp_path: Path, sinks: list[Sink]
) -> None:
    observer, port = Observer(tmp_path / "observer"), free_port()
    with served(observer, transport, port) as url:
        await until(lambda: answers(port))
        sinks += await discover_sinks(
            config(tmp_path / "peers.json", {"observer": {"type": transport.split("-")[-1], "url": url}})
        )
        await copy_to(sinks, 3)
    await fire_observe(sinks, "tool", {"number": 3})
    with served(observer, transport, port):
        async with asyncio.timeout(30):
            await sinks[0].drain()
        await copy_to(sinks, 2)
    assert [copy["args"]["number"] for copy in observer.copies()] == [0, 1, 2, 3, 0, 1]


async def test_a_flood_on_standard_error_changes_nothing(
    tmp_path: Path, sinks: list[Sink], capfd: pytest.CaptureFixture[str]
) -> None:
    observer = Observer(tmp_path / "observer", "--flood")
    sinks += await discover_sinks(config(tmp_path / "peers.json", {"observer": observer.entry}))
    await copy_to(sinks, 10)
    assert sinks[0].counts.delivered + sinks[0].counts.failed == 10
    assert len(observer.copies()) == 10
    assert "noise" not in capfd.readouterr().err


async def test_a_stopped_observer_blocks_nobody_and_goes_on_afterwards(tmp_path: Path, sinks: list[Sink]) -> None:
    observer = Observer(tmp_path / "observer")
    sinks += await discover_sinks(config(tmp_path / "peers.json", {"observer": observer.entry}))
    await copy_to(sinks, 1)
    pid = observer.starts()[-1]["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        begun = time.monotonic()
        for _ in range(3):  # more than a pipe holds
            await fire_observe(sinks, "tool", {"number": 1, "filling": "x" * 100_000})
        assert time.monotonic() - begun < 30
        async with asyncio.timeout(30):
            await sinks[0].drain()
        assert sinks[0].counts.failed == 3
    finally:
        os.kill(pid, signal.SIGCONT)
    await until(lambda: observer.copies()[-1]["args"]["number"] == 1)
    await copy_to(sinks, 1)
    assert sinks[0].counts.delivered >= 2


async def test_peers_inherit_only_what_they_are_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENTRABOT_TENANT_ID", "private")
    told = tmp_path / "environment"
    code = f"import os, json; open({str(told)!r}, 'w').write(json.dumps(dict(os.environ)))"
    entry = {"command": sys.executable, "args": ["-c", code], "env": {"MINE": "1", "EFFERENT_COPY_DISABLE": "0"}}
    assert await discover_sinks(config(tmp_path / "peers.json", {"curious": entry})) == []
    text = told.read_text(encoding="utf-8")
    assert "private" not in text
    assert '"MINE": "1"' in text
    assert '"EFFERENT_COPY_DISABLE": "1"' in text
