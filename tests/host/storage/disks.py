"""A small disk that can be full, or take no writes for a while."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount a file system of its own, of 256 KiB, on ``folder``, which is made. Skips where that cannot be done."""
    folder.mkdir()
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        pytest.skip("a small file system can be mounted by root only")
    done = subprocess.run([mount, "-t", "tmpfs", "-o", "size=256k", "none", folder], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr!r}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@contextmanager
def filled(disk: Path) -> Iterator[None]:
    """Leave no room on a disk for the length of a block."""
    path = disk / "filler"
    with path.open("ab", buffering=0) as filler, suppress(OSError):
        while True:
            filler.write(b"f" * 4096)
    try:
        yield
    finally:
        path.unlink()


@contextmanager
def read_only(disk: Path) -> Iterator[None]:
    """Let a mounted disk take no writes for the length of a block."""
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
