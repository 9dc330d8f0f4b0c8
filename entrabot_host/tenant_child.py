"""A sandbox tenant as a child process: started, asked for its environment, gone when we go.

The child is the ``sandbox`` command of whatever distribution provides it. It prints one line of JSON
(``{"environment": {...}, ...}``) and lives until its standard input closes.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from typing import Any

from entrabot_host.commands import installed_commands
from entrabot_host.config import Layer
from entrabot_host.errors import SettingsError

COMMAND = "sandbox"
_START_SECONDS = 30.0
_PROXY_VARIABLES = ("NO_PROXY", "no_proxy")


class TenantChild:
    """The running child. ``process`` may be handed to whoever ends children."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._description: dict[str, Any] | None = None

    @classmethod
    def start(cls) -> TenantChild:
        """Start it without waiting. Raises `SettingsError` when no installed distribution offers it."""
        if COMMAND not in installed_commands():
            raise SettingsError(
                "No sandbox tenant is installed.",
                remedy="Install the distribution entrabot-sandbox; from a clone: pip install ./plugins/sandbox",
            )
        # -P: the working directory is the MCP host's choice, and nothing of it may be imported.
        command = [sys.executable, "-P", "-m", "entrabot_host.cli.main", COMMAND, "--json"]
        return cls(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))  # noqa: S603 - our own command

    def describe(self) -> dict[str, Any]:
        """Wait until it listens and return what it says about itself. Raises `SettingsError`."""
        if self._description is None:
            line = self._first_line()
            try:
                self._description = json.loads(line)
            except ValueError:
                self.stop()
                raise SettingsError(
                    "The sandbox tenant did not start; its messages are on stderr.",
                    remedy="Try `entrabot sandbox` by itself.",
                ) from None
        return self._description

    def layer(self) -> Layer:
        """Its environment as the topmost layer of settings. Loopback is taken out of any proxy's reach."""
        environment = {str(name): str(value) for name, value in self.describe()["environment"].items()}
        for name in _PROXY_VARIABLES:
            if name in environment:
                os.environ[name] = environment[name]
        return Layer("the sandbox tenant (--sandbox)", environment)

    def stop(self) -> None:
        """End it: it goes when its standard input closes."""
        if self.process.stdin:
            self.process.stdin.close()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(timeout=5)
        if self.process.stdout:
            self.process.stdout.close()

    def _first_line(self) -> bytes:
        """Read one line, bounded in time; a pipe cannot be read with a timeout otherwise."""
        lines: queue.Queue[bytes] = queue.Queue(1)
        stdout = self.process.stdout
        if stdout is None:
            return b""
        threading.Thread(target=lambda: lines.put(stdout.readline()), daemon=True).start()
        try:
            return lines.get(timeout=_START_SECONDS)
        except queue.Empty:
            return b""
