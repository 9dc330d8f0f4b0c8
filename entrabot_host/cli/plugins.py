"""``entrabot plugins``: what is installed, what it offers, what it costs, and what is wrong with it."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from entrabot_host.application import DISTRIBUTION, Application
from entrabot_host.assembly import AssembledTool, Contribution
from entrabot_host.config import load_config
from entrabot_host.discovery import FILES, STRICT, Installed, Problem, Selection, Status
from entrabot_host.errors import EntrabotError
from entrabot_host.failures import KEY, Failure, parse
from entrabot_host.listing import cost
from entrabot_host.storage.settings import StorageSettings, open_backend


class PluginsCommand:
    """Works when every plugin is broken: assembly lets none of them raise. Imports no MCP SDK."""

    help = "List the plugins, what they offer and what they cost."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the flags."""
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument("--cost", action="store_true", help="print the bytes that each tool costs the model")
        parser.add_argument("--plugin", action="append", default=[], metavar="FILE.py", help="look at this file too")
        parser.add_argument("--env-file", default="", metavar="FILE", help="read settings from this file too")

    def run(self, arguments: argparse.Namespace) -> int:
        """Print the list."""
        flags = {FILES: os.pathsep.join(arguments.plugin), STRICT: "0"}  # what is broken is to be shown
        application = Application(load_config(flags, env_file=arguments.env_file))
        report = describe(application)
        if arguments.json:
            print(json.dumps(report, indent=2))
        elif arguments.cost:
            _print_cost(report)
        else:
            _print_table(report)
        return 0


command = PluginsCommand()


def describe(application: Application) -> dict[str, Any]:
    """Describe every plugin: status, parts, cost; and the whole."""
    assembly = application.assembly
    problems = {problem.plugin.name: problem for problem in assembly.problems}
    parts = {part.name: part for part in assembly.contributions}
    own = [
        part.plugin.installed for part in assembly.contributions if part.plugin.installed.distribution == DISTRIBUTION
    ]
    plugins = []
    for plugin in [*own, *application.installed]:
        entry = _entry(plugin, application.selection, problems.get(plugin.name))
        if entry["status"] == Status.ACTIVE and (part := parts.get(plugin.name)):
            entry |= _parts(part, application.tools)
        plugins.append(entry)
    return {
        "plugins": plugins,
        "wrapping": {
            name: [f"{layer.plugin} ({layer.band})" for layer in tool.layers]
            for name, tool in application.tools.items()
        },
        "withheld": dict(assembly.withheld),
        "permissions": assembly.permissions,
        "persona": asdict(asyncio.run(application.persona.health())),
        "notes": list(assembly.notes),
        "failures": [asdict(failure) for failure in asyncio.run(_written_failures(application))],
        "bytes": {
            "tools_list": sum(cost(tool) for tool in application.tools.values()),
            "instructions_head": len(application.instructions.head.encode()),
            "instructions": len(application.instructions.text.encode()),
        },
    }


async def _written_failures(application: Application) -> list[Failure]:
    """What running servers wrote down about tasks and lifespans; nothing where storage does not work."""
    try:
        backend = open_backend(application.config.load(StorageSettings), application.parts.folders.data)
        entry = await backend.read(KEY)
        await backend.aclose()
    except EntrabotError:
        return []
    return parse(entry.data) if entry else []


def _entry(plugin: Installed, selection: Selection, problem: Problem | None) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": plugin.name, "distribution": plugin.distribution, "version": plugin.version}
    if problem is not None and (problem.plugin is plugin or problem.step == "selection"):
        return {**entry, "status": Status.QUARANTINED.value, "step": problem.step, "cause": problem.cause}
    wanted = plugin.distribution == DISTRIBUTION or selection.wants(plugin.name)
    return {**entry, "status": (Status.ACTIVE if wanted else Status.DISABLED).value}


