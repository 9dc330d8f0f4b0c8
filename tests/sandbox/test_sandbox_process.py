"""The process: how it starts, is found, and ends without leaving anything."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from entrabot_sandbox.client import Sandbox
from entrabot_sandbox.command import command

PYTHON = [sys.executable, "-m", "entrabot_sandbox"]


@contextmanager
def child(*arguments: str, tmp: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*PYTHON, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp), "PYTHONUNBUFFERED": "1"},
    )
    try:
        with process:
            yield process
    finally:
        if process.poll() is None:
            process.kill()


def announcement(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    read: dict[str, Any] = json.loads(process.stdout.readline())
    return read


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    output, errors = process.communicate(timeout=20)
    return process.returncode, output, errors


def test_it_ends_when_its_input_closes_and_leaves_nothing(tmp_path: Path) -> None:
    with child("--json", tmp=tmp_path) as process:
        told = announcement(process)
        assert Path(told["environment"]["ENTRABOT_CA_BUNDLE"]).exists()
        assert finished(process) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_on_signals_and_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    with child("--json", "--keep-open", tmp=tmp_path) as process:
        announcement(process)
        assert process.stdin is not None
        process.stdin.close()
        process.stdin = None
        process.send_signal(number)
        assert finished(process) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_what_it_writes_is_its_users_alone(tmp_path: Path) -> None:
    with child("--json", tmp=tmp_path) as process:
        env = announcement(process)["environment"]
        folder = Path(env["ENTRABOT_CA_BUNDLE"]).parent
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE(Path(env["ENTRABOT_BLUEPRINT_CERT_FILE"]).stat().st_mode) == 0o600
        for name in ("ENTRABOT_DATA_DIR", "ENTRABOT_LOG_DIR", "ENTRABOT_AUDIT_DIR"):
            assert Path(env[name]).parent == folder
        assert "127.0.0.1" in env["NO_PROXY"].split(",")
        assert env["ENTRABOT_LOGIN_URL"] == env["ENTRABOT_GRAPH_URL"]
        (state,) = tmp_path.glob("entrabot-sandboxes-*/*.json")
        assert stat.S_IMODE(state.stat().st_mode) == 0o600
        assert stat.S_IMODE(state.parent.stat().st_mode) == 0o700
        listening = [c for c in psutil.Process(process.pid).net_connections() if c.status == psutil.CONN_LISTEN]
        assert {c.laddr.ip for c in listening} == {"127.0.0.1"}
        assert sorted(path.name for path in folder.iterdir()) == ["ToolingManifest.json", "blueprint.pem", "ca.pem"]


def run(*arguments: str, tmp: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "TMPDIR": str(tmp)}
    return subprocess.run([*PYTHON, *arguments], env=env, capture_output=True, text=True, timeout=30, check=False)


def test_another_terminal_speaks_and_looks(tmp_path: Path) -> None:
    with child("--json", tmp=tmp_path) as process:
        announcement(process)
        said = run("say", "--as", "bob", "Fish & chips?", tmp=tmp_path)
        assert (said.returncode, said.stderr) == (0, "")
        shown = run("chats", tmp=tmp_path).stdout
        assert "Bob Example: Fish & chips?" in shown
        assert "oneOnOne: Bob Example, Sati Agent" in shown
        wrong = run("say", "--as", "nobody", "hello", tmp=tmp_path)
        assert wrong.returncode == 1
        assert "There is no person 'nobody'" in wrong.stderr


def test_of_several_one_is_named_by_its_port(tmp_path: Path) -> None:
    with child("--json", tmp=tmp_path) as one, child("--json", tmp=tmp_path) as two:
        ports = [announcement(process)["control"]["url"].split(":")[2].split("/")[0] for process in (one, two)]
        undecided = run("say", "hello", tmp=tmp_path)
        assert undecided.returncode == 1
        assert all(port in undecided.stderr for port in ports)
        assert run("say", "--port", ports[0], "to the first", tmp=tmp_path).returncode == 0
        assert "to the first" in run("chats", "--port", ports[0], tmp=tmp_path).stdout
        assert "to the first" not in run("chats", "--port", ports[1], tmp=tmp_path).stdout
        elsewhere = run("chats", "--port", "1", tmp=tmp_path)
        assert (elsewhere.returncode, "No sandbox listens on port 1" in elsewhere.stderr) == (1, True)


def test_a_stale_whereabouts_file_is_recognised(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    folder = tmp_path / f"entrabot-sandboxes-{os.getuid()}"
    folder.mkdir(mode=0o700)
    stale = folder / f"{ended.pid}.json"
    stale.write_text("{}", encoding="utf-8")
    answer = run("say", "hello", tmp=tmp_path)
    assert (answer.returncode, "No sandbox is running" in answer.stderr) == (1, True)
    assert not stale.exists()


def test_a_folder_open_to_others_is_not_trusted(tmp_path: Path) -> None:
    folder = tmp_path / f"entrabot-sandboxes-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o755)
    answer = run("chats", tmp=tmp_path)
    assert (answer.returncode, "not yours alone" in answer.stderr) == (1, True)
    with child("--json", tmp=tmp_path) as process:
        status, _, errors = finished(process)
    assert (status, "not yours alone" in errors) == (1, True)


def test_a_taken_port_is_said(tmp_path: Path) -> None:
    with child("--json", tmp=tmp_path) as process:
        port = announcement(process)["control"]["url"].split(":")[2].split("/")[0]
        again = run("--port", port, tmp=tmp_path)
    assert (again.returncode, "another --port" in again.stderr) == (1, True)


def test_a_human_gets_lines_to_paste(tmp_path: Path) -> None:
    with child(tmp=tmp_path) as process:
        assert process.stdout is not None
        lines: list[str] = []
        while not lines or "Ctrl-C" not in lines[-1]:
            lines.append(process.stdout.readline())
            assert lines[-1]
        process.send_signal(signal.SIGINT)
        assert finished(process)[0] == 0
    exports = {line.split("=")[0] for line in lines if line.startswith("export ")}
    assert {"export ENTRABOT_TENANT_ID", "export ENTRABOT_CA_BUNDLE", "export NO_PROXY"} <= exports
    assert "alice@contoso.example, sponsor" in "".join(lines)


def test_the_command_is_what_the_entry_point_group_expects() -> None:
    assert isinstance(command.help, str)
    assert callable(command.add_arguments)
    assert callable(command.run)


async def test_a_child_whose_sandbox_is_left_is_gone() -> None:
    async with Sandbox.start() as sandbox:
        pid, bundle = sandbox.process.pid, Path(sandbox.environment["ENTRABOT_CA_BUNDLE"])
        assert psutil.pid_exists(pid)
    assert not psutil.pid_exists(pid)
    assert not bundle.parent.exists()
