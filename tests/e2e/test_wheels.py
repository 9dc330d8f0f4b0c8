"""The wheels as people install them: built, put into empty environments, used outside of the checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.e2e.wire import served

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]

ROOT = Path(__file__).parents[2]
_SECONDS = 240


def run(*command: str | Path, cwd: Path, environment: dict[str, str] | None = None) -> str:
    """Run to the end and return the standard output. Fails with the standard error."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=_SECONDS,
    )
    assert done.returncode == 0, (
        f"{command[0]} {command[1]}: {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    )
    return done.stdout


@pytest.fixture(scope="module")
def uv() -> str:
    own = ROOT / ".tools" / "bin" / "uv"
    found = shutil.which("uv") or (str(own) if own.is_file() else "")
    if not found:
        if os.environ.get("CI"):
            pytest.fail("uv is missing; in CI nothing is skipped")
        pytest.skip("uv is neither on PATH nor in .tools")
    return found


@pytest.fixture(scope="module")
def wheels(uv: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """All wheels by the name of their distribution."""
    out = tmp_path_factory.mktemp("wheels")
    run(uv, "build", "--all-packages", "--wheel", "--out-dir", out, "--python", sys.executable, cwd=ROOT)
    built = {wheel.name.partition("-")[0].replace("_", "-"): wheel for wheel in out.glob("*.whl")}
    assert {"entrabot-host", "entrabot-teams", "entrabot-sandbox"} <= set(built)
    return built


class Environment:
    """An environment with some of the wheels, and a folder outside of the checkout to work in."""

    def __init__(self, uv: str, folder: Path, wheels: list[Path]) -> None:
        self.folder = folder
        self.python = folder / "venv" / "bin" / "python"
        run(uv, "venv", "--python", sys.executable, folder / "venv", cwd=folder)
        run(uv, "pip", "install", "--python", self.python, *wheels, cwd=folder)
        home = folder / "home"
        home.mkdir()
        self.variables = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}

    def command(self, name: str) -> Path:
        return self.python.with_name(name)

    def run(self, name: str, *arguments: str) -> str:
        return run(self.command(name), *arguments, cwd=self.folder, environment=self.variables)


@pytest.fixture(scope="module")
def full(uv: str, wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(uv, tmp_path_factory.mktemp("full"), list(wheels.values()))


@pytest.fixture(scope="module")
def host_alone(uv: str, wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(uv, tmp_path_factory.mktemp("alone"), [wheels["entrabot-host"]])


def test_the_hosts_wheel_is_complete(wheels: dict[str, Path]) -> None:
    with zipfile.ZipFile(wheels["entrabot-host"]) as archive:
        names = set(archive.namelist())
        for file in [ROOT / "prompts" / "agent_system.md", *(ROOT / "prompts" / "anatomy").glob("*.md")]:
            inside = f"entrabot_host/{file.relative_to(ROOT)}"
            assert inside in names
            assert archive.read(inside) == file.read_bytes()
    assert "entrabot_host/py.typed" in names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    assert not [name for name in names if name.startswith(("tests/", "docs/", "plugins/", "benchmarks/"))]


def test_every_wheel_is_typed_and_licensed(wheels: dict[str, Path]) -> None:
    for distribution, wheel in wheels.items():
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
        assert any(name.endswith("/py.typed") for name in names), distribution
        assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names), distribution


def test_the_command_line(full: Environment) -> None:
    assert full.run("entrabot", "--version").startswith("entrabot 0.")
    assert full.run("entrabot-mcp", "--version").startswith("entrabot-mcp 0.")
    plugins = {plugin["name"]: plugin for plugin in json.loads(full.run("entrabot", "plugins", "--json"))["plugins"]}
    assert {plugin["status"] for plugin in plugins.values()} == {"active"}, plugins
    assert "send_teams_message" in json.dumps(plugins["teams"]["tools"])
    imported = full.run("python", "-c", "import entrabot_host, entrabot_teams; print(entrabot_host.__file__)")
    assert str(full.folder) in imported


def test_the_demo(full: Environment) -> None:
    assert "promises kept" in full.run("entrabot", "demo")


async def test_the_host_alone_speaks_of_nothing_else(host_alone: Environment) -> None:
    command = (str(host_alone.command("entrabot-mcp")),)
    async with served(host_alone.variables, command=command, cwd=str(host_alone.folder), greet=False) as server:
        instructions = (await server.greet())["instructions"]
        tools = set(await server.tools())
        me = await server.call("whoami")
        assert await server.stop() == 0
        stderr = server.stderr
    assert {"whoami", "audit_log"} <= tools
    assert not {tool for tool in tools if "teams" in tool or tool in ("create_chat", "list_chat_members")}
    assert "Teams" not in instructions
    assert "missing from this installation" not in instructions
    assert me["plugins"].get("active", []) == []
    assert me["identity"]["error"]["type"] == "NotSignedIn"
    assert "quarantined" not in stderr


def test_the_host_alone_says_what_the_demo_needs(host_alone: Environment) -> None:
    done = subprocess.run(
        [str(host_alone.command("entrabot")), "demo"],
        cwd=host_alone.folder,
        env=host_alone.variables,
        capture_output=True,
        encoding="utf-8",
        timeout=_SECONDS,
    )
    assert done.returncode == 2
    assert "entrabot-host[sandbox]" in done.stderr
    assert "Traceback" not in done.stderr


_OF_OTHERS = ("mail", "onedrive", "sharepoint", "file_", "promises", "word document", "comment", "observer")
"""What a server with Teams alone has no reason to speak of."""


def spoken(text: str) -> list[str]:
    """Which words of other domains a text uses; a person's address is called email in Teams, too."""
    words = text.lower().replace("e-mail", "").replace("email", "")
    return [word for word in _OF_OTHERS if word in words]


async def test_a_subset_speaks_of_nothing_else_and_takes_a_strangers_wheel(
    uv: str, wheels: dict[str, Path], tmp_path: Path
) -> None:
    subset = Environment(uv, tmp_path, [wheels["entrabot-host"], wheels["entrabot-teams"]])
    report = json.loads(subset.run("entrabot", "plugins", "--json"))
    parts = {plugin["name"]: plugin for plugin in report["plugins"]}
    assert set(parts) == {"host", "agent-user", "teams"}
    assert {task["name"] for plugin in parts.values() for task in plugin["tasks"]} == {"teams-poll", "teams-discovery"}
    assert {permission.split(".")[0] for permission in report["permissions"]} <= {
        "AgentIdentity",
        "Chat",
        "ChatMember",
        "ChatMessage",
        "User",
    }
    offered = [tool["name"] for plugin in parts.values() for tool in plugin["tools"]]

    subset.run("entrabot", "new-plugin", "tide")
    project = subset.folder / "entrabot-tide"
    run(uv, "build", "--wheel", "--out-dir", subset.folder / "built", "--python", sys.executable, cwd=project)
    (wheel,) = (subset.folder / "built").glob("*.whl")

    variables = {**subset.variables, "ENTRABOT_AGENT_ID": "00000000-0000-4000-8000-000000000001"}
    command = (str(subset.command("entrabot-mcp")),)
    async with served(variables, command=command, cwd=str(subset.folder), greet=False) as server:
        instructions = (await server.greet())["instructions"]
        tools = await server.tools()
        assert await server.stop() == 0
    assert sorted(tools) == sorted(offered)
    assert {name: spoken(json.dumps(tool)) for name, tool in tools.items() if spoken(json.dumps(tool))} == {}
    assert spoken(instructions) == []

    run(uv, "pip", "install", "--python", subset.python, wheel, cwd=subset.folder)
    async with served(variables, command=command, cwd=str(subset.folder)) as server:
        assert set(await server.tools()) == {*offered, "tide_greet"}
        assert (await server.call("tide_greet", name="Ada"))["greeting"] == "Hello, Ada!"
        assert await server.stop() == 0
