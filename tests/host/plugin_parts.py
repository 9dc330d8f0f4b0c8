"""Small plugins to assemble in tests."""

from types import SimpleNamespace
from typing import Annotated, Any

from pydantic import Field

from entrabot_host import Hints, Tool, hookimpl
from entrabot_host.assembly import Assembly, assemble
from entrabot_host.discovery import Installed, Loaded, Selection

LOCAL = Hints(read_only=True, destructive=False, idempotent=True, open_world=False)
WRITING = Hints(read_only=False, destructive=True, idempotent=False, open_world=True)


async def greet(name: Annotated[str, Field(description="Whom to greet")]) -> dict[str, str]:
    """Greet somebody."""
    return {"greeting": f"Hello, {name}!"}


def tool(name: str = "greet", fn: Any = greet, **more: Any) -> Tool:
    return Tool(fn, **{"title": "A tool", "hints": LOCAL, "name": name, **more})


def plugin(name: str, **hooks: Any) -> Loaded:
    """A plugin whose hooks are given as functions of (host), or of (tool, host) for wrap_tool."""
    module = SimpleNamespace(**{hook: hookimpl(function) for hook, function in hooks.items()})
    return Loaded(Installed(name, f"dist-{name}", "1.0", lambda: module), module)


def offering(name: str, *tools: Tool, **hooks: Any) -> Loaded:
    return plugin(name, register_tools=lambda host: list(tools), **hooks)


def assembled(*plugins: Loaded, selection: Selection | None = None) -> Assembly:
    """Assemble without a host: nothing in these plugins uses it."""
    return assemble(
        plugins,
        lambda name: SimpleNamespace(plugin=name),  # type: ignore[arg-type,return-value]
        selection or Selection(),
        innermost=lambda tool: tool.tool.fn,
    )
