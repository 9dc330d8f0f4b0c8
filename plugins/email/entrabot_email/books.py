"""Writing down a mail that has gone out, also when the call is cancelled meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

import anyio

from entrabot_host import EntrabotError, Host, Outcome

_SECONDS = 2.0


async def keep_books(host: Host, action: str, resource: str, steps: Iterable[Callable[[], Awaitable[object]]]) -> None:
    """Take the steps that follow a send; one that fails is logged, since it must not look like a failed send.

    When the call is cancelled meanwhile, the send is audited as the success that it was and the steps are still taken,
    in two seconds.
    """
    await _certain(host, action, resource, _take(host, steps))


async def _take(host: Host, steps: Iterable[Callable[[], Awaitable[object]]]) -> None:
    for step in steps:
        try:
            await step()
        except EntrabotError as error:
            host.log.warning("a sent mail could not be written down: %s", error.message)


async def _certain(host: Host, action: str, resource: str, work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        with anyio.move_on_after(_SECONDS, shield=True):
            try:
                await host.records.audit(action, resource, Outcome.SUCCESS, {"then": "cancelled"})
            except EntrabotError as error:
                host.log.warning("a sent mail could not be audited: %s", error.message)
            await asyncio.wait({task})
        task.cancel()
        raise
