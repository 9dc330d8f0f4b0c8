"""``entrabot storage migrate``: the state of this machine, copied into the configured Blob container."""

from __future__ import annotations

import argparse
import asyncio
import json
from dataclasses import asdict

from entrabot_host.application import Application
from entrabot_host.config import Config, load_config
from entrabot_host.discovery import STRICT
from entrabot_host.errors import StorageConfigError
from entrabot_host.storage.local import LocalBackend
from entrabot_host.storage.migrate import PATIENCE, FileReport, Migration
from entrabot_host.storage.settings import StorageSettings, open_blob, refuse_half

_EXPLANATION = """Copy the state of this machine into the Blob container that ENTRABOT_BLOB_ENDPOINT and
ENTRABOT_BLOB_CONTAINER name, as the agent, who must be able to sign in. Nothing is taken away here, and nothing that
differs there is overwritten; it may be repeated. Set ENTRABOT_KEEP_MEMORY_LOCAL=true until it is done, and end the
agent's hosts before. The audit log stays on this machine. Exits 1 when a file could not be copied."""


class StorageCommand:
    """Commands about stored state. Import no MCP SDK."""

    help = "Move stored state to Azure Blob Storage."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the commands of the group."""
        actions = parser.add_subparsers(dest="action", required=True, metavar="COMMAND")
        migrate = actions.add_parser(
            "migrate", help="copy the state of this machine into the container", description=_EXPLANATION
        )
        migrate.add_argument("--json", action="store_true", help="print JSON")
        migrate.add_argument("--env-file", default="", metavar="FILE", help="read settings from this file too")

    def run(self, arguments: argparse.Namespace) -> int:
        """Migrate, and report every file."""
        config = load_config({STRICT: "0"}, env_file=arguments.env_file)
        settings = _settings(config)
        reports = asyncio.run(_migrate(Application(config), settings, quiet=arguments.json))
        if arguments.json:
            failed = sum(not report.ok for report in reports)
            print(json.dumps({"failed": failed, "files": [asdict(report) for report in reports]}, indent=2))
        else:
            _print_table(reports)
        return 0 if all(report.ok for report in reports) else 1


command = StorageCommand()


def _settings(config: Config) -> StorageSettings:
    settings = config.load(StorageSettings)
    refuse_half(settings)
    if not settings.endpoint:
        raise StorageConfigError(
            "No Blob container is configured.", remedy="Set ENTRABOT_BLOB_ENDPOINT and ENTRABOT_BLOB_CONTAINER."
        )
    return settings


async def _migrate(application: Application, settings: StorageSettings, *, quiet: bool) -> list[FileReport]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    parts = application.parts
    source = LocalBackend(parts.folders.data)
    target = open_blob(settings, parts.blob_access, PATIENCE)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    console = Console(stderr=True)
    try:
        with Progress(*columns, console=console, transient=True, disable=quiet) as progress:
            bar = progress.add_task(f"to {target.location}", total=None)
            migration = Migration(
                source, target, lambda total: progress.update(bar, total=total), lambda _: progress.advance(bar)
            )
            return await migration.run()
    finally:
        await target.aclose()
        await source.aclose()
        await application.runtime.aclose()


def _print_table(reports: list[FileReport]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title="Files copied to Azure Blob Storage", title_justify="left")
    for column in ("file", "outcome", "bytes"):
        table.add_column(column, overflow="fold", justify="right" if column == "bytes" else "left")
    for report in reports:
        outcome = f"{report.state}: {report.reason}" if report.reason else str(report.state)
        shown = escape(outcome) if report.ok else f"[red]{escape(outcome)}[/]"
        table.add_row(escape(report.key), shown, f"{report.size:,}")
    console = Console()
    console.print(table)
    failed = sum(not report.ok for report in reports)
    console.print(f"{len(reports)} files, {failed} not copied." if failed else f"All {len(reports)} files are there.")
