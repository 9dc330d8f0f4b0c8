"""A persona in the real server: what a first start waits for, what later ones are given, and what is never left."""

from __future__ import annotations

import asyncio
import json
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest
from entrabot_sandbox.client import Sandbox

from entrabot_host.prompt.persona import HEADING, INTRODUCTION
from tests.e2e.wire import LEGACY, MODERN, Json, Server, served, until
from tests.host.persona.server import SSE, TOKEN, PersonaServer, free_port, serving

NEVER = "30"
"""Seconds to wait for a persona that are more than a test waits for an answer."""
ANSWER = 25.0

HANGING = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import signal, time; "
    "signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)"],
    stdout=subprocess.PIPE)
child.stdout.readline()
with open(sys.argv[1], "a") as out:
    out.write(f"{os.getpid()} {child.pid}\\n")
time.sleep(600)
"""


@pytest.fixture
def persona() -> Iterator[PersonaServer]:
    with serving() as server:
        yield server


@pytest.fixture
def settings(persona: PersonaServer, bare: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """An installation without a tenant, whose persona is at hand."""
    mint = tmp_path / "mint"
    mint.write_text(f"#!/bin/sh\necho {TOKEN} >&2\necho {TOKEN}\n", encoding="utf-8")
    mint.chmod(0o700)
    return {
        **bare,
        "ENTRABOT_PLUGINS": "none",
        "PERSONA_SATI_MCP_URL": persona.url,
        "PERSONA_SATI_MCP_TOKEN_COMMAND": str(mint),
    }


@pytest.fixture
def hanging(tmp_path: Path) -> tuple[str, Path]:
    """A token command that hangs, has a child and ignores SIGTERM; and the file of its and the child's ids."""
    script = tmp_path / "hanging.py"
    script.write_text(HANGING, encoding="utf-8")
    return f"{sys.executable} {script} {tmp_path}/pids", tmp_path / "pids"


def running(pids: Path) -> list[int]:
    found = [int(word) for word in pids.read_text(encoding="utf-8").split()] if pids.exists() else []
    return [pid for pid in found if _runs(pid)]


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def when(condition: Callable[[], Any], what: str) -> Any:
    async def ask() -> Any:
        return condition()

    return await until(ask, what)


def kept(settings: dict[str, str]) -> list[Json]:
    """The texts that are kept for the next start."""
    return [entry for entry in _entries(settings) if "text" in entry]


def failures(settings: dict[str, str]) -> list[str]:
    """The failures that are kept."""
    return [entry["error"] for entry in _entries(settings) if "error" in entry]


