"""Assembly: order, checks, quarantine, wrapping."""

from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from pydantic import Field

from entrabot_host import BackgroundTask, Band, Hints, Tool, Wrapper
from entrabot_host.discovery import Selection

from .plugin_parts import WRITING, assembled, offering, plugin, tool


def names(assembly: Any) -> list[str]:
    return list(assembly.tools)


def test_the_hosts_tools_come_first_then_plugins_in_the_given_order() -> None:
    assembly = assembled(offering("host", tool("whoami")), offering("a", tool("alpha")), offering("b", tool("beta")))

    assert names(assembly) == ["whoami", "alpha", "beta"]
    assert assembly.problems == ()


def half_way(host: Any) -> Iterator[Tool]:
    yield tool("first")
    raise RuntimeError("lost the rest")


def no_hints(host: Any) -> list[Tool]:
    return [Tool(tool().fn, title="x", hints=None)]  # type: ignore[arg-type]


async def undescribed(name: str) -> str:
    """Do it."""
    return name


async def unresolvable(name: "Nowhere") -> str:  # type: ignore[name-defined]  # noqa: F821
    """Do it."""
    return name


def synchronous(name: Annotated[str, Field(description="x")]) -> str:
    """Do it."""
    return name


@pytest.mark.parametrize(
    ("hooks", "step", "cause"),
    [
        ({"register_tools": half_way}, "register_tools", "lost the rest"),
        ({"register_tools": lambda host: 7}, "register_tools", "not iterable"),
        ({"register_tools": lambda host: ["text"]}, "register_tools", "returned str, not Tool"),
        ({"register_tools": no_hints}, "register_tools", "all four hints"),
        ({"register_tools": lambda host: [tool(title=" ")]}, "register_tools", "needs a title"),
        ({"register_tools": lambda host: [tool(fn=undescribed)]}, "register_tools", "'name' needs Annotated"),
        ({"register_tools": lambda host: [tool(fn=unresolvable)]}, "register_tools", "cannot be resolved"),
        ({"register_tools": lambda host: [tool(fn=synchronous)]}, "register_tools", "not an async function"),
        ({"register_tools": lambda host: [tool(description="x" * 2049)]}, "register_tools", "longer than 2048"),
        ({"register_tools": lambda host: [tool("a-b")]}, "register_tools", "identifier"),
        ({"register_tools": lambda host: [tool(), tool()]}, "register_tools", "two tools named 'greet'"),
        ({"background_tasks": lambda host: [1]}, "background_tasks", "not BackgroundTask"),
        ({"auth_provider": lambda host: object()}, "auth_provider", "no AuthProvider"),
        ({"health_checks": lambda host: 1 / 0}, "health_checks", "ZeroDivisionError"),
        ({"wrap_tool": lambda tool, host: 1}, "wrap_tool", "not Wrapper"),
        ({"wrap_tool": lambda tool, host: Wrapper(lambda call: 1 / 0)}, "wrap_tool", "ZeroDivisionError"),
        ({"register_tool": lambda host: []}, "registration", "no hook named 'register_tool'"),
        ({}, "registration", "implements no hook"),
    ],
)
def test_whatever_fails_quarantines_that_plugin_alone_and_whole(hooks: Any, step: str, cause: str) -> None:
    hooks = {"body_state": lambda host: {"section": None}, **hooks} if hooks else hooks
    assembly = assembled(offering("good", tool("good_tool")), plugin("bad", **hooks))

    assert names(assembly) == ["good_tool"]
    assert [part.name for part in assembly.contributions] == ["good"]
    (problem,) = assembly.problems
    assert (problem.plugin.name, problem.step) == ("bad", step)
    assert cause in problem.cause
    assert "dist-bad 1.0" in str(problem)


def test_a_name_that_is_taken_quarantines_the_later_plugin_and_names_both() -> None:
    assembly = assembled(offering("host", tool("whoami")), offering("a", tool("whoami"), tool("other")))

    assert names(assembly) == ["whoami"]
    assert "'host'" in assembly.problems[0].cause
    assert "'a'" in assembly.problems[0].cause


def test_metadata_may_only_name_parameters_that_exist() -> None:
    from entrabot_host import Audit, Outbound

    wrong = offering("bad", tool(outbound=Outbound(text="message", conversation="name")))
    also = offering("worse", tool("other", audit=Audit(action="greet", resource="whom")))
    assembly = assembled(wrong, also)

    assert [problem.cause.count("message") for problem in assembly.problems] == [1, 0]
    assert "whom" in assembly.problems[1].cause


def test_a_tool_is_withheld_until_some_task_provides_what_it_needs() -> None:
    async def look() -> None: ...

    needy = offering("files", tool("share", needs=("sponsor-presence",)))
    task = BackgroundTask(name="poll", run=look, interval=5, description="Looks", provides=("sponsor-presence",))

    alone = assembled(needy)
    together = assembled(needy, plugin("teams", background_tasks=lambda host: [task]))

    assert names(alone) == []
    assert alone.withheld == {"share": "no installed plugin provides sponsor-presence"}
    assert names(together) == ["share"]


def test_a_read_only_server_offers_only_what_changes_nothing() -> None:
    assembly = assembled(
        offering("a", tool("look"), tool("change", hints=WRITING)), selection=Selection(read_only=True)
    )

    assert names(assembly) == ["look"]
    assert assembly.withheld == {"change": "the server is read-only"}


