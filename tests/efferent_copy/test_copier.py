"""The server's end by itself: what it writes, and when it does nothing."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from entrabot_efferent_copy import plugin
from entrabot_efferent_copy.copier import Copier
from entrabot_efferent_copy.peers import Choice

from entrabot_host import Band, Hints, Image, Tool, ToolResult

from .parts import Observer, config, until

LOG = logging.getLogger("entrabot.efferent_copy")
HINTS = Hints(read_only=True, destructive=False, idempotent=True, open_world=False)


def choice(path: Path) -> Choice:
    return Choice.of({"EFFERENT_COPY_ENABLE": "1", "EFFERENT_COPY_CONFIG": str(path)})


class FakeHost:
    """What the hooks need of a host."""

    def __init__(self, **environ: str) -> None:
        from entrabot_host.config import Config, Layer

        self._config = Config([Layer("the test", environ)])
        self.settings = self
        self.log = LOG

    def load(self, model: Any) -> Any:
        return self._config.load(model, "efferent_copy")


async def greet(name: str) -> dict[str, str]:
    """Greet."""
    return {"greeting": name}


def test_hooks_offer_nothing_unless_enabled() -> None:
    tool = Tool(greet, title="Greet", hints=HINTS)
    for environ in ({}, {"EFFERENT_COPY_ENABLE": "1", "EFFERENT_COPY_DISABLE": "1"}, {"EFFERENT_COPY_SINKS": "a"}):
        host: Any = FakeHost(**environ)
        assert plugin.wrap_tool(tool, host) is None
        assert plugin.lifespan(host) is None
        assert plugin.prompt_fragments(host) is None
        assert list(plugin.health_checks(host)) == []


def test_hooks_when_enabled() -> None:
    host: Any = FakeHost(EFFERENT_COPY_ENABLE="1", EFFERENT_COPY_SINKS="a, b")
    wrapper = plugin.wrap_tool(Tool(greet, title="Greet", hints=HINTS), host)
    assert wrapper is not None
    assert wrapper.band is Band.OBSERVE
    assert plugin.wrap_tool(Tool(greet, name="observe", title="Observe", hints=HINTS), host) is None
    assert [check.name for check in plugin.health_checks(host)] == ["efferent-copy"]


async def test_without_an_observer_calls_pass_through_and_no_process_runs(tmp_path: Path) -> None:
    copier = Copier(choice(config(tmp_path / "none.json", {})), LOG)
    result = {"greeting": "x"}

    async def call(**arguments: Any) -> Any:
        return result

    async with copier.running():
        async with asyncio.timeout(10):
            while "no other MCP server" not in (await copier.health()).summary:
                await asyncio.sleep(0.01)
        assert await copier.copied("greet", call)(name="x") is result
        assert copier._relay is None


async def test_images_odd_characters_and_large_texts(tmp_path: Path) -> None:
    observer = Observer(tmp_path / "observer")
    copier = Copier(choice(config(tmp_path / "peers.json", {"observer": observer.entry})), LOG)
    given: dict[str, Any] = {"text": "half \ud800 \u2028 é \0", "number": float("nan"), "large": "x" * 2_000_000}
    result = ToolResult({"token": "t", "a": 1}, [Image(b"12345", "image/png")])

    async def call(**arguments: Any) -> Any:
        assert arguments == given
        return result

    async with copier.running():
        await until(lambda: copier.listening)
        assert await copier.copied("greet", call)(**given) is result
        before, after = await until(lambda: (copies := observer.copies())[1:] and copies)
    assert before["args"]["text"] == "half ? \u2028 é \0"
    assert before["args"]["large"] == "<2000000 characters left out>"
    assert after["result"] == {
        "value": {"token": "<redacted>", "a": 1},
        "images": [{"media_type": "image/png", "bytes": 5}],
    }


async def test_the_relay_imports_nothing_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "repository"
    folder.mkdir()
    trap = f"open({str(tmp_path / 'sprung')!r}, 'w').close()"
    for name in ("json.py", "entrabot_efferent_copy.py", "mcp.py", "sitecustomize.py"):
        (folder / name).write_text(trap, encoding="utf-8")
    monkeypatch.chdir(folder)
    observer = Observer(tmp_path / "observer")
    copier = Copier(choice(config(tmp_path / "peers.json", {"observer": observer.entry})), LOG)
    async with copier.running():
        await until(lambda: copier.listening)
    assert not (tmp_path / "sprung").exists()


async def test_copies_are_dropped_and_counted_when_the_relay_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    copier = Copier(Choice(enabled=True), LOG)
    copier.listening = True

    async def call() -> str:
        return "done"

    for _ in range(5):
        assert await copier.copied("greet", call)() == "done"
    assert caplog.text.count("dropped") == 1
    assert copier._dropped == 10


async def test_errors_that_cannot_be_told_pass_unchanged(tmp_path: Path) -> None:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("never")

    observer = Observer(tmp_path / "observer")
    copier = Copier(choice(config(tmp_path / "peers.json", {"observer": observer.entry})), LOG)

    async def call() -> None:
        raise Unspeakable

    async with copier.running():
        await until(lambda: copier.listening)
        with pytest.raises(Unspeakable):
            await copier.copied("fail", call)()
        # Closing flushes what is held back, so both copies arrive without another call.
    copies = await until(lambda: (copies := observer.copies())[1:] and copies)
    assert copies[1]["result"] == {"value": "<not copied: RuntimeError>"}
