"""What this plugin offers: nothing unless it is switched on, then a copy of every call for observers."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any

from entrabot_efferent_copy.copier import Copier
from entrabot_efferent_copy.settings import EfferentCopySettings
from entrabot_efferent_copy.wrapping import OBSERVE
from entrabot_host import Band, HealthCheck, Host, PromptFragment, Tool, Wrapper, hookimpl

_ATTRIBUTE = "_entrabot_efferent_copy"


def _copier(host: Host) -> Copier | None:
    """Return the one copier of this host, made when first asked for; None if copies are switched off."""
    held: dict[str, Any] = vars(host)
    if _ATTRIBUTE not in held:
        choice = host.settings.load(EfferentCopySettings).choice()
        held[_ATTRIBUTE] = Copier(choice, host.log) if choice.enabled else None
    found: Copier | None = held[_ATTRIBUTE]
    return found


@hookimpl
def wrap_tool(tool: Tool, host: Host) -> Wrapper | None:
    """Copy every call of every tool but ``observe``."""
    copier = _copier(host)
    name = tool.tool_name
    if copier is None or name == OBSERVE:
        return None
    return Wrapper(lambda call: copier.copied(name, call), Band.OBSERVE)


@hookimpl
def lifespan(host: Host) -> AbstractAsyncContextManager[None] | None:
    """Find the observers and keep the sessions with them."""
    copier = _copier(host)
    return copier.running() if copier else None


@hookimpl
def health_checks(host: Host) -> Iterable[HealthCheck]:
    """Who is told, and what became of the copies."""
    copier = _copier(host)
    return [HealthCheck("efferent-copy", copier.health)] if copier else []


@hookimpl
def prompt_fragments(host: Host) -> PromptFragment | None:
    """That calls are copied."""
    if _copier(host) is None:
        return None
    return PromptFragment(short="Your tool calls and their results are copied to observers that your operator chose.")
