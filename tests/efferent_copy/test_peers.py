"""Which peers may become observers."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from entrabot_efferent_copy import peers
from entrabot_efferent_copy.peers import Candidates, Choice, Peer, candidates

ON = {"EFFERENT_COPY_ENABLE": "1"}
FILE = {
    "a": {"command": "a-server", "args": ["--x"], "env": {"K": "v"}, "cwd": "/"},
    "b": {"type": "sse", "url": "https://b.example/sse", "headers": {"X": "y"}},
    "c": {"type": "streamable-http", "url": "https://c.example/mcp"},
    "d": {"type": "http", "url": "https://d.example/mcp"},
}


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": FILE}), encoding="utf-8")
    return folder


@pytest.fixture
def named(tmp_path: Path) -> Path:
    path = tmp_path / "observers.json"
    path.write_text(json.dumps({"mcpServers": FILE}), encoding="utf-8")
    return path


def names(found: Candidates) -> list[str]:
    return [peer.name for peer in found.peers]


@pytest.mark.parametrize(
    ("environ", "enabled"),
    [
        ({}, False),
        ({"EFFERENT_COPY_ENABLE": "0"}, False),
        (ON, True),
        ({**ON, "EFFERENT_COPY_DISABLE": "1"}, False),
        ({**ON, "EFFERENT_COPY_DISABLE": "yes please"}, False),
        ({**ON, "EFFERENT_COPY_DISABLE": "0"}, True),
        ({"EFFERENT_COPY_SINKS": "a"}, False),
    ],
)
def test_disable_wins_over_enable_over_sinks(environ: dict[str, str], enabled: bool, named: Path) -> None:
    choice = Choice.of({**environ, "EFFERENT_COPY_CONFIG": str(named)})
    assert choice.enabled is enabled
    assert bool(candidates(choice).peers) is enabled


def test_every_peer_of_a_named_file_is_a_candidate(named: Path) -> None:
    found = candidates(Choice.of({**ON, "EFFERENT_COPY_CONFIG": str(named)}))
    assert found.peers == (
        Peer("a", "stdio", command="a-server", args=("--x",), env={"K": "v"}, cwd="/"),
        Peer("b", "sse", url="https://b.example/sse", headers={"X": "y"}),
        Peer("c", "http", url="https://c.example/mcp"),
        Peer("d", "http", url="https://d.example/mcp"),
    )
    assert candidates(Choice.of(ON), named).peers == found.peers
    assert [Peer.from_dict(json.loads(json.dumps(peer.to_dict()))) for peer in found.peers] == list(found.peers)


def test_sinks_narrow_the_choice_and_a_typing_error_is_told(named: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = candidates(Choice.of({**ON, "EFFERENT_COPY_SINKS": "c, d,e"}), named)
    assert names(found) == ["c", "d"]
    assert "'e'" in caplog.text


def test_the_working_directory_is_not_trusted(workdir: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = candidates(Choice.of(ON))
    assert found.peers == ()
    assert found.passed_over == ("a", "b", "c", "d")
    assert "EFFERENT_COPY_SINKS" in caplog.text
    assert "'a', 'b', 'c', 'd'" in caplog.text


def test_the_working_directory_counts_for_those_who_are_named(workdir: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert names(candidates(Choice.of({**ON, "EFFERENT_COPY_SINKS": "b"}))) == ["b"]
    assert caplog.text == ""
    assert len(names(candidates(Choice.of({**ON, "EFFERENT_COPY_TRUST_WORKDIR": "1"})))) == 4


def test_a_named_file_stands_instead_of_the_working_directory(workdir: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text('{"mcpServers": {"mine": {"command": "mine"}}}', encoding="utf-8")
    assert names(candidates(Choice.of({**ON, "EFFERENT_COPY_CONFIG": str(path)}))) == ["mine"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"mcpServers": []}',
        b'{"mcpServers": 3}',
        b"null",
        b"[" * 100_000,
        b'{"other": 1}',
    ],
)
def test_a_malformed_file_is_told_and_ignored(content: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    assert candidates(Choice.of(ON), path).peers == ()
    assert str(path) in caplog.text
    assert len(caplog.records) == 1


def test_a_missing_or_huge_file_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert candidates(Choice.of(ON), tmp_path / "missing.json").peers == ()
    assert "missing.json" in caplog.text
    huge = tmp_path / "huge.json"
    huge.write_bytes(b" " * (peers._LARGEST_FILE + 1))
    assert candidates(Choice.of(ON), huge).peers == ()
    assert "larger" in caplog.text


@pytest.mark.parametrize(
    "entry",
    [
        3,
        {},
        {"command": ""},
        {"command": ["x"]},
        {"command": "x", "args": "y"},
        {"command": "x", "args": [1]},
        {"command": "x", "env": ["y"]},
        {"command": "x", "env": {"y": None}},
        {"command": "x\0y"},
        {"type": "carrier-pigeon", "url": "https://x.example"},
        {"type": "http"},
        {"type": "sse", "url": "file:///etc/passwd"},
        {"type": "http", "url": "https://x.example", "headers": {"X": "${EFFERENT_TEST_UNSET}"}},
    ],
)
def test_a_bad_entry_is_told_and_spoils_no_other(
    entry: object, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EFFERENT_TEST_UNSET", raising=False)
    path = tmp_path / "mixed.json"
    path.write_text(json.dumps({"mcpServers": {"bad": entry, "good": {"command": "good"}}}), encoding="utf-8")
    assert names(candidates(Choice.of(ON), path)) == ["good"]
    assert "'bad'" in caplog.text


def test_variables_are_expanded_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EFFERENT_TEST", "set")
    monkeypatch.delenv("EFFERENT_TEST_UNSET", raising=False)
    path = tmp_path / "variables.json"
    entries = {
        "a": {
            "command": "${EFFERENT_TEST}",
            "args": ["x-${EFFERENT_TEST}-${EFFERENT_TEST_UNSET:-default}", "$EFFERENT_TEST", "${}"],
            "env": {"E": "${EFFERENT_TEST_UNSET:-}"},
        },
        "b": {"type": "http", "url": "https://${EFFERENT_TEST}.example", "headers": {"H": "Bearer ${EFFERENT_TEST}"}},
    }
    path.write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
    a, b = candidates(Choice.of(ON), path).peers
    assert (a.command, a.args, a.env) == ("set", ("x-set-default", "$EFFERENT_TEST", "${}"), {"E": ""})
    assert (b.url, b.headers) == ("https://set.example", {"H": "Bearer set"})


def test_ourselves_and_disabled_peers_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    path = tmp_path / "self.json"
    entries = {"me": {"command": "uv", "args": ["run", "entrabot-mcp"]}, "off": {"command": "x", "disabled": True}}
    path.write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
    assert candidates(Choice.of(ON), path).peers == ()
    assert "'me' is this server itself" in caplog.text


def test_secrets_are_not_shown(named: Path) -> None:
    secret = Peer(
        "x", "http", url="https://x/?sig=s3cr3t", headers={"A": "s3cr3t"}, env={"K": "s3cr3t"}, args=("s3cr3t",)
    )
    assert "s3cr3t" not in repr(secret)
