"""`entrabot-mcp`: the server. Its first statements decide how fast it starts."""

import gc

gc.disable()  # Collecting while a thousand modules are imported costs a third of the start.

import argparse  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import TYPE_CHECKING  # noqa: E402

if TYPE_CHECKING:
    from entrabot_host.lifecycle import Stop
    from entrabot_host.wire.descriptors import Wire


def main(argv: list[str] | None = None) -> None:
    """Run the server on stdin and stdout until the client goes. Exits 0, 1 for a crash, 2 for wrong settings."""
    arguments = _parser().parse_args(argv)
    if arguments.version:
        from importlib import metadata

        print(f"entrabot-mcp {metadata.version('entrabot-host')}")
        return
    from entrabot_host.wire.descriptors import claim_descriptors

    wire = claim_descriptors()  # Before any plugin is imported: from here on stdout belongs to the protocol alone.

    from entrabot_host.lifecycle import run_server

    run_server(lambda stop: _serve(stop, arguments, wire))


async def _serve(stop: "Stop", arguments: argparse.Namespace, wire: "Wire") -> None:
    """Assemble and serve. What is heavy is imported here, where a signal is answered meanwhile."""
    from entrabot_host.errors import EntrabotError
    from entrabot_host.lifecycle import HARD_SECONDS, STARTING_SECONDS
    from entrabot_host.tenant_child import TenantChild

    stop.patience = STARTING_SECONDS
    stop.watch(wire.read_fd, wire.write_fd)
    try:
        child = TenantChild.start() if arguments.sandbox else None
        if child:
            stop.children.add(child.process)  # It starts while we import.
        from entrabot_host.application import Application
        from entrabot_host.config import load_config, unread_settings
        from entrabot_host.logs import start_logging
        from entrabot_host.serve import serve

        config = load_config(_flags(arguments), env_file=arguments.env_file, overlay=child.layer() if child else None)
        logging = start_logging(config)
        _tell_of_unread(unread_settings(Path.cwd()))
        application = Application(config)
    except EntrabotError as error:
        from entrabot_host.security.redaction import redact

        print(redact(f"entrabot-mcp: {error.message} {error.remedy}").rstrip(), file=sys.stderr)
        sys.exit(2)
    gc.freeze()
    gc.enable()
    stop.patience = HARD_SECONDS
    try:
        await serve(stop, application, wire)
    finally:
        logging.stop()


def _tell_of_unread(path: Path | None) -> None:
    if path is not None:
        import logging

        logging.getLogger(__name__).warning(
            "%s holds settings of Entrabot and is not read, since the working directory may be a stranger's. "
            "If it is yours, name it with --env-file.",
            path,
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="entrabot-mcp",
        description="Entrabot's MCP server, for an MCP host to launch: it speaks MCP on stdin and stdout.",
    )
    parser.add_argument(
        "--sandbox", action="store_true", help="use a sandbox tenant of its own instead of Microsoft 365"
    )
    parser.add_argument("--plugins", default="", metavar="A,B", help="use only these plugins; none for none")
    parser.add_argument(
        "--plugin", action="append", default=[], metavar="FILE.py", help="use this file as a plugin too"
    )
    parser.add_argument("--read-only", action="store_true", help="offer only tools that change nothing")
    parser.add_argument("--env-file", default="", metavar="FILE", help="read settings from this file too")
    parser.add_argument("--version", action="store_true", help="print the version")
    return parser


def _flags(arguments: argparse.Namespace) -> dict[str, str]:
    flags = {"ENTRABOT_PLUGINS": arguments.plugins, "ENTRABOT_PLUGIN_FILES": os.pathsep.join(arguments.plugin)}
    if arguments.read_only:
        flags["ENTRABOT_READ_ONLY"] = "1"
    return flags


if __name__ == "__main__":
    main()
