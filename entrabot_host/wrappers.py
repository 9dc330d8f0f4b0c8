"""Wrapping every tool: what a plugin returns from ``wrap_tool``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

ToolCall = Callable[..., Awaitable[Any]]
"""An async callable that takes a tool's validated arguments by keyword and returns its data."""


class Band(StrEnum):
    """Where a wrapper stands, outermost first. Within a band wrappers are ordered by plugin name."""

    OBSERVE = "observe"
    """Sees every call, also those that a policy refuses; changes nothing."""
    POLICY = "policy"
    """May refuse a call. Counts only when the operator names the plugin."""
    ENRICH = "enrich"
    """May add to the result."""


@dataclass(frozen=True)
class Wrapper:
    """``decorator`` turns a `ToolCall` into another one.

    It sees validated arguments and the tool's data, with outside text already in its envelope. Let exceptions and
    cancellation pass. The example refuses deletions at night::

        def at_night(call):
            async def guarded(**arguments):
                if is_night():
                    raise EntrabotError("Nothing is deleted at night.", remedy="Ask again in the morning.")
                return await call(**arguments)
            return guarded

        Wrapper(at_night, Band.POLICY)
    """

    decorator: Callable[[ToolCall], ToolCall]
    band: Band = Band.ENRICH

    def __post_init__(self) -> None:
        """Raise ValueError for a band that there is not; a plain string becomes the band of that name."""
        object.__setattr__(self, "band", Band(self.band))
