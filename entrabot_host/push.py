"""Pushes to the MCP host: one bounded queue, one sender, so that a host that does not read stalls nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from entrabot_host.delivery.channel import ChannelClosed

CHANNEL_METHOD = "notifications/claude/channel"
_WAITING = 64

Notify = Callable[[str, dict[str, Any]], Awaitable[None]]
"""Writes one notification and returns when its line has left for the pipe."""


class PushQueue:
    """Hands notifications to the host in order, once it is ready for them. Implements `ChannelSink`.

    initialized: set when the host can take notifications. stalled: whether it is not reading now.
    """

    def __init__(self, notify: Notify, initialized: asyncio.Event, stalled: Callable[[], bool]) -> None:
        self._notify = notify
        self._initialized = initialized
        self._stalled = stalled
        self._waiting: asyncio.Queue[tuple[dict[str, Any], asyncio.Future[None]]] = asyncio.Queue(_WAITING)
        self._sender = asyncio.create_task(self._send_all(), name="entrabot:push")

    @property
    def ready(self) -> bool:
        """Whether a push would be written now."""
        return self._initialized.is_set() and not (self._sender.done() or self._waiting.full() or self._stalled())

    async def push(self, params: dict[str, Any]) -> None:
        """Return when the line was written to the pipe. Raises `ChannelClosed` when it will not be."""
        if self._sender.done():
            raise ChannelClosed("the host is gone")
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            self._waiting.put_nowait((params, written))
        except asyncio.QueueFull:
            raise ChannelClosed("the host does not read") from None
        await written

    async def _send_all(self) -> None:
        written: asyncio.Future[None] | None = None
        try:
            await self._initialized.wait()
            while True:
                params, written = await self._waiting.get()
                if written.cancelled():
                    continue
                await self._notify(CHANNEL_METHOD, params)
                if not written.done():
                    written.set_result(None)
        finally:
            self._refuse(written)

    def _refuse(self, current: asyncio.Future[None] | None) -> None:
        """Tell everybody who still waits that his push will not be written."""
        left = [] if current is None else [current]
        while not self._waiting.empty():
            left.append(self._waiting.get_nowait()[1])
        for future in left:
            if not future.done():
                future.set_exception(ChannelClosed("the host is gone"))

    async def aclose(self) -> None:
        """Stop sending."""
        self._sender.cancel()
        await asyncio.gather(self._sender, return_exceptions=True)
