"""Plugins of strangers: a good one works beside ours, a broken one is left out and named, the operator selects."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from tests.e2e.plugins import HELLO, install
from tests.e2e.wire import MODERN, served

HOST_TOOLS = {"whoami", "audit_log"}  # at least
TEAMS_TOOL = "send_teams_message"
_SECOND_TOOL = HELLO.replace("return [", "yield ").replace("local)]", "local)")

BROKEN = {
    "at_import": ("import", "ModuleNotFoundError", "import a_library_that_nobody_has\n"),
    "exits": ("import", "SystemExit", "import sys\nsys.exit('I would rather not')\n"),
    "half_way": ("register_tools", "RuntimeError: half way", _SECOND_TOOL + "    raise RuntimeError('half way')\n"),
    "clashing": ("assembly", "'whoami'", HELLO.replace("greet", "whoami")),
    "no_hints": ("register_tools", "hints", HELLO.replace("hints=local", 'hints={"read_only": True}')),
    "no_words": ("register_tools", "needs a title", HELLO.replace('title="Greet"', 'title=""')),
    "untyped": ("register_tools", "'name'", HELLO.replace(': Annotated[str, Field(description="Whom to greet")]', "")),
    "no_hook": ("registration", "no hook", "x = 1\n"),
    "misspelt": ("registration", "register_tool", HELLO.replace("def register_tools", "def register_tool")),
}


@pytest.fixture
def site(tmp_path: Path, bare: dict[str, str]) -> Path:
    bare["PYTHONPATH"] = str(tmp_path / "site")
    return tmp_path / "site"


async def listed(environment: dict[str, str]) -> dict[str, dict[str, Any]]:
    """What ``entrabot plugins --json`` says, by name."""
    command = [sys.executable, "-m", "entrabot_host.cli.main", "plugins", "--json"]

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=60, check=True)

    return {plugin["name"]: plugin for plugin in json.loads((await anyio.to_thread.run_sync(run)).stdout)["plugins"]}


def strangers(plugins: dict[str, Any], status: str) -> dict[str, dict[str, Any]]:
    """Those of whoami's plugins that these tests have installed, by name."""
    found = [plugin for plugin in plugins.get(status, []) if plugin["distribution"].startswith("stranger-")]
    return {plugin["name"]: plugin for plugin in found}


async def test_a_strangers_plugin_works_beside_ours(bare: dict[str, str], site: Path) -> None:
    install(site, "hello", HELLO)
    for era in ("legacy", MODERN):
        async with served(bare, era=era) as server:
            tools = await server.tools()
            assert {"greet", TEAMS_TOOL, *HOST_TOOLS} <= set(tools)
            assert next(iter(tools)) == "whoami"
            assert await server.call("greet", name="Ada") == {"greeting": "Hello, Ada!"}
            plugins = (await server.call("whoami"))["plugins"]
            assert {"name": "hello", "distribution": "stranger-hello", "version": "1.0"} in plugins["active"]
            assert strangers(plugins, "quarantined") == {}
    entry = (await listed(bare))["hello"]
    assert (entry["status"], entry["distribution"]) == ("active", "stranger-hello")
    assert "greet" in json.dumps(entry["tools"])


async def test_broken_plugins_are_left_out_and_named(bare: dict[str, str], site: Path) -> None:
    install(site, "hello", HELLO)
    for name, (_, _, source) in BROKEN.items():
        install(site, name, source)
    async with served(bare) as server:
        offered = set(await server.tools())
        greeting = await server.call("greet", name="Ada")
        plugins = (await server.call("whoami"))["plugins"]
        stderr = server.stderr
    shown = await listed(bare)
    assert greeting == {"greeting": "Hello, Ada!"}
    assert HOST_TOOLS | {"greet", TEAMS_TOOL} <= offered
    quarantined = strangers(plugins, "quarantined")
    assert set(quarantined) == set(BROKEN)
    assert "hello" in {plugin["name"] for plugin in plugins["active"]}
    for name, (step, cause, _) in BROKEN.items():
        assert quarantined[name]["step"] == step, quarantined[name]
        assert cause in quarantined[name]["cause"], quarantined[name]
        assert (shown[name]["status"], shown[name]["step"]) == ("quarantined", step)
        assert cause in shown[name]["cause"]
        assert not shown[name].get("tools")
        assert stderr.count(f"plugin {name!r} (stranger-{name} 1.0) is quarantined") == 1, stderr
    assert "Traceback" not in stderr


