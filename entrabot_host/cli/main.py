"""The `entrabot` command. ``--version``, ``--help`` and ``plugins`` do not import the MCP SDK."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from importlib import import_module, metadata

from entrabot_host.commands import Command, installed_commands
from entrabot_host.errors import EntrabotError

BUILT_IN: Mapping[str, tuple[str, str]] = {
    "demo": ("entrabot_host.cli.demo", "show the whole product against a sandbox tenant"),
    "login": ("entrabot_host.cli.login", "let a person sign in, in whose name the agent acts"),
    "logout": ("entrabot_host.cli.logout", "delete the person's tokens on this machine"),
    "new-plugin": ("entrabot_host.cli.new_plugin", "write a new plugin, ready to install"),
    "plugins": ("entrabot_host.cli.plugins", "list the plugins and what they offer"),
    "status": ("entrabot_host.cli.status", "say who the server would be, and try it"),
    "storage": ("entrabot_host.cli.storage", "move stored state to Azure Blob Storage"),
}


def main(argv: list[str] | None = None) -> None:
    """Run a command and exit with its status: 0 done, 1 failed, 2 wrong usage or settings."""
    arguments = sys.argv[1:] if argv is None else argv
    others = installed_commands()
    parser = _parser(sorted(set(others) - set(BUILT_IN)), others)
    if not arguments or arguments[0].startswith("-"):
        parsed = parser.parse_args(arguments)
        if parsed.version:
            print(f"entrabot {metadata.version('entrabot-host')}")
            sys.exit(0)
        parser.print_help()
        sys.exit(2)
    name, rest = arguments[0], arguments[1:]
    if name not in BUILT_IN and name not in others:
        parser.error(f"there is no command of this name; commands are: {', '.join(sorted({*BUILT_IN, *others}))}")
    sys.exit(_run(name, rest, others))


def _run(name: str, arguments: list[str], others: Mapping[str, metadata.EntryPoint]) -> int:
    try:
        command: Command = import_module(BUILT_IN[name][0]).command if name in BUILT_IN else others[name].load()
        parser = argparse.ArgumentParser(prog=f"entrabot {name}", description=command.help)
        command.add_arguments(parser)
        return command.run(parser.parse_args(arguments))
    except EntrabotError as error:
        print(f"entrabot {name}: {error.message} {error.remedy}".rstrip(), file=sys.stderr)
        return 2
    except ImportError as error:
        print(f"entrabot {name}: the command cannot be loaded: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser(extra: list[str], others: Mapping[str, metadata.EntryPoint]) -> argparse.ArgumentParser:
    lines = [f"  {name:<12} {text}" for name, (_, text) in BUILT_IN.items()]
    lines += [f"  {name:<12} (from {dist.name})" for name in extra if (dist := others[name].dist)]
    parser = argparse.ArgumentParser(
        prog="entrabot",
        usage="entrabot [--version] [--help] COMMAND ...",
        description="Entrabot: hands in Microsoft 365 for an AI agent, under its own identity.",
        epilog="commands:\n" + "\n".join(lines) + "\n\nThe server itself is `entrabot-mcp`.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version")
    return parser


if __name__ == "__main__":
    main()
