"""``entrabot status``: who a server would be here, tried out."""

from __future__ import annotations

import argparse
import json
from typing import Any

from entrabot_host.application import Application
from entrabot_host.auth.delegated import DelegatedProvider
from entrabot_host.auth.provider import AuthProvider, Principal, Prompting
from entrabot_host.auth.unusable import UnusableProvider
from entrabot_host.cli.login import kept
from entrabot_host.cli.login_shared import add_flags, run, shown
from entrabot_host.errors import AuthError

_EXPLANATION = """Say who a server that starts now would be, and try it: the agent with its certificate, else the person
who signed in with `entrabot login`. Nobody is asked for anything. Exits 0 when one of them works, 1 when none does, 2
when none is configured."""
READY, FAILED, ABSENT, SPARE = "ready", "failed", "not configured", "not needed"


class StatusCommand:
    """Tries what a server would try. Imports no MCP SDK."""

    help = _EXPLANATION

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the flags."""
        add_flags(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        """Try and report."""
        return run("status", arguments, lambda application: _status(application, as_json=arguments.json))


command = StatusCommand()


async def _status(application: Application, *, as_json: bool) -> int:
    report = await examine(application)
    if as_json:
        print(json.dumps(report, indent=2))
    else:
        _print(report)
    if report["identity"]:
        return 0
    return 1 if any(entry["state"] == FAILED for entry in report["providers"]) else 2


async def examine(application: Application) -> dict[str, Any]:
    """Try the providers in the order in which a server tries them; report on all of them."""
    offered = [part.auth for part in application.assembly.contributions if part.auth is not None]
    providers: list[dict[str, Any]] = []
    identity: dict[str, Any] | None = None
    for provider in sorted(offered, key=lambda one: (-one.priority, one.name)):
        entry = await _examined(provider, needed=identity is None)
        providers.append(entry)
        identity = identity or entry.get("identity")
    return {"identity": identity, "providers": providers}


async def _examined(provider: AuthProvider, *, needed: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {"provider": provider.name, "state": SPARE}
    if (reason := provider.unavailable()) is not None:
        return entry | {"state": FAILED if isinstance(provider, UnusableProvider) else ABSENT, "reason": reason}
    if needed:
        entry |= await _tried(provider)
    if isinstance(provider, DelegatedProvider):
        entry |= await _account_of(provider)
    elif needed:
        await provider.aclose()
    return entry


async def _tried(provider: AuthProvider) -> dict[str, Any]:
    try:
        if isinstance(provider, DelegatedProvider):
            principal = await provider.sign_in_silently()
        elif isinstance(provider, Prompting):
            return {"state": FAILED, "reason": "it may ask a person, so it was not tried"}
        else:
            principal = await provider.sign_in()
    except AuthError as error:
        return {"state": FAILED, "reason": error.message, "remedy": error.remedy}
    return {"state": READY, "identity": _identity(principal)}


def _identity(principal: Principal) -> dict[str, Any]:
    return {
        "attribution": str(principal.attribution),
        "user_name": principal.user_name,
        "display_name": principal.display_name,
        "user_id": principal.user_id,
        "tenant_id": principal.tenant_id,
        "provider": principal.provider,
    }


async def _account_of(provider: DelegatedProvider) -> dict[str, Any]:
    try:
        account = await provider.account()
    except AuthError as error:
        return {"account": None, "problem": f"{error.message} {error.remedy}".strip()}
    return {"account": shown(account) if account else None, **kept(provider)}


def _print(report: dict[str, Any]) -> None:
    from rich.console import Console

    console = Console()
    identity = report["identity"]
    who = f"{identity['user_name'] or identity['user_id']} ({identity['attribution']})" if identity else "nobody"
    lines = [f"A server that starts now would be: {who}"]
    for entry in report["providers"]:
        lines += _lines(entry)
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _lines(entry: dict[str, Any]) -> list[str]:
    reason = f": {entry['reason']}" if entry.get("reason") else ""
    lines = [f"- {entry['provider']}: {entry['state']}{reason}"]
    if account := entry.get("account"):
        left = f", token good for {account['expires_in'] // 60} more minutes" if account["expires_in"] else ""
        lines.append(f"  signed in: {account['user_name']}, tenant {account['tenant_id']}{left}")
    if entry.get("token_cache"):
        lines.append(f"  tokens in: {entry['token_cache']}, {entry['location']}")
    return lines + [f"  {entry[extra]}" for extra in ("problem", "remedy") if entry.get(extra)]
