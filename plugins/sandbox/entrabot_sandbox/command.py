"""The command line: start a sandbox, or speak to the one that runs."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from typing import Any


class SandboxCommand:
    """``entrabot sandbox``: an object with ``help``, ``add_arguments`` and ``run``."""

    help = "Start a local stand-in for Microsoft Entra and Graph, or speak to the people in it"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the options and the sub-actions."""
        parser.add_argument("--port", type=int, default=0, help="listen on this port (default: any free one)")
        parser.add_argument("--json", action="store_true", help="print the environment as one line of JSON")
        parser.add_argument("--keep-open", action="store_true", help="with --json: go on when standard input closes")
        actions = parser.add_subparsers(dest="sandbox_action", metavar="{say,chats}")
        say = actions.add_parser("say", help="say something in a running sandbox, as one of its people")
        say.add_argument("--as", dest="person", default="alice", help="who speaks (default: alice)")
        say.add_argument("--chat", help="the chat's id (default: the chat with the agent)")
        say.add_argument("text", help="what to say")
        chats = actions.add_parser("chats", help="show the chats of a running sandbox")
        chats.add_argument("--as", dest="person", help="only this person's chats")
        for action in (say, chats):
            action.add_argument("--port", dest="of", type=int, default=0, help="the sandbox's port, if several run")

    def run(self, args: argparse.Namespace) -> int:
        """Do it. Returns the exit status."""
        if args.sandbox_action is None:
            return _start(args)
        from entrabot_sandbox.remote import chats, say

        if args.sandbox_action == "chats":
            return chats(args.of, args.person)
        return say(args.of, args.person, args.chat, args.text)


command = SandboxCommand()


def main() -> int:
    """``python -m entrabot_sandbox``."""
    parser = argparse.ArgumentParser(prog="python -m entrabot_sandbox", description=command.help)
    command.add_arguments(parser)
    return command.run(parser.parse_args())


def _start(args: argparse.Namespace) -> int:
    from entrabot_sandbox.runtime import NoSandboxError
    from entrabot_sandbox.server import run

    try:
        return run(args.port, _print_json if args.json else _print_human, until_stdin_closes=_is_child(args))
    except OSError as error:
        print(f"The sandbox can't start: {error}. Try another --port.", file=sys.stderr)
    except NoSandboxError as error:
        print(f"The sandbox can't start: {error}", file=sys.stderr)
    return 1


def _is_child(args: argparse.Namespace) -> bool:
    return bool(args.json and not args.keep_open)


def _print_json(announcement: dict[str, Any]) -> None:
    print(json.dumps(announcement), flush=True)


def _print_human(announcement: dict[str, Any]) -> None:
    people = announcement["people"].values()
    names = ", ".join(f"{p['key']} ({p['upn']}{', sponsor' if p['sponsor'] else ''})" for p in people)
    exports = [f"export {name}={shlex.quote(value)}" for name, value in announcement["environment"].items()]
    delegated = announcement["delegated"]
    signing_in = [f"  client id {delegated['client_id']}", f"  authority {delegated['authority']}"]
    lines = [
        f"A sandbox tenant listens on {announcement['environment']['ENTRABOT_GRAPH_URL']}. Nothing of it is real.",
        "",
        "To let a server live in it, paste into its shell:",
        "",
        *exports,
        "",
        f"People: {names}.",
        "To speak as one of them, from another terminal:",
        "",
        "  entrabot sandbox say --as alice 'Good morning'",
        "  entrabot sandbox chats",
        "",
        "To try signing in as one of them, give a program this public client and tenant:",
        "",
        *signing_in,
        "",
        "Ctrl-C ends it and leaves nothing behind.",
    ]
    print("\n".join(lines), flush=True)