def _entries(settings: dict[str, str]) -> list[Json]:
    folder = Path(settings["ENTRABOT_DATA_DIR"]) / ".persona"
    return [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")]


async def instructions(server: Server, timeout: float = ANSWER) -> str:
    """Greet, and return the instructions. Raises `TimeoutError` when the answer takes as long as ``NEVER``."""
    async with asyncio.timeout(timeout):
        return str((await server.greet())["instructions"])


async def health(server: Server) -> Json:
    checks = (await server.call("whoami"))["health"]
    return next(check for check in checks if check["check"] == "persona")


# --- the first start ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_a_first_start_waits_for_the_persona(persona: PersonaServer, settings: dict[str, str], era: str) -> None:
    persona.text = "You are Sati.\n## Sponsors\nEverybody."
    persona.behaviour = "hang"
    async with served({**settings, "ENTRABOT_PERSONA_WAIT_SECONDS": NEVER}, era=era, greet=False) as server:
        greeting = asyncio.create_task(server.greet())
        await when(lambda: persona.held, "the persona's server is asked")
        assert not greeting.done()
        persona.behaviour = "answer"
        given = (await greeting)["instructions"]

        assert given.endswith(f"\n\n{HEADING}\n\n{INTRODUCTION}\n\n> You are Sati.\n> ## Sponsors\n> Everybody.\n")
        assert given.index(HEADING) > 2048
        assert given.startswith("You work in Microsoft 365 as an agent")
        prompt = await server.ask("prompts/get", {"name": "instructions"})
        assert prompt["messages"][0]["content"]["text"] == given
        resource = await server.ask("resources/read", {"uri": "entrabot://instructions"})
        assert resource["contents"][0]["text"] == given


@pytest.mark.parametrize("era", [LEGACY, MODERN])
@pytest.mark.parametrize("transport", ["url", "sse_url"])
async def test_a_first_start_does_not_wait_for_ever(
    persona: PersonaServer, settings: dict[str, str], transport: str, era: str
) -> None:
    settings["PERSONA_SATI_MCP_URL"] = getattr(persona, transport)
    persona.behaviour = "hang"
    async with served({**settings, "ENTRABOT_PERSONA_WAIT_SECONDS": "0.5"}, era=era, greet=False) as server:
        assert HEADING not in await instructions(server)
        assert persona.held, "the persona's server has not answered yet"
        assert failures(settings) == ["no answer within 0.5 seconds, so far"]

        persona.behaviour = "answer"  # the fetch has gone on
        await when(lambda: kept(settings), "the text is kept")
        assert failures(settings) == []
        assert (
            "> You are Sati."
            in (await server.ask("prompts/get", {"name": "instructions"}))["messages"][0]["content"]["text"]
        )
    persona.behaviour = "hang"
    async with served({**settings, "ENTRABOT_PERSONA_WAIT_SECONDS": NEVER}, era=era, greet=False) as server:
        assert "> You are Sati." in await instructions(server)


async def test_a_start_after_one_that_saw_only_hanging_waits_for_nothing(
    persona: PersonaServer, settings: dict[str, str]
) -> None:
    persona.behaviour = "hang"
    async with served({**settings, "ENTRABOT_PERSONA_WAIT_SECONDS": "0"}, greet=False) as server:
        assert HEADING not in await instructions(server)
    async with served({**settings, "ENTRABOT_PERSONA_WAIT_SECONDS": NEVER}, greet=False) as server:
        assert HEADING not in await instructions(server)
        before = len(persona.seen)
        assert "no answer within 0 seconds" in (await health(server))["summary"]
        await when(lambda: len(persona.seen) > before, "it is asked once the client has begun")


async def test_a_hanging_token_command(settings: dict[str, str], hanging: tuple[str, Path]) -> None:
    settings["PERSONA_SATI_MCP_TOKEN_COMMAND"], pids = hanging
    async with served({**settings, "ENTRABOT_PERSONA_WAIT_SECONDS": "3"}, greet=False) as server:
        assert HEADING not in await instructions(server)
        await when(lambda: running(pids), "it runs, and still does")
    await when(lambda: not running(pids), "nothing of it is left")
    async with served({**settings, "ENTRABOT_PERSONA_WAIT_SECONDS": NEVER}, greet=False) as server:
        assert HEADING not in await instructions(server)
        checked = await health(server)
        assert not checked["ok"]
        await when(lambda: running(pids), "it is run again for the next start")
    await when(lambda: not running(pids), "nothing of it is left")


@pytest.mark.parametrize("behaviour", ["dead", "401", "garbage", "echo", "500", "no command", "failing command"])
async def test_what_fails_leaves_the_body_alone_and_delays_no_later_start(
    persona: PersonaServer, settings: dict[str, str], behaviour: str, tmp_path: Path
) -> None:
    persona.behaviour = behaviour if behaviour in ("401", "garbage", "echo", "500") else "answer"
    if behaviour == "dead":
        settings["PERSONA_SATI_MCP_URL"] = f"http://127.0.0.1:{free_port()}/mcp"
    if behaviour == "no command":
        settings["PERSONA_SATI_MCP_TOKEN_COMMAND"] = f"{tmp_path}/none {TOKEN}"
    if behaviour == "failing command":
        settings["PERSONA_SATI_MCP_TOKEN_COMMAND"] = f"sh -c 'echo {TOKEN}; exit 3'"
    async with served({**settings, "ENTRABOT_PERSONA_WAIT_SECONDS": NEVER}, greet=False) as server:
        assert HEADING not in await instructions(server), "a failure ends the wait"
        (failure,) = failures(settings)
        checked = await health(server)
        assert not checked["ok"]
        assert checked["summary"].startswith("body only; last fetch failed")
        assert failure in checked["summary"]
        await server.stop()
        assert "entrabot: WARNING" in server.stderr
        assert failure in server.stderr
        assert "Traceback" not in server.stderr

    persona.behaviour = "hang"
    async with served({**settings, "ENTRABOT_PERSONA_WAIT_SECONDS": NEVER}, greet=False) as server:
        assert HEADING not in await instructions(server)


# --- later starts ---------------------------------------------------------------------------------------------------


async def test_later_starts_use_what_came_last_and_a_fresh_text_the_next_time(
    persona: PersonaServer, settings: dict[str, str]
) -> None:
    settings["ENTRABOT_PERSONA_WAIT_SECONDS"] = NEVER
    async with served(settings, greet=False) as server:
        assert "> You are Sati." in await instructions(server)
        assert persona.calls == 1
    persona.text, persona.behaviour = "You are Mara.", "hang"
    async with served(settings, greet=False) as server:
        assert "> You are Sati." in await instructions(server)
        assert (await health(server))["summary"].startswith("cached text of 20")
        await when(lambda: persona.held, "it is fetched anew")
        persona.behaviour = "answer"
        await when(lambda: kept(settings)[0]["text"] == "You are Mara.", "the fresh text is kept")
        text = (await server.ask("prompts/get", {"name": "instructions"}))["messages"][0]["content"]["text"]
        assert "Sati" in text
        assert "Mara" not in text, "an agent does not change in the middle of a session"
        assert "a newer one from the next start on" in (await health(server))["summary"]
    persona.behaviour = "500"
    async with served(settings, greet=False) as server:
        assert "> You are Mara." in await instructions(server)
        await when(lambda: failures(settings), "the failure is kept")
        checked = await health(server)
        assert not checked["ok"]
        assert "status 500" in checked["summary"]
        assert kept(settings)[0]["text"] == "You are Mara."
    async with served(settings, greet=False) as server:
        assert "> You are Mara." in await instructions(server)


async def test_another_address_is_another_persona(persona: PersonaServer, settings: dict[str, str]) -> None:
    settings["ENTRABOT_PERSONA_WAIT_SECONDS"] = NEVER
    async with served(settings, greet=False) as server:
        assert "> You are Sati." in await instructions(server)
    with serving() as other:
        other.text = "You are Mara."
        other.speaks = SSE
        settings["PERSONA_SATI_MCP_URL"] = f"http://127.0.0.1:{other.port}"
        async with served(settings, greet=False) as server:
            given = await instructions(server)
    assert "> You are Mara." in given
    assert "Sati" not in given


async def test_several_first_starts_at_once(persona: PersonaServer, settings: dict[str, str]) -> None:
    persona.behaviour = "hang"
    async with AsyncExitStack() as stack:
        environment = {**settings, "ENTRABOT_PERSONA_WAIT_SECONDS": NEVER}
        servers = [await stack.enter_async_context(served(environment, greet=False)) for _ in range(3)]
        greetings = [asyncio.create_task(server.greet()) for server in servers]
        await when(lambda: persona.held >= 3, "all ask")
        persona.behaviour = "answer"
        for greeting in greetings:
            assert "> You are Sati." in (await greeting)["instructions"]
        await when(lambda: kept(settings), "the text is kept")
    folder = Path(settings["ENTRABOT_DATA_DIR"]) / ".persona"
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("transport", ["url", "sse_url"])
async def test_a_persona_over_https(settings: dict[str, str], sandbox: Sandbox, transport: str, tmp_path: Path) -> None:
    await sandbox.set_persona("You are Sati of the sandbox.")
    settings |= {
        "ENTRABOT_CA_BUNDLE": sandbox.environment["ENTRABOT_CA_BUNDLE"],
        "ENTRABOT_PERSONA_WAIT_SECONDS": NEVER,
        "PERSONA_SATI_MCP_URL": sandbox.persona[transport],
        "PERSONA_SATI_MCP_TOKEN_COMMAND": f"echo {sandbox.persona['token']}",
    }
    async with served({**settings, "ENTRABOT_CA_BUNDLE": ""}, greet=False) as server:
        assert HEADING not in await instructions(server)
        assert failures(settings) == ["The certificate of the persona's server is not trusted."]
    async with served(settings, greet=False) as server:
        assert HEADING not in await instructions(server)
        await server.ask("prompts/get", {"name": "instructions"})
        await when(lambda: kept(settings), "it is fetched for the next start")
    async with served(settings, greet=False) as server:
        assert (await instructions(server)).endswith("\n> You are Sati of the sandbox.\n")


# --- secrets and processes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("behaviour", ["answer", "401", "echo", "garbage", "tool error", "hang"])
@pytest.mark.parametrize("transport", ["url", "sse_url"])
async def test_the_token_is_never_written_anywhere(
    persona: PersonaServer, settings: dict[str, str], behaviour: str, transport: str, tmp_path: Path
) -> None:
    settings |= {
        "ENTRABOT_LOG_LEVEL": "DEBUG",
        "ENTRABOT_PERSONA_WAIT_SECONDS": "1",
        "PERSONA_SATI_MCP_URL": getattr(persona, transport),
    }
    persona.behaviour = behaviour
    async with served(settings) as server:
        await server.call("whoami")
        await when(lambda: persona.seen, "it was asked")
        await server.ask("prompts/get", {"name": "instructions"})
        assert await server.stop() == 0
        assert "DEBUG" in server.stderr
        assert TOKEN not in server.stderr
    assert TOKEN in persona.seen[0][2]
    assert not [line for line in server.lines if TOKEN.encode() in line]
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "mint"]
    assert any(path.suffix == ".log" for path in written)
    assert not [path for path in written if TOKEN.encode() in path.read_bytes()]


