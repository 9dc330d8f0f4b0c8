"""``entrabot demo`` shows what the plugins at hand can do. With all of them it runs in test_wheels.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCENES = {
    "none": {"none of them"},
    "files": {"A file, shared on the sponsor's word"},
    "email": {"A mail, and its answer"},
    "promises": {"What it promised"},
    "a365": {"A comment in Word is answered"},
    "files,promises": {"A file, shared on the sponsor's word", "What it promised"},
}
ALL = set().union(*SCENES.values()) - {"none of them"}


def test_a_plugin_that_is_not_there_is_named(bare: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "entrabot_host.cli.main", "demo", "--plugins", "tems"]
    done = subprocess.run(command, cwd=tmp_path, env=bare, capture_output=True, encoding="utf-8", timeout=60)
    assert done.returncode == 2
    assert "'tems', which is not installed" in done.stderr


@pytest.mark.parametrize("plugins", SCENES)
def test_a_subset_plays_its_own_scenes(plugins: str, bare: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "entrabot_host.cli.main", "demo", "--plugins", plugins]
    wide = {**bare, "COLUMNS": "200"}
    done = subprocess.run(command, cwd=tmp_path, env=wide, capture_output=True, encoding="utf-8", timeout=90)
    played = {line[3:].split(" ──")[0].strip() for line in done.stdout.splitlines() if line[:1].isdigit()}

    assert done.returncode == 0, done.stdout + done.stderr
    assert "promises kept" in done.stdout
    assert played & ALL == SCENES[plugins] & ALL
    assert {"The agent has an identity of its own", "On the record"} <= played