async def test_two_distributions_of_one_name(bare: dict[str, str], site: Path) -> None:
    install(site, "teams", HELLO)
    async with served(bare) as server:
        assert not {"greet", TEAMS_TOOL} & set(await server.tools())
        quarantined = (await server.call("whoami"))["plugins"]["quarantined"]
    causes = [plugin["cause"] for plugin in quarantined if plugin["name"] == "teams"]
    assert len(causes) == 2
    assert all("entrabot-teams" in cause and "stranger-teams" in cause for cause in causes)


async def test_the_operator_selects(bare: dict[str, str], site: Path) -> None:
    install(site, "hello", HELLO)
    install(site, "broken", "raise RuntimeError('never imported')\n")

    async def offered(*arguments: str, **more: str) -> set[str]:
        async with served({**bare, **more}, *arguments) as server:
            return set(await server.tools())

    hosts_own = await offered(ENTRABOT_PLUGINS="none")
    assert hosts_own >= HOST_TOOLS
    assert not hosts_own & {"greet", TEAMS_TOOL}
    assert await offered(ENTRABOT_PLUGINS="hello") == {"greet", *hosts_own}
    assert await offered("--plugins", "hello", ENTRABOT_PLUGINS="teams") == {"greet", *hosts_own}
    without = await offered(ENTRABOT_PLUGINS_DISABLED="teams, broken")
    assert ("greet" in without, TEAMS_TOOL in without) == (True, False)
    both = await offered(ENTRABOT_PLUGINS="hello,teams", ENTRABOT_PLUGINS_DISABLED="hello")
    assert ("greet" in both, TEAMS_TOOL in both) == (False, True)
    shown = await listed({**bare, "ENTRABOT_PLUGINS": "hello"})
    assert {name: entry["status"] for name, entry in shown.items() if name in ("hello", "teams", "broken")} == {
        "hello": "active",
        "teams": "disabled",
        "broken": "disabled",
    }


async def test_what_is_not_selected_is_not_imported(bare: dict[str, str], site: Path, tmp_path: Path) -> None:
    mark = tmp_path / "imported"
    install(site, "marking", f"open({str(mark)!r}, 'w').close()\n{HELLO}")
    async with served({**bare, "ENTRABOT_PLUGINS_DISABLED": "marking"}) as server:
        await server.tools()
        plugins = (await server.call("whoami"))["plugins"]
    assert set(strangers(plugins, "disabled")) == {"marking"}
    assert not mark.exists()


async def test_read_only_offers_nothing_that_changes(bare: dict[str, str], site: Path) -> None:
    install(site, "hello", HELLO)
    for arguments, more in ((("--read-only",), {}), ((), {"ENTRABOT_READ_ONLY": "1"})):
        async with served({**bare, **more}, *arguments) as server:
            tools = await server.tools()
            error = await server.failing(TEAMS_TOOL, message="no", chat_id="19:x@thread.v2")
            withheld = (await server.call("whoami"))["tools_withheld"]
        assert all(tool["annotations"]["readOnlyHint"] for tool in tools.values())
        assert {"greet", "read_teams_messages", "whoami"} <= set(tools)
        assert TEAMS_TOOL not in tools
        assert error["type"] == "InvalidArgument"
        assert withheld[TEAMS_TOOL] == "the server is read-only"


async def test_a_name_that_is_not_installed_is_reported(bare: dict[str, str]) -> None:
    async with served({**bare, "ENTRABOT_PLUGINS": "teems"}) as server:
        assert TEAMS_TOOL not in await server.tools()
        assert "'teems', which is not installed" in server.stderr


async def test_strict_refuses_to_start_without_a_plugin(bare: dict[str, str], site: Path) -> None:
    install(site, "broken", "raise RuntimeError('my own reason')\n")
    async with served({**bare, "ENTRABOT_STRICT_PLUGINS": "1"}, greet=False) as server:
        assert await server.ended() == 2
        stderr = server.stderr
        assert server.lines == []
    assert "my own reason" in stderr
    assert "stranger-broken" in stderr
    assert "ENTRABOT_STRICT_PLUGINS" in stderr
    async with served({**bare, "ENTRABOT_STRICT_PLUGINS": "1", "ENTRABOT_PLUGINS": "teams"}) as server:
        assert TEAMS_TOOL in await server.tools()
