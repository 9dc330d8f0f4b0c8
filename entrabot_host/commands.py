"""Subcommands that other distributions add to ``entrabot``: the entry-point group ``entrabot.commands``."""

from __future__ import annotations

import argparse
from typing import Any, Protocol

GROUP = "entrabot.commands"


class Command(Protocol):
    """A subcommand. Its module should import little: it is loaded when the command is called."""

    @property
    def help(self) -> str:
        """One line about it."""
        ...

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare its arguments."""
        ...

    def run(self, arguments: argparse.Namespace) -> int:
        """Do it and return the exit status: 0 done, 1 failed, 2 wrong usage."""
        ...


def installed_commands() -> dict[str, Any]:
    """Entry points by command name, none of them imported."""
    from importlib_metadata import entry_points

    return {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)}