def _parts(part: Contribution, offered: Mapping[str, AssembledTool]) -> dict[str, Any]:
    tools = [tool for tool in part.tools if tool.name in offered]
    return {
        "tools": [_tool(tool) for tool in tools],
        "tasks": [
            {"name": task.name, "every_seconds": task.interval, "gate": str(task.gate), "description": task.description}
            for task in part.tasks
        ],
        "wrappers": {
            band: sum(wrapper.band == band for wrapper in part.wrappers.values())
            for band in sorted({wrapper.band for wrapper in part.wrappers.values()})
        },
        "prompt": part.fragment.short if part.fragment else "",
        "body_state": sorted(part.body_state),
        "health_checks": [check.name for check in part.health_checks],
        "auth_provider": part.auth.name if part.auth else "",
        "permissions": sorted({permission for tool in tools for permission in tool.tool.permissions}),
        "bytes": sum(cost(tool) for tool in tools)
        + (len((part.fragment.short + part.fragment.full).encode()) if part.fragment else 0),
    }


def _tool(tool: AssembledTool) -> dict[str, Any]:
    hints = tool.tool.hints
    return {
        "name": tool.name,
        "title": tool.tool.title,
        "read_only": hints.read_only,
        "destructive": hints.destructive,
        "idempotent": hints.idempotent,
        "open_world": hints.open_world,
        "bytes": cost(tool),
    }


# --- for people -----------------------------------------------------------------------------------------------------


def _print_table(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title="Entrabot plugins", title_justify="left", show_lines=True)
    for column in ("plugin", "status", "offers"):
        table.add_column(column, overflow="fold")
    for plugin in report["plugins"]:
        name = f"{plugin['name']}\n[dim]{escape(plugin['distribution'])} {escape(plugin['version'])}[/]"
        table.add_row(name, plugin["status"], escape("\n".join(_lines(plugin))))
    console = Console()
    console.print(table)
    for tool, layers in report["wrapping"].items():
        if layers:
            console.print(f"{tool} is wrapped by, outermost first: {', '.join(layers)}", highlight=False)
    for tool, reason in report["withheld"].items():
        console.print(f"{tool} is not offered: {reason}", highlight=False)
    console.print(f"Persona: {report['persona']['summary']}", markup=False, highlight=False)
    for failure in report["failures"]:
        ago = humanised(time.time() - failure["at"])
        place = f"{failure['plugin']} ({failure['distribution']} {failure['version']})"
        console.print(
            f"{place} failed {ago} ago in a running server: {failure['step']}: {failure['cause']}", markup=False
        )
    for note in report["notes"]:
        console.print(f"Note: {note}", highlight=False)


def humanised(seconds: float) -> str:
    """Say how long that is, roughly."""
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} seconds"


def _lines(plugin: dict[str, Any]) -> list[str]:
    if "cause" in plugin:
        return [f"{plugin['step']}: {plugin['cause']}"]
    lines = [f"{tool['name']}: {_hints(tool)}" for tool in plugin.get("tools", [])]
    lines += [f"{task['name']} every {task['every_seconds']:g} s, {task['gate']}" for task in plugin.get("tasks", [])]
    lines += [f"wraps {count} tools in band {band}" for band, count in plugin.get("wrappers", {}).items()]
    if plugin.get("auth_provider"):
        lines.append(f"signs in: {plugin['auth_provider']}")
    if plugin.get("prompt"):
        lines.append(f"prompt: {plugin['prompt']}")
    if plugin.get("permissions"):
        lines.append(f"permissions: {', '.join(plugin['permissions'])}")
    if plugin.get("bytes"):
        lines.append(f"costs {plugin['bytes']:,} bytes of context")
    return lines


def _hints(tool: dict[str, Any]) -> str:
    names = [name.replace("_", "-") for name in ("read_only", "destructive", "idempotent", "open_world") if tool[name]]
    return ", ".join(names) or "local, writing"


def _print_cost(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Bytes of the model's context", title_justify="left")
    for column in ("tool", "plugin", "bytes"):
        table.add_column(column, justify="right" if column == "bytes" else "left")
    tools = [
        (tool["name"], plugin["name"], tool["bytes"])
        for plugin in report["plugins"]
        for tool in plugin.get("tools", [])
    ]
    for name, plugin, count in sorted(tools, key=lambda row: -row[2]):
        table.add_row(name, plugin, f"{count:,}")
    table.add_section()
    table.add_row("all tools", "", f"{report['bytes']['tools_list']:,}")
    table.add_row("instructions, first part", "", f"{report['bytes']['instructions_head']:,}")
    table.add_row("instructions, whole", "", f"{report['bytes']['instructions']:,}")
    Console().print(table)
