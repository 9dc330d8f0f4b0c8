"""Where a running sandbox can be found by another terminal of the same user."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from entrabot_sandbox.certificates import write_private


class NoSandboxError(Exception):
    """There is no running sandbox, or its whereabouts can't be trusted."""


def runtime_folder() -> Path:
    """The user's own folder for the whereabouts of running sandboxes; it need not exist."""
    user = str(os.getuid()) if hasattr(os, "getuid") else getpass.getuser()
    return Path(tempfile.gettempdir()) / f"entrabot-sandboxes-{user}"


@contextlib.contextmanager
def announced(control: dict[str, Any]) -> Iterator[None]:
    """Leave the way to the control API in the runtime folder as long as the sandbox runs."""
    folder = runtime_folder()
    path = folder / f"{os.getpid()}.json"
    _leave(folder, path, json.dumps(control).encode())
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            folder.rmdir()


def running(port: int = 0) -> dict[str, Any]:
    """The control API of the sandbox on a port, or of the only one. Raises NoSandboxError."""
    found = {urlsplit(control["url"]).port: control for control in _all_running()}
    ports = ", ".join(str(one) for one in sorted(filter(None, found)))
    if not found:
        raise NoSandboxError("No sandbox is running. Start one with: entrabot sandbox")
    if port and port not in found:
        raise NoSandboxError(f"No sandbox listens on port {port}; there are some on: {ports}.")
    if not port and len(found) > 1:
        raise NoSandboxError(f"Several sandboxes are running. Name one with --port, of these: {ports}.")
    return found[port] if port else next(iter(found.values()))


def _all_running() -> Iterator[dict[str, Any]]:
    folder = runtime_folder()
    if not folder.exists():
        return
    _check(folder)
    for path in folder.glob("*.json"):
        if _is_alive(path):
            yield json.loads(path.read_text(encoding="utf-8"))
        else:
            path.unlink(missing_ok=True)


def _leave(folder: Path, path: Path, content: bytes) -> None:
    """Write the file; another sandbox that ends just now may take the empty folder away in between."""
    for attempt in range(5):
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        try:
            _check(folder)
            path.unlink(missing_ok=True)
            return write_private(path, content)
        except FileNotFoundError:
            if attempt == 4:
                raise
    return None


def _check(folder: Path) -> None:
    """Refuse a folder that somebody else made or may read."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise NoSandboxError(f"{folder} is not a folder. Remove it.")
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o077):
        raise NoSandboxError(f"{folder} is not yours alone. Remove it, or make it 0700.")


def _is_alive(path: Path) -> bool:
    try:
        os.kill(int(path.stem), 0)
    except (ValueError, OSError):
        return False
    return True
