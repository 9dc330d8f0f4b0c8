"""A peer that is this server is found out; another server that shares our interpreter is not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from entrabot_efferent_copy import _is_self_referential_peer, _wrapper_self_ref_target


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This process, run as a script of another name."""
    script = tmp_path / "bin" / "our-server"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n", encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(script)])
    return script


def ours(*line: str, **more: Any) -> bool:
    return _is_self_referential_peer({"command": line[0], "args": list(line[1:]), **more})


@pytest.mark.parametrize(
    "line",
    [
        ["entrabot-mcp"],
        ["/somewhere/else/entrabot-mcp", "--sandbox"],
        ["entrabot-mcp.exe"],
        [sys.executable, "-m", "entrabot_host.main"],
        [sys.executable, "-P", "-X", "utf8", "-mentrabot_host.main"],
        ["python3", "-u", "-m", "entrabot_host.main", "--plugins", "teams"],
        ["python", "-c", "from entrabot_host.main import main; main()"],
        ["uv", "run", "entrabot-mcp"],
        ["uv", "--directory", "/x", "run", "--with", "a", "--no-sync", "entrabot-mcp"],
        ["uv", "run", "python", "-m", "entrabot_host.main"],
        ["uv", "run", "-m", "entrabot_host.main"],
        ["uv", "tool", "run", "--from", "entrabot-host", "entrabot-mcp"],
        ["uvx", "--from", "entrabot-host", "entrabot-mcp"],
        ["pipx", "run", "--spec", "entrabot-host", "entrabot-mcp"],
        ["env", "A=b", "-u", "X", "entrabot-mcp"],
        ["/usr/bin/env", "python3", "-m", "entrabot_host.main"],
        ["sh", "-c", "cd /tmp && exec entrabot-mcp --read-only"],
        ["bash", "-lc", "FOO=1 uv run entrabot-mcp; true"],
        [sys.executable],
    ],
)
def test_ours(line: list[str]) -> None:
    assert ours(*line)


@pytest.mark.parametrize(
    "line",
    [
        [sys.executable, "-m", "another_server"],
        [sys.executable, "another_server.py"],
        [sys.executable, "another_server.py", "entrabot-mcp"],
        [sys.executable, "another_server.py", "-m", "entrabot_host.main"],
        ["another-server", "--like", "entrabot-mcp"],
        ["uv", "run", "another-server", "entrabot-mcp"],
        ["uv", "run", "--with", "entrabot-mcp", "another-server"],
        ["uvx", "another-server"],
        ["npx", "-y", "@somebody/entrabot-mcp-observer"],
        ["sh", "-c", "another-server entrabot-mcp"],
        ["sh", "-c", "unclosed 'quote"],
        ["env"],
        [""],
    ],
)
def test_not_ours(line: list[str]) -> None:
    assert not ours(*line)


def test_other_transports_are_not_ours() -> None:
    assert not _is_self_referential_peer({"type": "http", "url": "http://localhost/entrabot-mcp"})


def test_the_running_script_by_path_link_and_name(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = tmp_path / "link"
    link.symlink_to(own)
    assert ours(str(own))
    assert ours(str(link))
    assert ours("./bin/our-server", cwd=str(tmp_path))
    assert ours(sys.executable, str(own))
    assert ours("bash", "bin/our-server", cwd=str(tmp_path))
    assert not ours("our-server")
    assert ours("our-server", env={"PATH": str(own.parent)})
    monkeypatch.setenv("PATH", str(own.parent))
    assert ours("our-server")


def test_wrapper_scripts_declare_what_they_run(own: Path, tmp_path: Path) -> None:
    wrapper = tmp_path / "debug.sh"
    wrapper.write_text("#!/bin/sh\n# entrabot-self-ref-target: bin/our-server\nexec strange\n", encoding="utf-8")
    assert _wrapper_self_ref_target(wrapper) == own
    assert ours(str(wrapper))
    assert ours("sh", str(wrapper))
    outer = tmp_path / "outer.sh"
    outer.write_text(f"# entrabot-self-ref-target: {wrapper}\n", encoding="utf-8")
    assert ours(str(outer))


def test_wrappers_of_others_and_endless_ones_are_not_ours(own: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.sh"
    other.write_text("#!/bin/sh\n# entrabot-self-ref-target: /usr/bin/other\n", encoding="utf-8")
    endless = tmp_path / "endless.sh"
    endless.write_text("# entrabot-self-ref-target: endless.sh\n", encoding="utf-8")
    plain = tmp_path / "plain.sh"
    plain.write_text("exec other\n", encoding="utf-8")
    assert not ours(str(other))
    assert not ours(str(endless))
    assert not ours(str(plain))
    assert _wrapper_self_ref_target(plain) is None
    assert _wrapper_self_ref_target(tmp_path / "missing") is None
    assert _wrapper_self_ref_target(tmp_path) is None
