"""``entrabot demo``: the whole product, end to end, against a sandbox tenant."""

from __future__ import annotations

import argparse


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

        return run(svg=arguments.svg, plugins=arguments.plugins)


command = DemoCommand()
