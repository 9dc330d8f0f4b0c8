"""``whoami``: the identity, what stands behind it, and what is not working. It answers whatever is broken."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from entrabot_host.auth.provider import Attribution, Principal
from entrabot_host.auth.scopes import delegated_permissions
from entrabot_host.discovery import Status
from entrabot_host.errors import EntrabotError
from entrabot_host.tasks import Health, HealthCheck

if TYPE_CHECKING:
    from entrabot_host.application import Application
    from entrabot_host.identity.session import Session

_PART_SECONDS = 20.0
APPLICATION = " (application)"
"""Ends the name of a permission that the agent identity needs as an app role, not the agent user as a scope."""


class Whoami:
    """Holds the application for the tool."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def whoami(self) -> dict[str, Any]:
        """Show who you are signed in as, your sponsors and permissions, and what is not working and why."""
        identity, permissions, sponsors, health = await asyncio.gather(
            _bounded(self._identity),
            _bounded(self._permissions),
            _bounded(self._sponsors),
            self._health(),
        )
        application = self._application
        return {
            "identity": identity,
            "permissions": permissions,
            **sponsors,
            "health": health,
            "plugins": self._plugins(),
            "tools_withheld": dict(application.assembly.withheld),
            "background": application.runtime.supervisor.describe(),
            "client": application.parts.client_state(),
            "version": application.version,
        }

    async def _identity(self) -> dict[str, Any]:
        session = self._application.parts.session
        try:
            me = await session.principal()
        except EntrabotError as error:
            return {"state": str(session.state), "error": error.to_dict(), **_attempts(session)}
        shown = {
            "state": str(session.state),
            "attribution": str(me.attribution),
            "user_principal_name": me.user_name,
            "display_name": me.display_name,
            "user_id": me.user_id,
            "tenant_id": me.tenant_id,
            "agent_id": me.agent_id,
            "provider": me.provider,
            **_attempts(session),
            **self._kept(me),
        }
        try:
            seen = (await self._application.parts.graph.request("GET", "/me", timeout=15.0)).body
            return {**shown, "display_name": seen.get("displayName") or "", "verified_with_graph": True}
        except EntrabotError as error:
            return {**shown, "verified_with_graph": False, "error": error.to_dict()}

    def _kept(self, me: Principal) -> dict[str, Any]:
        """Where a person's tokens are, and what is wrong with that."""
        provider = self._application.delegated.provider
        if provider is None or me.provider != provider.name:
            return {}
        kept = {"token_cache": str(provider.store.kind or "")}
        return kept | ({"token_cache_problem": provider.store.problem} if provider.store.problem else {})

    def _needed(self) -> dict[str, list[str]]:
        """The permissions that this session's identity needs, and the tools that do."""
        needed = self._application.assembly.permissions
        me = self._application.parts.session.known_principal
        if me is None or me.attribution is Attribution.AGENT:
            return needed
        wanted = delegated_permissions(self._application.assembly)
        return {permission: tools for permission, tools in needed.items() if permission in wanted}

    async def _permissions(self) -> dict[str, Any]:
        try:
            cloud = self._application.parts.cloud
            token = await self._application.parts.session.token(cloud.graph_audience)
        except EntrabotError:
            return {"needed": sorted(self._application.assembly.permissions)}
        needed, granted = self._needed(), _scopes(token.secret)
        missing = {permission: tools for permission, tools in needed.items() if not _has(granted, permission)}
        return (
            {"granted": sorted(granted), "not_in_the_users_token": missing} if granted else {"needed": sorted(needed)}
        )

    async def _sponsors(self) -> dict[str, Any]:
        parts = self._application.parts
        try:
            sponsors = await parts.sponsors.sponsors()
        except EntrabotError as error:
            return {"sponsors": [], "sponsor_problems": [error.to_dict()]}
        shown = [
            {
                "object_id": sponsor.object_id,
                "display_name": sponsor.display_name,
                "addresses": sorted(sponsor.addresses),
                "home_identity_known": bool(sponsor.home_id),
            }
            for sponsor in sponsors
        ]
        return {"sponsors": shown, "sponsor_problems": list(parts.sponsors.problems)}

    async def _health(self) -> list[dict[str, Any]]:
        checks = [check for part in self._application.assembly.contributions for check in part.health_checks]
        return list(await asyncio.gather(*(_checked(check) for check in checks)))

    def _plugins(self) -> dict[str, Any]:
        application = self._application
        problems = {problem.plugin.name: problem for problem in application.assembly.problems}
        shown: dict[str, Any] = {status.value: [] for status in Status}
        for plugin in application.installed:
            entry = {"name": plugin.name, "distribution": plugin.distribution, "version": plugin.version}
            if problem := problems.get(plugin.name):
                shown[Status.QUARANTINED].append({**entry, "step": problem.step, "cause": problem.cause})
            else:
                wanted = application.selection.wants(plugin.name)
                shown[Status.ACTIVE if wanted else Status.DISABLED].append(entry)
        shown["failing"] = [
            {"name": failure.plugin, "version": failure.version, "step": failure.step, "cause": failure.cause}
            for failure in application.runtime.failures.current()
        ]
        if application.assembly.notes:
            shown["notes"] = list(application.assembly.notes)
        return {key: value for key, value in shown.items() if value}


def _attempts(session: Session) -> dict[str, Any]:
    """What was tried to sign in and failed, and what was not tried and why; empty when the first try was good."""
    failed = [
        {"provider": attempt.provider, "error": attempt.error.message, "remedy": attempt.error.remedy}
        for attempt in session.attempts
        if attempt.error is not None
    ]
    me = session.known_principal
    passed_over = {} if me and me.attribution is Attribution.AGENT else session.passed_over
    return {key: value for key, value in (("attempts", failed), ("not_tried", passed_over)) if value}


async def _bounded(part: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    try:
        async with asyncio.timeout(_PART_SECONDS):
            return await part()
    except TimeoutError:
        message = f"No answer within {_PART_SECONDS:g} seconds."
        return {"error": {"type": "Timeout", "message": message, "remedy": "Check the network, then ask again."}}


async def _checked(check: HealthCheck) -> dict[str, Any]:
    try:
        async with asyncio.timeout(_PART_SECONDS):
            health = await check.run()
    except TimeoutError:
        health = Health(False, f"no answer within {_PART_SECONDS:g} seconds", "Check the network, then ask again.")
    except EntrabotError as error:
        health = Health(False, error.message, error.remedy)
    except Exception as error:  # a plugin's check: its bug must not take `whoami` away
        health = Health(False, f"the check itself failed: {type(error).__name__}", "Report it to the plugin's author.")
    shown: dict[str, Any] = {"check": check.name, "ok": health.ok, "summary": health.summary}
    return {**shown, "remedy": health.remedy} if health.remedy else shown


def _has(granted: set[str], permission: str) -> bool:
    """Whether the scopes include the permission or a wider one.

    Application permissions, and those of other services, are not in a user's token for Graph: ``Name (whose)``.
    """
    if permission.endswith(")"):
        return True
    wider = permission.replace(".ReadBasic", ".Read"), permission.replace(".Read", ".ReadWrite", 1)
    return any(name in granted or f"{name}.All" in granted for name in (permission, *wider))


def _scopes(token: str) -> set[str]:
    """Read the scopes that a token claims, for display only: nothing is decided by it."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return set(str(claims.get("scp", "")).split())
    except (IndexError, ValueError, binascii.Error, AttributeError):
        return set()
