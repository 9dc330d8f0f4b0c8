"""Markdown from docstrings and signatures, shared by what writes the pages."""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any

WIDTH = 100
_CODE_SPAN = re.compile(r"(`[^`]*`)")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; pipes in cells are escaped."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines) + "\n"


def text(source: str) -> str:
    """Keep angle brackets outside of code spans from being taken for markup."""
    spans = _CODE_SPAN.split(source)
    return "".join(span if span.startswith("`") else span.replace("<", "&lt;") for span in spans)


def code(source: str) -> str:
    """Return a fenced block of Python."""
    return f"```python\n{source.strip()}\n```\n"


def prose(docstring: str) -> str:
    """Turn a docstring into Markdown: a paragraph that ends in ``::`` opens a block of code."""
    parts: list[str] = []
    lines = inspect.cleandoc(docstring).replace("``", "`").splitlines()
    while lines:
        line = lines.pop(0)
        if not line.rstrip().endswith("::"):
            parts.append(text(line))
            continue
        if opening := line.rstrip()[:-2].rstrip():
            parts.append(text(f"{opening}:"))
        block = []
        while lines and (not lines[0].strip() or lines[0].startswith(" ")):
            block.append(lines.pop(0))
        if not "".join(block).strip():  # an example that is not indented goes on to the end
            block, lines = lines, []
        parts += ["", code(textwrap.dedent("\n".join(block)).strip("\n"))]
    return "\n".join(parts).strip() + "\n"


def signature(function: Any, *, name: str = "", method: bool = False) -> str:
    """Return ``async def name(...) -> ...`` as it stands in the source; one parameter a line when it is long."""
    word = "async def" if inspect.iscoroutinefunction(function) else "def"
    found = inspect.signature(function)
    parameters = list(found.parameters.values())[1 if method else 0 :]
    shown = list(_parameters(parameters))
    returns = f" -> {annotation(found.return_annotation)}" if found.return_annotation is not found.empty else ""
    opening = f"{word} {name or function.__name__}("
    line = f"{opening}{', '.join(shown)}){returns}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([opening, *(f"    {part}," for part in shown), f"){returns}"])


def _parameters(parameters: Iterable[inspect.Parameter]) -> Iterable[str]:
    keyword_only = False
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            yield "*"
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        keyword_only = keyword_only or star == "*"
        shown = f"{star}{parameter.name}"
        if parameter.annotation is not parameter.empty:
            shown += f": {annotation(parameter.annotation)}"
        if parameter.default is not parameter.empty:
            shown += f" = {_default(parameter.default)}"
        yield shown


def annotation(value: Any) -> str:
    """Return an annotation as it stands in the source."""
    if isinstance(value, str):
        return value
    return value.__name__ if isinstance(value, type) else str(value)


def _default(value: Any) -> str:
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, str):
        return json.dumps(value)
    return "{}" if repr(value) == "<factory>" else repr(value)
