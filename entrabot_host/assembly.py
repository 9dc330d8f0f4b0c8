"""Plugins to a server's parts: tools checked and wrapped in order, tasks, prompt fragments. A pure step.

A plugin's contributions are taken all or none: whatever fails, in a hook or half-way through an iterator, leaves
nothing of that plugin behind.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import astuple, dataclass, field
from typing import Any

import pluggy

from entrabot_host import hookspecs
from entrabot_host.auth.provider import AuthProvider
from entrabot_host.discovery import Loaded, Problem, Selection, failed
from entrabot_host.errors import PluginError
from entrabot_host.host import Host
from entrabot_host.prompt.fragment import SHORT_LIMIT, PromptFragment
from entrabot_host.signature import Signature
from entrabot_host.tasks import BackgroundTask, HealthCheck
from entrabot_host.tools import Hints, Tool
from entrabot_host.wrappers import Band, ToolCall, Wrapper

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
DESCRIPTION_LIMIT = 2048
"""Claude Code cuts a tool's description here without a word."""
_BAND_ORDER = {band: position for position, band in enumerate((Band.OBSERVE, Band.POLICY, Band.ENRICH))}
BodySection = Callable[[], Awaitable[Any]]


@dataclass(frozen=True)
class Layer:
    """One wrapper around one tool, for display and composition."""

    source: Loaded = field(repr=False)
    wrapper: Wrapper = field(repr=False)

    @property
    def plugin(self) -> str:
        """The name of the plugin it comes from."""
        return self.source.name

    @property
    def band(self) -> Band:
        """The band it stands in."""
        return self.wrapper.band


@dataclass(frozen=True)
class AssembledTool:
    """A tool as it will be offered. ``call`` runs it through all wrappers; ``layers`` are outermost first."""

    tool: Tool
    plugin: str
    signature: Signature = field(repr=False)
    layers: tuple[Layer, ...] = ()
    call: ToolCall = field(repr=False, default=None)  # type: ignore[assignment]

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.tool.tool_name

    @property
    def description(self) -> str:
        """What the model reads about it."""
        return self.tool.description or inspect.getdoc(self.tool.fn) or ""


@dataclass
class Contribution:
    """All that one plugin offers."""

    plugin: Loaded
    tools: list[AssembledTool] = field(default_factory=list)
    tasks: list[BackgroundTask] = field(default_factory=list)
    auth: AuthProvider | None = None
    fragment: PromptFragment | None = None
    body_state: dict[str, BodySection] = field(default_factory=dict)
    health_checks: list[HealthCheck] = field(default_factory=list)
    lifespan: AbstractAsyncContextManager[None] | None = None
    wrappers: dict[str, Wrapper] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The plugin's name."""
        return self.plugin.name


@dataclass(frozen=True)
class Assembly:
    """What the server offers: a function of what is installed and selected, and of nothing else."""

    contributions: tuple[Contribution, ...]
    tools: Mapping[str, AssembledTool]
    withheld: Mapping[str, str]
    """Tools that are not offered, with the reason."""
    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()
    """What the operator should know although nothing failed."""

    @property
    def permissions(self) -> dict[str, list[str]]:
        """Graph permissions and the tools that need them."""
        needed: dict[str, list[str]] = {}
        for name, tool in self.tools.items():
            for permission in tool.tool.permissions:
                needed.setdefault(permission, []).append(name)
        return dict(sorted(needed.items()))


Innermost = Callable[[AssembledTool], ToolCall]
"""Makes the innermost call of a tool: context injected, outside text put into its envelope."""


def assemble(
    plugins: Sequence[Loaded],
    bind: Callable[[str], Host],
    selection: Selection,
    *,
    innermost: Innermost,
    problems: Iterable[Problem] = (),
) -> Assembly:
    """Call every hook once and put the parts together. ``plugins`` are in their final order, the host's own first."""
    found = list(problems)
    contributions = _collect(plugins, bind, found)
    contributions = _without_clashes(contributions, found)
    contributions = _collect_wrappers(contributions, bind, found)
    withheld: dict[str, str] = {}
    notes: list[str] = []
    while True:
        tools = _offered(contributions, selection, withheld)
        layers = {tool.name: _layers(tool, contributions, selection, notes) for tool in tools}
        try:
            composed = {tool.name: _compose(tool, layers[tool.name], innermost(tool)) for tool in tools}
        except _BrokenWrapper as broken:
            found.append(failed(broken.plugin.installed, "wrap_tool", broken.cause))
            contributions = [part for part in contributions if part.plugin is not broken.plugin]
            withheld.clear()
            notes.clear()
            continue
        return Assembly(tuple(contributions), composed, withheld, tuple(found), tuple(dict.fromkeys(notes)))


# --- collecting -----------------------------------------------------------------------------------------------------