@pytest.mark.parametrize("end", ["hang up", "SIGTERM", "SIGINT"])
@pytest.mark.parametrize("moment", ["while the client waits", "in the background", "as a probe goes"])
async def test_no_child_is_left(settings: dict[str, str], hanging: tuple[str, Path], end: str, moment: str) -> None:
    settings["PERSONA_SATI_MCP_TOKEN_COMMAND"], pids = hanging
    settings["ENTRABOT_PERSONA_WAIT_SECONDS"] = NEVER if moment == "while the client waits" else "0"
    async with served(settings, greet=False) as server:
        greeting = asyncio.create_task(server.greet())
        if moment == "as a probe goes":
            await greeting
        else:
            await when(lambda: running(pids), "the command runs")
            assert greeting.done() == (moment == "in the background")
        if end == "hang up":
            server.hang_up()
        else:
            server.process.send_signal(getattr(signal, end))
        assert await server.ended() == 0
        greeting.cancel()
        await asyncio.gather(greeting, return_exceptions=True)
    await when(lambda: not running(pids), "nothing of it is left")


async def test_looking_at_the_commands_runs_nothing(settings: dict[str, str], tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    settings["PERSONA_SATI_MCP_TOKEN_COMMAND"] = f"touch {ran}"
    for words in (["main", "--help"], ["main", "--version"], ["cli.main", "--help"], ["cli.main", "plugins"]):
        done = subprocess.run(
            [sys.executable, "-m", f"entrabot_host.{words[0]}", *words[1:]],
            env=settings,
            capture_output=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
    assert not ran.exists()


async def test_entrabot_plugins_says_which_text_is_in_use(settings: dict[str, str]) -> None:
    settings["ENTRABOT_PERSONA_WAIT_SECONDS"] = NEVER
    assert "Persona: body only\n" in listed(settings)
    async with served(settings, greet=False) as server:
        assert HEADING in await instructions(server)
    assert "Persona: cached text of 20" in listed(settings)
    assert json.loads(listed(settings, "--json"))["persona"]["ok"]


def listed(settings: dict[str, str], *flags: str) -> str:
    command = [sys.executable, "-m", "entrabot_host.cli.main", "plugins", *flags]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


# --- without one ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "unset", [["PERSONA_SATI_MCP_URL", "PERSONA_SATI_MCP_TOKEN_COMMAND"], ["PERSONA_SATI_MCP_URL"]]
)
def test_without_both_settings_nothing_is_imported(settings: dict[str, str], unset: list[str]) -> None:
    code = (
        "import sys; from entrabot_host.application import Application; from entrabot_host.config import load_config\n"
        "import entrabot_host.serve\nApplication(load_config())\n"
        "print(*sorted(name for name in sys.modules if name.startswith('entrabot_host.persona.')))"
    )
    for name in unset:
        settings[name] = ""
    done = subprocess.run([sys.executable, "-c", code], env=settings, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["entrabot_host.persona.settings"]


@pytest.mark.parametrize(
    ("changed", "ok", "said"),
    [
        (
            {"PERSONA_SATI_MCP_URL": "", "PERSONA_SATI_MCP_TOKEN_COMMAND": ""},
            True,
            "body only: no persona is configured; heartbeat: skipped",
        ),
        ({"PERSONA_SATI_MCP_URL": ""}, False, "body only: PERSONA_SATI_MCP_URL is not set"),
        ({"PERSONA_SATI_MCP_TOKEN_COMMAND": ""}, False, "body only: PERSONA_SATI_MCP_TOKEN_COMMAND is not set"),
        ({"PERSONA_SATI_MCP_URL": "http://persona.example"}, False, "it must be an https address"),
        ({"PERSONA_SATI_MCP_TOKEN_COMMAND": "./mint"}, False, "by its absolute path"),
    ],
)
async def test_what_whoami_says_where_there_is_none(
    persona: PersonaServer, settings: dict[str, str], changed: dict[str, str], ok: bool, said: str
) -> None:
    async with served({**settings, **changed}, greet=False) as server:
        assert HEADING not in await instructions(server)
        checked = await health(server)
        assert checked["ok"] == ok
        assert said in checked["summary"]
        await server.stop()
        assert "persona" not in server.stderr
    assert persona.seen == []


# --- the heartbeat --------------------------------------------------------------------------------------------------


async def heartbeat(server: Server) -> Json:
    tasks = (await server.call("whoami"))["background"]
    return next(task for task in tasks if task["name"] == "persona_heartbeat")


async def test_the_heartbeat_beats_for_the_agents_own_user(
    persona: PersonaServer, settings: dict[str, str], sandbox: Sandbox
) -> None:
    async with served({**sandbox.environment, **settings}) as server:

        async def beaten() -> Json | None:
            task = await heartbeat(server)
            return task if "last_success_seconds_ago" in task else None

        task = await until(beaten, "a heartbeat")
        assert task["every_seconds"] == 300
        assert task["plugin"] == "persona"
        assert (await health(server))["summary"].endswith("; heartbeat: ok")
    persona.behaviour = "403"
    async with served({**sandbox.environment, **settings}) as server:

        async def failed() -> Json | None:
            task = await heartbeat(server)
            return task if "last_error" in task else None

        assert (
            "RemoteFailed: The persona's server refused the token" in (await until(failed, "a failure"))["last_error"]
        )
        assert (await health(server))["summary"].endswith("; heartbeat: remote_failed")


async def test_the_heartbeat_waits_for_an_identity(persona: PersonaServer, settings: dict[str, str]) -> None:
    async with served(settings) as server:

        async def waiting() -> Json | None:
            task = await heartbeat(server)
            return task if "waiting_for" in task else None

        assert (await until(waiting, "it waits"))["runs"] == 0
        await when(lambda: kept(settings), "the text comes all the same")
        assert "heartbeat" not in (await health(server))["summary"]


async def test_without_a_persona_the_heartbeat_is_skipped(settings: dict[str, str], sandbox: Sandbox) -> None:
    unset = {"PERSONA_SATI_MCP_URL": "", "PERSONA_SATI_MCP_TOKEN_COMMAND": ""}
    async with served({**sandbox.environment, **settings, **unset}) as server:
        assert (await server.call("whoami"))["background"] == []
        assert (await health(server))["summary"].endswith("; heartbeat: skipped")
        await server.stop()
        assert "WARNING" not in server.stderr