def marking(band: Band, mark: str) -> Any:
    def decorate(call: Any) -> Any:
        async def marked(**arguments: Any) -> Any:
            return [mark, *(await call(**arguments))]

        return marked

    return lambda tool, host: Wrapper(decorate, band)


async def base() -> list[str]:
    """Say what it is."""
    return ["tool"]


@pytest.mark.anyio
async def test_bands_decide_the_order_and_within_a_band_the_plugins_name() -> None:
    selection = Selection(allow=frozenset({"a", "b", "c", "d", "z"}))
    assembly = assembled(
        offering("z", tool("base", fn=base), wrap_tool=marking(Band.OBSERVE, "z observes")),
        plugin("b", wrap_tool=marking(Band.ENRICH, "b enriches")),
        plugin("a", wrap_tool=marking(Band.ENRICH, "a enriches")),
        plugin("d", wrap_tool=marking(Band.POLICY, "d decides")),
        plugin("c", wrap_tool=marking(Band.OBSERVE, "c observes")),
        selection=selection,
    )

    called = await assembly.tools["base"].call()

    assert called == ["c observes", "z observes", "d decides", "a enriches", "b enriches", "tool"]
    assert [layer.plugin for layer in assembly.tools["base"].layers] == ["c", "z", "d", "a", "b"]


@pytest.mark.anyio
async def test_a_policy_wrapper_of_a_plugin_that_the_operator_does_not_name_is_ignored_and_noted() -> None:
    stranger = plugin("stranger", wrap_tool=marking(Band.POLICY, "refused"))
    assembly = assembled(offering("a", tool("base", fn=base)), stranger)

    assert await assembly.tools["base"].call() == ["tool"]
    assert "stranger" in assembly.notes[0]
    assert "ENTRABOT_PLUGINS" in assembly.notes[0]


@pytest.mark.anyio
async def test_a_wrapper_that_breaks_takes_its_plugin_out_of_every_tool() -> None:
    def second_only(tool: Any, host: Any) -> Wrapper:
        def decorate(call: Any) -> Any:
            if tool.tool_name == "two":
                raise RuntimeError("not this one")
            return call

        return Wrapper(decorate)

    assembly = assembled(
        offering("a", tool("one", fn=base), tool("two", fn=base)),
        offering("b", tool("three", fn=base), wrap_tool=second_only),
    )

    assert names(assembly) == ["one", "two"]
    assert assembly.tools["one"].layers == ()
    assert assembly.problems[0].plugin.name == "b"


def test_hints_have_no_defaults() -> None:
    with pytest.raises(TypeError, match="open_world"):
        Hints(read_only=True, destructive=False, idempotent=True)  # type: ignore[call-arg]


class Skipped(BaseException):
    """As pytest's own: no Exception."""


async def plain_class(name: Annotated[Skipped, Field(description="x")]) -> str:
    """Do it."""
    return str(name)


async def foreign(größe: Annotated[str, Field(description="x")]) -> str:
    """Do it."""
    return größe


def fails_with(error: BaseException) -> Any:
    def hook(host: Any) -> Any:
        raise error

    return hook


@pytest.mark.parametrize(
    ("hooks", "cause"),
    [
        ({"register_tools": fails_with(SystemExit(3))}, "SystemExit"),
        ({"health_checks": fails_with(KeyboardInterrupt())}, "KeyboardInterrupt"),
        ({"lifespan": fails_with(Skipped("not today"))}, "not today"),
        ({"register_tools": lambda host: [tool(fn=plain_class)]}, "Unable to generate pydantic-core schema"),
        ({"register_tools": lambda host: [tool(fn=foreign)]}, "not ASCII identifiers"),
        ({"register_tools": lambda host: [tool("wh\u043eami")]}, "ASCII letters"),
        ({"register_tools": lambda host: [tool(external="text")]}, "external=('text',)"),
        (
            {
                "register_tools": lambda host: [
                    tool(hints=Hints(read_only="no", destructive=False, idempotent=True, open_world=False))  # type: ignore[arg-type]
                ]
            },
            "each True or False",
        ),
        ({"wrap_tool": lambda tool, host: Wrapper(lambda call: None)}, "did not return an async function"),
        ({"wrap_tool": lambda tool, host: Wrapper(lambda call: lambda **arguments: 1)}, "async function"),
        ({"wrap_tool": lambda tool, host: Wrapper(lambda call: call, "nonsense")}, "nonsense"),
        ({"register_tools": fails_with(ValueError("Bearer abcdefghijklmnopqrstuvwxyz"))}, "[redacted]"),
    ],
)
def test_nothing_of_a_plugin_ends_the_server_or_breaks_others(hooks: Any, cause: str) -> None:
    assembly = assembled(offering("good", tool("good_tool")), plugin("bad", **hooks))

    assert names(assembly) == ["good_tool"]
    (problem,) = assembly.problems
    assert cause in problem.cause
    assert "abcdefghij" not in problem.cause


def test_a_policy_by_any_spelling_counts_only_when_named() -> None:
    stranger = plugin("stranger", wrap_tool=lambda tool, host: Wrapper(lambda call: call, "policy"))  # type: ignore[arg-type]
    assembly = assembled(offering("a", tool("base", fn=base)), stranger)

    assert assembly.tools["base"].layers == ()
    assert assembly.notes