def _collect(plugins: Sequence[Loaded], bind: Callable[[str], Host], problems: list[Problem]) -> list[Contribution]:
    contributions = []
    for plugin in plugins:
        step = "registration"
        try:
            hooks = _hooks_of(plugin)
            part = Contribution(plugin)
            host = bind(plugin.name)
            for step, take in _STEPS.items():
                if hook := hooks.get(step):
                    take(part, hook(host=host))
            contributions.append(part)
        except BaseException as error:  # SystemExit and the like, too: nothing of a plugin may end the server
            problems.append(failed(plugin.installed, step, error))
    return contributions


def _hooks_of(plugin: Loaded) -> dict[str, Callable[..., Any]]:
    """Let pluggy check one plugin's hook implementations by themselves and return them by name."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(plugin.module, plugin.name)
    hooks: dict[str, Callable[..., Any]] = {}
    for caller in manager.get_hookcallers(plugin.module) or []:
        if not caller.has_spec():
            raise PluginError(f"There is no hook named {caller.name!r}; known are: {', '.join(HOOKS)}.")
        hooks[caller.name] = _bound(caller.get_hookimpls()[0])
    if not hooks:
        raise PluginError("It implements no hook; mark its functions with @entrabot_host.hookimpl.")
    return hooks


def _bound(implementation: Any) -> Callable[..., Any]:
    """Call with those of the documented arguments that the implementation names."""
    accepted = implementation.argnames

    def call(**arguments: Any) -> Any:
        return implementation.function(**{name: arguments[name] for name in accepted if name in arguments})

    return call


def _take_tools(part: Contribution, tools: Iterable[Tool] | None) -> None:
    for tool in tools or ():
        if not isinstance(tool, Tool):
            raise PluginError(f"register_tools returned {type(tool).__name__}, not Tool.")
        assembled = AssembledTool(tool, part.name, Signature(tool.tool_name, tool.fn))
        _check_tool(assembled)
        if any(other.name == assembled.name for other in part.tools):
            raise PluginError(f"It offers two tools named {assembled.name!r}.")
        part.tools.append(assembled)


def _check_tool(assembled: AssembledTool) -> None:
    tool, name = assembled.tool, assembled.name
    if not _NAME.fullmatch(name):
        raise PluginError(f"Tool name {name[:64]!r} must be an identifier of at most 64 ASCII letters, digits and _.")
    if foreign := [parameter for parameter in assembled.signature.parameters if not _NAME.fullmatch(parameter)]:
        raise PluginError(f"Tool {name!r} has parameters whose names are not ASCII identifiers: {foreign!r}.")
    if not tool.title.strip():
        raise PluginError(f"Tool {name!r} needs a title.")
    if not isinstance(tool.hints, Hints) or not all(isinstance(hint, bool) for hint in astuple(tool.hints)):
        raise PluginError(f"Tool {name!r} needs Hints(...) with all four hints, each True or False.")
    if isinstance(tool.external, str):
        raise PluginError(f"Tool {name!r}: external is a tuple of fields; write external=({tool.external!r},).")
    if not assembled.description:
        raise PluginError(f"Tool {name!r} needs a description.")
    if len(assembled.description) > DESCRIPTION_LIMIT:
        raise PluginError(f"The description of tool {name!r} is longer than {DESCRIPTION_LIMIT} characters.")
    if not assembled.signature.schema:  # built here, so that an annotation without a schema stays this plugin's problem
        raise PluginError(f"Tool {name!r} has no input schema.")
    parameters = set(assembled.signature.parameters)
    named = [tool.outbound.text, tool.outbound.conversation] if tool.outbound else []
    if not isinstance(tool.audit, bool) and isinstance(tool.audit.resource, str) and tool.audit.resource:
        named.append(tool.audit.resource)
    if missing := [parameter for parameter in named if parameter not in parameters]:
        raise PluginError(f"The metadata of tool {name!r} names parameters that it does not have: {missing}.")


def _take_tasks(part: Contribution, tasks: Iterable[BackgroundTask] | None) -> None:
    for task in tasks or ():
        if not isinstance(task, BackgroundTask):
            raise PluginError(f"background_tasks returned {type(task).__name__}, not BackgroundTask.")
        if task.interval <= 0 or task.timeout <= 0:
            raise PluginError(f"Task {task.name!r} needs a positive interval and timeout.")
        part.tasks.append(task)


def _take_auth(part: Contribution, provider: AuthProvider | None) -> None:
    if provider is not None and not isinstance(provider, AuthProvider):
        raise PluginError(f"auth_provider returned {type(provider).__name__}, which is no AuthProvider.")
    part.auth = provider


def _take_fragment(part: Contribution, fragment: PromptFragment | None) -> None:
    if fragment is not None and len(fragment.short) > SHORT_LIMIT:
        raise PluginError(f"The short part of its prompt fragment is longer than {SHORT_LIMIT} characters.")
    part.fragment = fragment


def _take_body_state(part: Contribution, sections: Mapping[str, BodySection] | None) -> None:
    part.body_state = dict(sections or {})


def _take_health_checks(part: Contribution, checks: Iterable[HealthCheck] | None) -> None:
    part.health_checks = list(checks or ())


def _take_lifespan(part: Contribution, lifespan: AbstractAsyncContextManager[None] | None) -> None:
    part.lifespan = lifespan


_STEPS: Mapping[str, Callable[[Contribution, Any], None]] = {
    "register_tools": _take_tools,
    "background_tasks": _take_tasks,
    "auth_provider": _take_auth,
    "prompt_fragments": _take_fragment,
    "body_state": _take_body_state,
    "health_checks": _take_health_checks,
    "lifespan": _take_lifespan,
}
HOOKS = (*_STEPS, "wrap_tool")


# --- choosing -------------------------------------------------------------------------------------------------------


def _without_clashes(contributions: list[Contribution], problems: list[Problem]) -> list[Contribution]:
    """Drop each plugin that offers a tool or a body section which an earlier one has."""
    kept: list[Contribution] = []
    owners: dict[str, str] = {}
    for part in contributions:
        names = [f"tool {tool.name!r}" for tool in part.tools] + [f"body state {name!r}" for name in part.body_state]
        if clash := next((name for name in names if name in owners), ""):
            error = PluginError(f"{clash} is offered by {owners[clash]!r} already, and again by {part.name!r}")
            problems.append(failed(part.plugin.installed, "assembly", error))
            continue
        owners.update(dict.fromkeys(names, part.name))
        kept.append(part)
    return kept


def _offered(
    contributions: Sequence[Contribution], selection: Selection, withheld: dict[str, str]
) -> list[AssembledTool]:
    provided = {capability for part in contributions for task in part.tasks for capability in task.provides}
    offered = []
    for tool in (tool for part in contributions for tool in part.tools):
        missing = [need for need in tool.tool.needs if need not in provided]
        if missing:
            withheld[tool.name] = f"no installed plugin provides {', '.join(missing)}"
        elif selection.read_only and not tool.tool.hints.read_only:
            withheld[tool.name] = "the server is read-only"
        else:
            offered.append(tool)
    return offered


# --- wrapping -------------------------------------------------------------------------------------------------------


class _BrokenWrapper(Exception):
    def __init__(self, plugin: Loaded, cause: BaseException) -> None:
        super().__init__(plugin.name)
        self.plugin = plugin
        self.cause = cause


def _collect_wrappers(
    contributions: list[Contribution], bind: Callable[[str], Host], problems: list[Problem]
) -> list[Contribution]:
    """Ask every plugin about every tool; one that fails is dropped with all that it offers."""
    tools = [tool for part in contributions for tool in part.tools]
    kept = []
    for part in contributions:
        hook = _hooks_of(part.plugin).get("wrap_tool")
        try:
            for tool in tools if hook else ():
                if (wrapper := hook(tool=tool.tool, host=bind(part.name))) is not None:  # type: ignore[misc]
                    if not isinstance(wrapper, Wrapper):
                        raise PluginError(f"wrap_tool returned {type(wrapper).__name__}, not Wrapper.")
                    part.wrappers[tool.name] = wrapper
            kept.append(part)
        except BaseException as error:
            problems.append(failed(part.plugin.installed, "wrap_tool", error))
    return kept


def _layers(
    tool: AssembledTool, contributions: Sequence[Contribution], selection: Selection, notes: list[str]
) -> tuple[Layer, ...]:
    layers = []
    for part in contributions:
        if (wrapper := part.wrappers.get(tool.name)) is None:
            continue
        if wrapper.band is Band.POLICY and not selection.names(part.name):
            notes.append(
                f"the policy wrappers of plugin {part.name!r} are ignored because ENTRABOT_PLUGINS does not name it"
            )
            continue
        layers.append(Layer(part.plugin, wrapper))
    return tuple(sorted(layers, key=lambda layer: (_BAND_ORDER[layer.band], layer.plugin)))


def _is_async(call: object) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004


def _compose(tool: AssembledTool, layers: tuple[Layer, ...], call: ToolCall) -> AssembledTool:
    for layer in reversed(layers):
        try:
            call = layer.wrapper.decorator(call)
            if not _is_async(call):
                raise PluginError(f"The decorator for tool {tool.name!r} did not return an async function.")
        except BaseException as error:
            raise _BrokenWrapper(layer.source, error) from None
    return AssembledTool(tool.tool, tool.plugin, tool.signature, layers, call)
