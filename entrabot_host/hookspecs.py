"""The hook specifications: the contract between the host and its plugins.

All hooks are synchronous, do no I/O and run once, at assembly. What must happen later is returned as an async
callable. In hooks only ``plugin``, ``settings``, ``log``, ``shared`` and ``store.own`` of ``host`` may be used; others
raise `NotStarted`.

The host's own contributions come first, then plugins in the order of their names. A plugin that raises from any hook
contributes nothing at all: it is quarantined and named, and the server starts without it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import pluggy

from entrabot_host.auth.provider import AuthProvider
from entrabot_host.host import Host
from entrabot_host.prompt.fragment import PromptFragment
from entrabot_host.tasks import BackgroundTask, HealthCheck
from entrabot_host.tools import Tool
from entrabot_host.wrappers import Wrapper

PROJECT = "entrabot"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def register_tools(host: Host) -> Iterable[Tool]:
    """Return the tools this plugin offers.

    Each needs a title, the four hints and a description for every parameter; a name that another plugin offers is
    refused, naming both.

    Example::

        @hookimpl
        def register_tools(host):
            return [Tool(Greeter(host).greet, title="Greet", hints=Hints(...))]
    """
    raise NotImplementedError


@hookspec
def background_tasks(host: Host) -> Iterable[BackgroundTask]:
    """Return the recurring work of this plugin. The host times it, gates it and keeps it alive.

    Example::

        @hookimpl
        def background_tasks(host):
            return [BackgroundTask(name="tide", run=Tide(host).look, interval=600, description="Watches the tide")]
    """
    raise NotImplementedError


@hookspec
def wrap_tool(tool: Tool, host: Host) -> Wrapper | None:
    """Called once for every tool of every plugin. Return a wrapper for it, or None to leave it alone.

    Example::

        @hookimpl
        def wrap_tool(tool, host):
            return Wrapper(timed) if tool.hints.open_world else None
    """
    raise NotImplementedError


@hookspec
def auth_provider(host: Host) -> AuthProvider | None:
    """Return a way of signing in, or None. Providers of all plugins are tried in the order of their priority.

    Example::

        @hookimpl
        def auth_provider(host):
            return ManagedIdentity(host.settings.load(ManagedIdentitySettings))
    """
    raise NotImplementedError


@hookspec
def prompt_fragments(host: Host) -> PromptFragment | None:
    """Return what the agent's instructions should say about this plugin.

    ``short`` (at most 200 characters) stands within the first 2,048 characters of the instructions, which are all
    that some hosts show; ``full`` is Markdown for the body.

    Example::

        @hookimpl
        def prompt_fragments(host):
            return PromptFragment(short="Tide: ask `tide` before you promise a sailing time.", full="## Tide ...")
    """
    raise NotImplementedError


@hookspec
def body_state(host: Host) -> Mapping[str, Callable[[], Awaitable[Any]]]:
    """Return sections for ``bootstrap_body_state``, each an async callable that returns JSON data.

    Example::

        @hookimpl
        def body_state(host):
            return {"tide": Tide(host).state}
    """
    raise NotImplementedError


@hookspec
def health_checks(host: Host) -> Iterable[HealthCheck]:
    """Return checks for ``whoami``.

    Example::

        @hookimpl
        def health_checks(host):
            return [HealthCheck("tide-service", Tide(host).reachable)]
    """
    raise NotImplementedError


@hookspec
def lifespan(host: Host) -> AbstractAsyncContextManager[None]:
    """Return an async context manager that is entered once the client has begun and left at shutdown.

    Leaving must be quick and do no network: hosts kill a server about 100 ms after asking it to stop.

    Example::

        @hookimpl
        def lifespan(host):
            return Tide(host).connection()
    """
    raise NotImplementedError
