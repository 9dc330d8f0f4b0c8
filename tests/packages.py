"""Packages of other people that some tests drive: installed once for all runs, into the user's cache folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

MICROSOFT_SDK = "msgraph-sdk==1.65.0"
_INSTALL_SECONDS = 400


def without(reason: str) -> None:
    """Skip the test for a reason; in CI nothing is skipped."""
    pytest.fail(f"{reason}; in CI nothing is skipped") if os.environ.get("CI") else pytest.skip(reason)


def node_packages(package_json: Path) -> Path:
    """The folder in which the packages of a ``package.json`` are installed."""
    if not (shutil.which("node") and shutil.which("npm")):
        without("Node and npm are not installed")
    wanted = package_json.read_bytes()

    def install(folder: Path) -> None:
        (folder / "package.json").write_bytes(wanted)
        quiet = ("--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock", "--omit=dev", "--loglevel=error")
        _run(["npm", "install", "--prefix", str(folder), *quiet])

    return _once(f"node-{hashlib.sha256(wanted).hexdigest()[:16]}", install)


def microsoft_sdk() -> Path:
    """A Python interpreter that has Microsoft's Graph SDK; it is large, and nothing of ours needs it."""

    def install(folder: Path) -> None:
        _run([sys.executable, "-m", "venv", str(folder)])
        _run([str(folder / "bin" / "python"), "-m", "pip", "install", "-q", MICROSOFT_SDK])

    return _once(MICROSOFT_SDK, install) / "bin" / "python"


def _once(name: str, install: Callable[[Path], None]) -> Path:
    """Return a folder of the cache; what is installed there half is installed again. Safe for several processes."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "entrabot-tests"
    cache.mkdir(parents=True, exist_ok=True)
    folder, complete = cache / name, cache / f"{name}.complete"
    with FileLock(cache / f"{name}.lock", timeout=2 * _INSTALL_SECONDS):
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            install(folder)
            complete.touch()
    return folder


def _run(command: list[str]) -> None:
    with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        done = subprocess.run(command, stdout=said, stderr=said, timeout=_INSTALL_SECONDS, check=False)
        if done.returncode:
            said.seek(0)
            without(f"{' '.join(command[:4])} failed: {said.read()[-500:]}")
