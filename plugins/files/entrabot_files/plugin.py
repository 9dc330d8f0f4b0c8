"""What the files plugin offers."""

from __future__ import annotations

from collections.abc import Iterable

from entrabot_host import Host, Tool, hookimpl


@hookimpl
def register_tools(host: Host) -> Iterable[Tool]:
    """Nothing yet."""
    return []
