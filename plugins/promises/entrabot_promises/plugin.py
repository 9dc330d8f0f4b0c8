"""What the promises plugin offers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from entrabot_host import Audit, HealthCheck, Hints, Host, PromptFragment, Tool, Wrapper, hookimpl
from entrabot_promises.domain import Promises
from entrabot_promises.prompt import FRAGMENT

_READS = Hints(read_only=True, destructive=False, idempotent=True, open_world=False)
_WRITES = Hints(read_only=False, destructive=False, idempotent=False, open_world=False)


@hookimpl
def register_tools(host: Host) -> Iterable[Tool]:
    """Recording, listing and keeping promises."""
    tools = host.shared(Promises).tools
    return [
        Tool(
            tools.add_promise,
            title="Record a promise",
            hints=_WRITES,
            audit=Audit(action="promise.add", resource="chat_id"),
        ),
        Tool(tools.list_promises, title="List promises", hints=_READS),
        Tool(
            tools.resolve_promise,
            title="Resolve a promise",
            hints=_WRITES,
            audit=Audit(action="promise.resolve", resource="promise_id"),
        ),
    ]


@hookimpl
def wrap_tool(tool: Tool, host: Host) -> Wrapper | None:
    """A look at every text that goes out: does it promise something nobody recorded?"""
    return host.shared(Promises).wrapper(tool)


@hookimpl
def prompt_fragments() -> PromptFragment:
    """How to keep promises."""
    return FRAGMENT


@hookimpl
def body_state(host: Host) -> Mapping[str, Callable[[], Awaitable[Any]]]:
    """What is owed."""
    return {"promises": host.shared(Promises).state}


@hookimpl
def health_checks(host: Host) -> Iterable[HealthCheck]:
    """Whether the file makes sense."""
    return [HealthCheck("promises", host.shared(Promises).readable)]
