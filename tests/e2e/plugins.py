"""Plugins of strangers: installed distributions in a folder that is put on PYTHONPATH."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

HELLO = '''
from typing import Annotated
from pydantic import Field
from entrabot_host import Hints, Tool, hookimpl


async def greet(name: Annotated[str, Field(description="Whom to greet")]) -> dict:
    """Greet somebody."""
    return {"greeting": f"Hello, {name}!"}


@hookimpl
def register_tools(host):
    local = Hints(read_only=True, destructive=False, idempotent=True, open_world=False)
    return [Tool(greet, title="Greet", hints=local)]
'''


def install(folder: Path, name: str, source: str, *, version: str = "1.0") -> None:
    """Install the plugin ``name`` as the distribution ``stranger-<name>``, as pip would leave it in site-packages."""
    module = f"stranger_{name}"
    folder.mkdir(exist_ok=True)
    (folder / f"{module}.py").write_text(dedent(source), encoding="utf-8")
    info = folder / f"{module}-{version}.dist-info"
    info.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: stranger-{name}\nVersion: {version}\n"
    (info / "METADATA").write_text(metadata, encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[entrabot.plugins]\n{name} = {module}\n", encoding="utf-8")
    (info / "RECORD").write_text(f"{module}.py,,\n", encoding="utf-8")
    (info / "INSTALLER").write_text("pip\n", encoding="utf-8")
