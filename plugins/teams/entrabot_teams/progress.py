"""Telling an MCP host that a long call is alive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

from entrabot_host import ToolContext

PERIOD = 10.0
HANGS_ON_PROGRESS = frozenset({"github-copilot-developer"})
"""Names, in lower case, of hosts that were seen to hang after a progress notification during a call."""


def takes_progress(client_name: str) -> bool:
    """Whether a host may be sent progress; a bridge in between adds itself in brackets after the host's name."""
    return client_name.partition(" (")[0].strip().lower() not in HANGS_ON_PROGRESS


@asynccontextmanager
async def reported(ctx: ToolContext | None, message: str, period: float = PERIOD) -> AsyncIterator[None]:
    """Report the seconds that have passed every ``period`` seconds while the block runs."""
    if ctx is None or not takes_progress(ctx.client_name):
        yield
        return
    reporting = asyncio.create_task(_report(ctx, message, period))
    try:
        yield
    finally:
        reporting.cancel()
        await asyncio.gather(reporting, return_exceptions=True)


async def _report(ctx: ToolContext, message: str, period: float) -> None:
    for number in count(1):
        await asyncio.sleep(period)
        await ctx.progress(number * period, None, message)
