"""The token command: how it is run, what it may print, and that nothing of it is left."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import psutil
import pytest

from entrabot_host.lifecycle import Child
from entrabot_host.persona.command import token_from
from entrabot_host.persona.failure import TokenMintFailed
from entrabot_host.persona.settings import PersonaSettings

SECRET = "a-secret-that-is-printed"


def script(folder: Path, text: str, *, name: str = "mint") -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o700)
    return path


async def alive(path: Path) -> list[int]:
    """The processes whose ids stand in the file and which still run, after they had time to go."""
    pids = [int(line) for line in path.read_text(encoding="utf-8").split()]
    async with asyncio.timeout(20):
        while left := [pid for pid in pids if _runs(pid)]:
            await asyncio.sleep(0.02)
    return left


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def written(path: Path, lines: int) -> None:
    async with asyncio.timeout(20):
        while not path.exists() or len(path.read_text(encoding="utf-8").split()) < lines:
            await asyncio.sleep(0.02)


async def test_a_token_is_what_the_command_prints(tmp_path: Path) -> None:
    children: set[Child] = set()
    command = script(tmp_path, 'printf "%s\\n" "tok.$1-$2"')
    assert await token_from(f"{command} 'a;b' c", children) == "tok.a;b-c"
    assert not children


async def test_a_path_with_spaces_may_stand_by_itself(tmp_path: Path) -> None:
    command = script(tmp_path, "echo token", name="my mint")
    assert await token_from(str(command), set()) == "token"


async def test_there_is_no_shell_and_another_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path.parent))
    command = script(tmp_path, 'echo "$#:$1:$(pwd -P)"')
    printed = await token_from(f"{command} '$HOME;exit'", set())
    assert printed == f"1:$HOME;exit:{tmp_path.parent.resolve()}"


@pytest.mark.parametrize("command", ["./mint", "tools/mint", " ", "'open"])
def test_commands_that_are_refused(command: str) -> None:
    with pytest.raises(ValueError, match="PERSONA_SATI_MCP_TOKEN_COMMAND"):
        PersonaSettings.model_validate({"PERSONA_SATI_MCP_TOKEN_COMMAND": command})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"echo {SECRET}; echo {SECRET} >&2; exit 3", "ended with status 3"),
        (f"echo {SECRET}; kill -9 $$", "ended by signal 9"),
        ("exit 0", "printed nothing"),
        (f"echo {SECRET} {SECRET}", "other than one token"),
        (f"echo {SECRET}; echo {SECRET}", "other than one token"),
        (f"printf '{SECRET}\\303\\244'", "other than one token"),
        (f"while :; do echo {SECRET}; done", "more than 64 KiB"),
    ],
)
async def test_failures_tell_nothing_that_was_printed(
    tmp_path: Path, text: str, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(TokenMintFailed) as failed:
        await token_from(str(script(tmp_path, text)), set())
    assert said in failed.value.message
    assert SECRET not in str(failed.value.to_dict())
    assert SECRET not in "".join(capfd.readouterr())


async def test_a_command_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(TokenMintFailed, match="could not be started: No such file"):
        await token_from(f"{tmp_path}/none --password {SECRET}", set())


STUBBORN = f"""
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import signal, time; "
    "signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)"],
    stdout=subprocess.PIPE)
child.stdout.readline()
with open(sys.argv[1], "w") as out:
    out.write(f"{{os.getpid()}} {{child.pid}}")
print("{SECRET}", flush=True)
time.sleep(600)
"""


@pytest.fixture
def stubborn(tmp_path: Path) -> tuple[str, Path]:
    """A command that hangs, has a child, and ignores being asked to end; and where it writes both their ids."""
    path = tmp_path / "stubborn.py"
    path.write_text(STUBBORN, encoding="utf-8")
    return f"{sys.executable} {path} {tmp_path}/pids", tmp_path / "pids"


async def test_a_command_that_hangs_is_killed_with_its_children(stubborn: tuple[str, Path]) -> None:
    command, pids = stubborn
    children: set[Child] = set()
    with pytest.raises(TokenMintFailed, match="within 3 seconds"):
        await token_from(command, children, seconds=3)
    assert not children
    assert await alive(pids) == []


async def test_a_cancelled_one_too(stubborn: tuple[str, Path]) -> None:
    command, pids = stubborn
    minting = asyncio.create_task(token_from(command, set()))
    await written(pids, 2)
    minting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await minting
    assert await alive(pids) == []


async def test_whoever_ends_this_process_can_end_it_without_the_loop(stubborn: tuple[str, Path]) -> None:
    command, pids = stubborn
    children: set[Child] = set()
    minting = asyncio.create_task(token_from(command, children))
    await written(pids, 2)
    (child,) = children
    child.terminate()
    child.kill()
    with pytest.raises(TokenMintFailed, match="ended by signal 9"):
        await minting
    assert await alive(pids) == []


async def test_what_the_command_leaves_running_goes_with_it(tmp_path: Path) -> None:
    command = script(tmp_path, f"sleep 600 &\necho $! > {tmp_path}/pids\necho token")
    assert await token_from(str(command), set(), seconds=20) == "token"
    assert await alive(tmp_path / "pids") == []


async def test_what_escapes_and_keeps_the_pipe_open_holds_nobody_up(tmp_path: Path) -> None:
    escape = "import os, sys, time; os.setsid(); print(os.getpid(), file=open(sys.argv[1], 'w')); time.sleep(600)"
    pids = tmp_path / "pids"
    lines = f'{sys.executable} -c "{escape}" {pids} &\nwhile [ ! -s {pids} ]; do sleep 0.05; done\necho token'
    try:
        assert await token_from(str(script(tmp_path, lines)), set(), seconds=20) == "token"
    finally:
        for pid in pids.read_text(encoding="utf-8").split():
            psutil.Process(int(pid)).kill()


async def test_descriptors_are_given_back(tmp_path: Path) -> None:
    command = str(script(tmp_path, "echo token"))
    await token_from(command, set())
    before = psutil.Process().num_fds()
    for _ in range(5):
        await token_from(command, set())
        with pytest.raises(TokenMintFailed):
            await token_from(f"{tmp_path}/none", set())
    await asyncio.sleep(0)
    assert psutil.Process().num_fds() == before
