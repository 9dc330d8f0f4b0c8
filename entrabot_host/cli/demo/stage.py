"""What the audience sees: a transcript with a check mark for every promise kept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table

_ADDRESS = re.compile(r"https://\S+")
_VOICES = {"agent": "cyan", "sponsor": "green", "stranger": "yellow", "server": "magenta"}


class PromiseBroken(Exception):
    """A step did not go as promised."""


class Stage:
    """Prints the transcript and counts the promises."""

    def __init__(self, *, record: bool) -> None:
        self.console = Console(record=record, width=100 if record else None, highlight=False)
        self.kept = 0
        self._scenes = 0

    def title(self, text: str, subtitle: str) -> None:
        """Open the show."""
        self.console.print(Panel(f"[bold]{escape(text)}[/]\n{escape(subtitle)}", border_style="blue", expand=False))

    def scene(self, text: str) -> None:
        """Begin the next scene."""
        self._scenes += 1
        self.console.print()
        self.console.print(Rule(f"[bold]{self._scenes}  {escape(text)}[/]", align="left", style="blue"))

    def says(self, voice: str, who: str, text: str) -> None:
        """Somebody says something; addresses are too long to be read."""
        text = _ADDRESS.sub("(link)", text)
        self.console.print(f"  [bold {_VOICES[voice]}]{escape(who):<22}[/] {escape(text)}")

    def does(self, call: str) -> None:
        """The agent calls a tool."""
        self.console.print(f"  [dim]→ {escape(call)}[/]")

    def table(self, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
        """Show facts."""
        table = Table(box=None, padding=(0, 2), header_style="dim", pad_edge=True)
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*(escape(cell) for cell in row))
        self.console.print(table)

    @contextmanager
    def promise(self, text: str) -> Iterator[None]:
        """Check a promise; the body raises `PromiseBroken` or anything else when it is not kept."""
        try:
            yield
        except Exception as error:
            self.console.print(f"  [bold red]✗ {escape(text)}[/]: {escape(f'{type(error).__name__}: {error}'[:400])}")
            raise PromiseBroken(text) from error
        self.kept += 1
        self.console.print(f"  [green]✓[/] {escape(text)}")


def expect(condition: bool, what: str) -> None:
    """Raise `PromiseBroken` unless the condition holds."""
    if not condition:
        raise PromiseBroken(what)
