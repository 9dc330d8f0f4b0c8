"""``entrabot plugins``: what is installed, what it offers, and what is wrong with it."""

from __future__ import annotations

import argparse
import json
from typing import Any

from entrabot_host.discovery import Installed, Problem, Selection, Status

_PARTS = ("tools", "tasks", "wrappers", "permissions")


class PluginsCommand:
    """Works when every plugin is broken: it never lets one of them raise."""

    help = "List the plugins and what they offer."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare ``--json``."""
        parser.add_argument("--json", action="store_true", help="print JSON")

    def run(self, arguments: argparse.Namespace) -> int:
        """Print the list."""
        plugins = describe_plugins()
        if arguments.json:
            print(json.dumps({"plugins": plugins}, indent=2))
        else:
            _print_table(plugins)
        return 0


command = PluginsCommand()


def describe_plugins() -> list[dict[str, Any]]:
    """Describe every installed plugin by its status and its parts."""
    from entrabot_host.application import Application
    from entrabot_host.config import load_config

    application = Application(load_config())
    problems = {problem.plugin.name: problem for problem in application.assembly.problems}
    parts = {part.name: part for part in application.assembly.contributions}
    own = [part.plugin.installed for part in application.assembly.contributions]
    everything = {plugin.name: plugin for plugin in [*own, *application.installed]}
    described = []
    for name, plugin in everything.items():
        entry = _entry(plugin, application.selection, problems.get(name))
        if part := parts.get(name):
            tools = [tool for tool in part.tools if tool.name in application.tools]
            entry["tools"] = [tool.name for tool in tools]
            entry["tasks"] = [f"{task.name} every {task.interval:g} s ({task.gate})" for task in part.tasks]
            entry["wrappers"] = sorted({wrapper.band.value for wrapper in part.wrappers.values()})
            entry["permissions"] = sorted({permission for tool in tools for permission in tool.tool.permissions})
        described.append(entry)
    return described


def _entry(plugin: Installed, selection: Selection, problem: Problem | None) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": plugin.name,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "status": Status.ACTIVE.value,
    }
    if problem is not None:
        return {**entry, "status": Status.QUARANTINED.value, "step": problem.step, "cause": problem.cause}
    if plugin.distribution != "entrabot-host" and not selection.wants(plugin.name):
        entry["status"] = Status.DISABLED.value
    return entry


def _print_table(plugins: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title="Entrabot plugins", title_justify="left")
    for column in ("plugin", "version", "status", "offers"):
        table.add_column(column, overflow="fold")
    for plugin in plugins:
        lines = [f"{part}: {', '.join(plugin[part])}" for part in _PARTS if plugin.get(part)]
        if "cause" in plugin:
            lines.append(f"{plugin['step']}: {plugin['cause']}")
        version = f"{plugin['distribution']} {plugin['version']}"
        table.add_row(plugin["name"], version, plugin["status"], escape("\n".join(lines)))
    Console().print(table)
