"""The guide for plugin authors: its plugins work, its tests pass, its contract is what the code says."""

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import entrabot_host
from entrabot_host import EntrabotError, Host, hookspecs
from entrabot_host.application import Application
from entrabot_host.assembly import HOOKS
from entrabot_host.config import Config, Layer
from entrabot_host.discovery import installed_plugins
from entrabot_host.host import Graph, Identity, Inbox, Records, Settings, Store
from entrabot_host.testing import pytest_plugin

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "plugin-authors.md"
FACETS = (Host, Settings, Identity, Graph, Store, Records, Inbox)

_BLOCK = re.compile(r'^```python(?: title="([\w.]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


@cache
def page() -> str:
    return GUIDE.read_text(encoding="utf-8")


def guide() -> str:
    return page().partition("\n## The contract\n")[0]


def contract() -> str:
    return page().partition("\n## The contract\n")[2]


def files() -> dict[str, str]:
    """The blocks that are whole files, by name."""
    return {title: source for title, source in _BLOCK.findall(guide()) if title}


PLUGINS = sorted(name for name in files() if not name.startswith("test_"))
SNIPPETS = [source for title, source in _BLOCK.findall(guide()) if not title]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all files of the guide, as a reader would write them."""
    folder = tmp_path_factory.mktemp("guide")
    for name, source in files().items():
        (folder / name).write_text(source, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nanyio_mode = auto\nfilterwarnings = error\n", encoding="utf-8")
    return folder


# --- the examples ---------------------------------------------------------------------------------------------------


def test_there_are_plugins_and_every_hook_is_shown() -> None:
    shown = {
        node.name
        for name in PLUGINS
        for node in ast.walk(ast.parse(files()[name]))
        if isinstance(node, ast.FunctionDef) and "hookimpl" in map(ast.unparse, node.decorator_list)
    }
    assert len(PLUGINS) > 5
    assert shown == set(HOOKS)


@pytest.mark.parametrize("name", PLUGINS)
def test_each_plugin_assembles(name: str, written: Path) -> None:
    settings = Layer("the test", {"ENTRABOT_DATA_DIR": str(written / "data")})
    application = Application(Config([settings]), plugins=_only(written / name))
    assert application.assembly.problems == ()
    assert Path(name).stem in {part.name for part in application.assembly.contributions}


def _only(path: Path) -> list[Any]:
    return [plugin for plugin in installed_plugins([path]) if plugin.distribution == str(path)]


@pytest.mark.timeout(300)
def test_its_tests_pass_for_a_reader(written: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(written)],
        cwd=written,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=280,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    tests = sum(source.count("async def test_") for source in files().values())
    passed = int(re.findall(r"(\d+) passed", ran.stdout)[-1])
    assert passed >= 2 * tests
    assert "skipped" not in ran.stdout


@pytest.mark.parametrize("source", SNIPPETS, ids=lambda source: source.split("(")[0][:30])
def test_snippets_are_python(source: str) -> None:
    ast.parse(source)


def test_members_of_facets_that_are_named_exist() -> None:
    kinds = {kind.__name__.lower(): kind for kind in FACETS[1:]}
    named = set(re.findall(r"host\.(identity|graph|store|records|inbox|settings)\.(\w+)", guide()))
    assert len(named) > 10
    assert [f"{facet}.{name}" for facet, name in named if not hasattr(kinds[facet], name)] == []


def test_every_plugin_of_the_guide_but_the_first_has_a_test() -> None:
    assert {name for name in PLUGINS if f"test_{name}" not in files()} == {"moon.py"}


# --- the contract ---------------------------------------------------------------------------------------------------


def plain(text: str) -> str:
    """Without layout and quotes: one space at most, none inside brackets, no trailing commas."""
    text = " ".join(text.replace("'", "").replace('"', "").replace("`", "").split())
    return re.sub(r",\s*\)", ")", re.sub(r"\(\s+", "(", text))


def section(heading: str) -> str:
    """The text below a heading of the fourth level."""
    found = re.search(rf"^#### {re.escape(heading)}\n(.*?)(?=^###|\Z)", contract(), re.MULTILINE | re.DOTALL)
    assert found, f"{heading} is not in the contract"
    return found[1]


def head(function: Any) -> str:
    """A function's first line, as a reader of the source sees it."""
    word = "async def" if inspect.iscoroutinefunction(function) else "def"
    return (
        plain(f"{word} {function.__name__}{inspect.signature(function)}")
        .replace("(self, ", "(")
        .replace("(self)", "()")
    )


def methods(kind: type) -> Iterator[tuple[str, Any]]:
    for name, member in vars(kind).items():
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
            yield name, member


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_is_there_with_its_signature_and_an_example(name: str) -> None:
    text = section(name)
    assert head(getattr(hookspecs, name)) in plain(text)
    assert "@hookimpl" in text


@pytest.mark.parametrize("name", entrabot_host.__all__)
def test_every_public_name_is_there_with_its_docstring(name: str) -> None:
    thing = getattr(entrabot_host, name)
    text = section(name)
    if isinstance(thing, type):
        first = (inspect.getdoc(thing) or "").partition("\n")[0]
        assert first
        assert plain(first) in plain(text)


@pytest.mark.parametrize(
    ("kind", "name", "member"),
    [
        pytest.param(kind, name, member, id=f"{kind.__name__}.{name}")
        for kind in (*FACETS, entrabot_host.AuthProvider, entrabot_host.ToolContext)
        for name, member in methods(kind)
    ],
)
def test_every_method_of_a_facet_is_there(kind: type, name: str, member: Any) -> None:
    text = plain(section(kind.__name__))
    assert (f"**{name}**" if isinstance(member, property) else head(member)) in text
    first = (inspect.getdoc(member) or "").partition("\n")[0]
    assert first
    assert plain(first) in text


@pytest.mark.parametrize(
    "kind",
    [kind for kind in map(vars(entrabot_host).get, entrabot_host.__all__) if hasattr(kind, "__dataclass_fields__")],
    ids=lambda kind: kind.__name__,
)
def test_every_field_of_a_dataclass_is_there(kind: Any) -> None:
    text = plain(section(kind.__name__))
    for field in kind.__dataclass_fields__.values():
        assert plain(f"{field.name}: {field.type}") in text


def test_every_error_of_the_host_is_public_and_there() -> None:
    kinds = {EntrabotError, *_below(EntrabotError)}
    own = {kind.__name__ for kind in kinds if kind.__module__ == "entrabot_host.errors"}
    assert own <= set(entrabot_host.__all__)
    for name in own:
        section(name)


def test_every_fixture_of_the_test_kit_is_there() -> None:
    source = ast.parse(inspect.getsource(pytest_plugin))
    fixtures = [
        node.name for node in source.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    ]
    assert "entrabot" in fixtures
    for name in fixtures:
        section(name)


def _below(kind: type) -> Iterator[type]:
    for child in kind.__subclasses__():
        yield child
        yield from _below(child)
