"""``entrabot logout``: the person's tokens on this machine are deleted."""

from __future__ import annotations

import argparse
import json

from entrabot_host.application import Application
from entrabot_host.cli.login_shared import add_flags, named, provider_of, run, shown

_EXPLANATION = """Delete the tokens of the person who signed in on this machine. Servers that run act in that person's
name until the token they hold expires, about an hour. To end that at once, revoke the person's sessions in Entra."""


class LogoutCommand:
    """Signs the person out. Imports no MCP SDK."""

    help = _EXPLANATION

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the flags."""
        add_flags(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        """Sign out and say who it was."""
        return run("logout", arguments, lambda application: _logout(application, as_json=arguments.json))


command = LogoutCommand()


async def _logout(application: Application, *, as_json: bool) -> int:
    account = await provider_of(application).sign_out()
    if as_json:
        print(json.dumps({"signed_out": shown(account) if account else None}))
    else:
        print(f"Signed out: {named(account)}." if account else "Nobody was signed in.")
    return 0
