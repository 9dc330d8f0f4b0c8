"""``entrabot login``: a person signs in, and the servers on this machine may act in that person's name."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from entrabot_host.application import Application
from entrabot_host.auth.delegated import DelegatedProvider
from entrabot_host.auth.delegated_settings import TOKEN_CACHE
from entrabot_host.auth.provider import SignInPrompt
from entrabot_host.auth.vaults import Kind
from entrabot_host.cli.login_shared import add_flags, named, run, shown, usable_provider
from entrabot_host.errors import AuthError, SettingsError

if TYPE_CHECKING:
    from rich.console import Console

_EXPLANATION = """A person signs in with ENTRABOT_CLIENT_ID: with a browser on this machine, or, without one, with a
code on any device. The agent then acts in that person's own name. Whoever was signed in before is forgotten. Servers
that run already and wait for a sign-in notice it. An agent with an identity of its own needs none of this. With --json
each line is a JSON object: first what the person has to do, then the account. Exits 1 when nobody signed in."""


class LoginCommand:
    """Signs a person in. Imports no MCP SDK."""

    help = _EXPLANATION

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the flags."""
        parser.add_argument("--device-code", action="store_true", help="show a code instead of opening a browser")
        add_flags(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        """Sign in and say who it is."""
        return run("login", arguments, lambda application: _login(application, arguments))


command = LoginCommand()


async def _login(application: Application, arguments: argparse.Namespace) -> int:
    provider = usable_provider(application)
    if provider.store.kind is Kind.MEMORY:
        raise SettingsError(
            f"{TOKEN_CACHE}=memory keeps nothing, so signing in here would help no server.",
            remedy=f"Unset {TOKEN_CACHE}, or let the server itself ask for the sign-in.",
        )
    voice = _Lines() if arguments.json else _Voice()
    provider.on_prompt(voice.ask)
    await provider.sign_in_anew(device_code=arguments.device_code)
    account = await provider.account()
    if account is None:
        raise AuthError("The sign-in was not kept.", remedy="Look at `entrabot status`, then try again.")
    voice.done({"account": shown(account), **kept(provider)}, named(account))
    return 0


def kept(provider: DelegatedProvider) -> dict[str, Any]:
    """Return where the tokens are."""
    store = provider.store
    found: dict[str, Any] = {"token_cache": str(store.kind or ""), "location": store.location}
    return found | ({"problem": store.problem} if store.problem else {})


class _Lines:
    """One JSON object a line, for scripts."""

    def ask(self, prompt: SignInPrompt | None) -> None:
        if prompt is not None:
            asked = {"url": prompt.url, "code": prompt.code, "expires_in": round(prompt.seconds_left)}
            print(json.dumps({"sign_in": asked, "message": prompt.sentence}), flush=True)

    def done(self, report: dict[str, Any], name: str) -> None:
        print(json.dumps(report), flush=True)


class _Voice:
    """For people."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console: Console = Console()

    def ask(self, prompt: SignInPrompt | None) -> None:
        if prompt is not None:
            self._console.print(prompt.sentence, markup=False, highlight=False, soft_wrap=True)

    def done(self, report: dict[str, Any], name: str) -> None:
        self._console.print(f"Signed in as {name}.", markup=False, highlight=False, soft_wrap=True)
        where = report.get("problem") or f"The tokens are in the {report['token_cache']}: {report['location']}."
        self._console.print(where, markup=False, highlight=False, soft_wrap=True)
