"""What is asked for when a person signs in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from entrabot_host.discovery import HOST
from entrabot_host.security.clouds import Cloud

if TYPE_CHECKING:
    from entrabot_host.assembly import Assembly

WHO_AM_I = "User.Read"
"""What `/me` takes, which proves a sign-in."""


def scopes_for(audience: str, cloud: Cloud, permissions: Iterable[str]) -> list[str]:
    """Return the scopes of a token for ``audience``.

    For Graph the permissions that tools need, each with Graph's address before it, as national clouds want it. For
    any other resource what the person consented to.
    """
    if audience != cloud.graph_audience:
        return [f"{audience}/.default"]
    return [f"{audience}/{name}" for name in sorted({*permissions, WHO_AM_I})]


def delegated_permissions(assembly: Assembly) -> frozenset[str]:
    """Return the Graph permissions that a person's token needs for the tools that are offered.

    Those with a remark in parentheses are app roles or belong to other resources. The host's own tools need no more
    than to know who is signed in: what else they name serves to read the agent's sponsors, which only the agent can.
    """
    tools = [tool.tool for tool in assembly.tools.values() if tool.plugin != HOST]
    named = {permission for tool in tools for permission in tool.permissions}
    return frozenset({WHO_AM_I, *(permission for permission in named if "(" not in permission)})
