"""``entrabot demo``: the whole product, end to end, against a sandbox tenant."""

from __future__ import annotations

import argparse

from entrabot_host.config import Config, Layer
from entrabot_host.discovery import ALLOW, installed_plugins, selection, unknown_names
from entrabot_host.errors import SettingsError


class DemoCommand:
    """Exits 0 when every step went as promised."""

    help = "Show the whole product against a sandbox tenant: no Microsoft account needed."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare ``--svg`` and ``--plugins``."""
        parser.add_argument("--svg", default="", metavar="FILE", help="also save the transcript as a picture")

        parser.add_argument(
            "--plugins", default="", metavar="NAMES", help="use only these plugins, separated by commas; none for none"
        )

    def run(self, arguments: argparse.Namespace) -> int:
        """Run the demo."""
        from entrabot_host.cli.demo.run import run

        _check_names(arguments.plugins)
        return run(svg=arguments.svg, plugins=arguments.plugins)


def _check_names(plugins: str) -> None:
    """Raise `SettingsError` for a name that no installed plugin has."""
    chosen = selection(Config([Layer("the flag --plugins", {ALLOW: plugins})]))
    if unknown := unknown_names(chosen, installed_plugins()):
        raise SettingsError(f"{unknown[0]}.", remedy="Correct the name after --plugins.")


command = DemoCommand()
