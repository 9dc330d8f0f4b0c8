"""What the commands about signing in have in common."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any, TypeVar

from entrabot_host.application import Application
from entrabot_host.auth.accounts import Account
from entrabot_host.auth.delegated import DelegatedProvider
from entrabot_host.config import load_config
from entrabot_host.discovery import STRICT
from entrabot_host.errors import AuthError, SettingsError

Result = TypeVar("Result")
_SHOWN_BY_US = ("entrabot_host.auth", "entrabot_host.identity")
"""Loggers of what these commands print themselves."""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Declare the flags that all of them take."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--env-file", default="", metavar="FILE", help="read settings from this file too")


def run(name: str, arguments: argparse.Namespace, work: Callable[[Application], Awaitable[int]]) -> int:
    """Do ``work`` with an assembled application; a failed sign-in is status 1."""
    for logger in _SHOWN_BY_US:
        logging.getLogger(logger).addHandler(logging.NullHandler())
    application = Application(load_config({STRICT: "0"}, env_file=arguments.env_file))
    try:
        return asyncio.run(_closed(application, work))
    except AuthError as error:
        if arguments.json:
            print(json.dumps({"error": error.to_dict()}, indent=2))
        else:
            print(f"entrabot {name}: {error.message} {error.remedy}".rstrip(), file=sys.stderr)
        return 1


async def _closed(application: Application, work: Callable[[Application], Awaitable[Result]]) -> Result:
    try:
        return await work(application)
    finally:
        if application.delegated.provider is not None:
            await application.delegated.provider.aclose()
        await application.runtime.aclose()


def usable_provider(application: Application) -> DelegatedProvider:
    """Return the provider of a person's sign-in. Raises `SettingsError` saying why there is none."""
    provider = provider_of(application)
    if (reason := provider.unavailable()) is None:
        return provider
    raise SettingsError(
        f"A person cannot sign in here: {reason}.",
        remedy="Set ENTRABOT_CLIENT_ID to the app id of a public client in Entra.",
    )


def provider_of(application: Application) -> DelegatedProvider:
    """Return the provider of a person's sign-in, also where nobody can sign in with it. Raises `SettingsError`."""
    if application.delegated.provider is not None:
        return application.delegated.provider
    offered = [part.auth for part in application.assembly.contributions if part.name == application.delegated.NAME]
    reason = next((auth.unavailable() for auth in offered if auth is not None), "the settings are wrong")
    raise SettingsError(f"A person cannot sign in here: {reason}", remedy="Correct the setting, or unset it.")


def shown(account: Account) -> dict[str, Any]:
    """Return an account as JSON shows it."""
    found = asdict(account)
    del found["id"]
    return found | {"expires_in": round(account.expires_in)}


def named(account: Account) -> str:
    """Return an account as people read it."""
    name = f"{account.display_name} ({account.user_name})" if account.display_name else account.user_name
    return f"{name or account.user_id}, tenant {account.tenant_id}"
