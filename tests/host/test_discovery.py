"""Which plugins are used: selection, single files, isolation at import; and the command that shows it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from entrabot_host import SettingsError
from entrabot_host.config import Config, Layer
from entrabot_host.discovery import (
    Installed,
    Selection,
    installed_plugins,
    load_plugins,
    selection,
    unknown_names,
)

TIDE = '''
from typing import Annotated
from pydantic import Field
from entrabot_host import Hints, Tool, hookimpl

async def tide(harbour: Annotated[str, Field(description="Where")]) -> dict[str, str]:
    """Say when the tide is high."""
    return {"high": "12:34"}

@hookimpl
def register_tools(host):
    return [Tool(tide, title="Tide", hints=Hints(read_only=True, destructive=False, idempotent=True, open_world=False))]
'''


def chosen(**values: str) -> Selection:
    return selection(Config([Layer("the test", {f"ENTRABOT_{name}": value for name, value in values.items()})]))


def installed(name: str, load: Any = lambda: "module", distribution: str = "") -> Installed:
    return Installed(name, distribution or f"dist-{name}", "1.0", load)


def names(plugins: list[Any]) -> list[str]:
    return [plugin.name for plugin in plugins]


@pytest.mark.parametrize(
    ("values", "loaded"),
    [
        ({}, ["a", "b", "c"]),
        ({"PLUGINS": "a, c"}, ["a", "c"]),
        ({"PLUGINS": "none"}, []),
        ({"PLUGINS": " "}, ["a", "b", "c"]),
        ({"PLUGINS_DISABLED": "b"}, ["a", "c"]),
        ({"PLUGINS": "a,b", "PLUGINS_DISABLED": "a"}, ["b"]),
    ],
)
def test_the_operator_selects(values: dict[str, str], loaded: list[str]) -> None:
    plugins = [installed("a"), installed("b"), installed("c")]

    assert names(load_plugins(plugins, chosen(**values))[0]) == loaded


def test_what_is_not_selected_is_not_imported() -> None:
    def never() -> object:
        raise AssertionError("imported")

    assert load_plugins([installed("a", never)], chosen(PLUGINS_DISABLED="a")) == ([], [])


def fails(error: BaseException) -> Any:
    def load() -> object:
        raise error

    return load


@pytest.mark.parametrize("error", [ImportError("no tide"), SyntaxError("bad"), SystemExit(3), ValueError("x\ny")])
def test_a_plugin_that_cannot_be_imported_stands_alone(error: BaseException) -> None:
    loaded, problems = load_plugins([installed("a", fails(error)), installed("b")], Selection())

    assert names(loaded) == ["b"]
    assert problems[0].step == "import"
    assert type(error).__name__ in str(problems[0])
    assert "\n" not in str(problems[0])


def test_two_distributions_with_one_name_are_both_refused_and_named() -> None:
    twice = [installed("a", distribution="one"), installed("a", distribution="two"), installed("b")]
    loaded, problems = load_plugins(twice, Selection())

    assert names(loaded) == ["b"]
    assert [problem.plugin.distribution for problem in problems] == ["one", "two"]
    assert "one, two" in problems[0].cause


def test_the_hosts_own_name_is_reserved() -> None:
    loaded, problems = load_plugins([installed("host")], Selection())

    assert loaded == []
    assert "reserved" in problems[0].cause


def test_a_name_that_nothing_has_is_told() -> None:
    (note,) = unknown_names(chosen(PLUGINS="teems,a"), [installed("a")])
    assert note == "ENTRABOT_PLUGINS names 'teems', which is not installed; there are: a"
    (note,) = unknown_names(chosen(PLUGINS_DISABLED="emial,a"), [installed("a")])
    assert note.startswith("ENTRABOT_PLUGINS_DISABLED names 'emial'")


def test_a_cause_names_the_line_of_the_plugin(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("import os\n\nos.nothing_of_this_name\n", encoding="utf-8")
    selected = chosen(PLUGINS="none", PLUGIN_FILES=str(path))

    _, (problem,) = load_plugins(installed_plugins(selected.files), selected)

    assert problem.cause.startswith("AttributeError: ")
    assert problem.cause.endswith("(broken.py, line 3)")


@pytest.mark.parametrize("name", ["READ_ONLY", "STRICT_PLUGINS"])
def test_a_switch_is_on_or_off(name: str) -> None:
    with pytest.raises(SettingsError, match=f"ENTRABOT_{name}"):
        chosen(**{name: "perhaps"})


def test_a_file_is_a_plugin_whatever_the_allow_list_says(tmp_path: Path) -> None:
    path = tmp_path / "tide.py"
    path.write_text(TIDE, encoding="utf-8")
    selected = chosen(PLUGINS="none", PLUGIN_FILES=str(path))
    loaded, problems = load_plugins(installed_plugins(selected.files), selected)

    assert (names(loaded), problems) == (["tide"], [])
    assert selected.names("tide")


def test_a_file_that_is_not_there_is_named() -> None:
    selected = chosen(PLUGINS="none", PLUGIN_FILES="/nowhere/tide.py")
    loaded, problems = load_plugins(installed_plugins(selected.files), selected)

    assert loaded == []
    assert "/nowhere/tide.py is not a Python file" in problems[0].cause


def entrabot(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    code = (
        "import sys; from entrabot_host.cli.main import main\n"
        "try: main(sys.argv[1:])\n"
        "finally:\n"
        "    heavy = ('mcp', 'httpx', 'msal', 'cryptography')\n"
        "    print([name for name in heavy if name in sys.modules], file=sys.stderr)"
    )
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**{key: value for key, value in os.environ.items() if not key.startswith("ENTRABOT_")}, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_command_shows_everything_and_imports_no_sdk(tmp_path: Path) -> None:
    tide, broken = tmp_path / "tide.py", tmp_path / "broken.py"
    tide.write_text(TIDE, encoding="utf-8")
    broken.write_text("raise RuntimeError('not today')", encoding="utf-8")
    run = entrabot(
        "plugins", "--json", "--plugin", str(tide), "--plugin", str(broken), ENTRABOT_PLUGINS_DISABLED="teams"
    )
    report = json.loads(run.stdout)
    plugins = {plugin["name"]: plugin for plugin in report["plugins"]}

    assert run.stderr.splitlines()[-1] == "[]"
    assert run.returncode == 0
    assert plugins["host"]["status"] == "active"
    assert plugins["teams"]["status"] == "disabled"
    assert "tools" not in plugins["teams"]
    assert plugins["broken"] == {
        "name": "broken",
        "distribution": str(broken),
        "version": "",
        "status": "quarantined",
        "step": "import",
        "cause": "RuntimeError: not today (broken.py, line 1)",
    }
    (shown,) = plugins["tide"]["tools"]
    assert (shown["name"], shown["read_only"], shown["destructive"]) == ("tide", True, False)
    assert shown["bytes"] == plugins["tide"]["bytes"] > 100
    assert report["bytes"]["tools_list"] > 100
    assert report["bytes"]["instructions_head"] <= 2048


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["plugins"], ["plugins", "--cost"]])
def test_light_commands_stay_light(arguments: list[str]) -> None:
    run = entrabot(*arguments)

    assert run.returncode == 0, run.stderr
    assert run.stderr.splitlines()[-1] == "[]"
    assert run.stdout.strip()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["dance"], "there is no command"), ([], "commands:"), (["plugins", "--env-file", "/nowhere"], "/nowhere")],
)
def test_wrong_usage_ends_with_2_and_says_what_to_do(arguments: list[str], said: str) -> None:
    run = entrabot(*arguments)

    assert run.returncode == 2
    assert said in run.stdout + run.stderr
