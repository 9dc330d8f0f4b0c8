"""Pushes and logs to the MCP host: one bounded queue, one sender, so that one that does not read stalls nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from entrabot_host.delivery.channel import ChannelClosed

CHANNEL_METHOD = "notifications/claude/channel"
LOG_METHOD = "notifications/message"
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
        self._waiting: asyncio.Queue[tuple[str, dict[str, Any], asyncio.Future[None]]] = asyncio.Queue(_WAITING)
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
            self._waiting.put_nowait((CHANNEL_METHOD, params, written))
        except asyncio.QueueFull:
            raise ChannelClosed("the host does not read") from None
        await written

    def log(self, text: str) -> None:
        """Tell the host something that its user should see, if it reads and shows such messages."""
        params = {"level": "warning", "logger": "entrabot", "data": text}
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        written.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody waits for it
        with suppress(asyncio.QueueFull):
            self._waiting.put_nowait((LOG_METHOD, params, written))

    async def _send_all(self) -> None:
        written: asyncio.Future[None] | None = None
        try:
            await self._initialized.wait()
            while True:
                method, params, written = await self._waiting.get()
                if written.cancelled():
                    continue
                await self._notify(method, params)
                if not written.done():
                    written.set_result(None)
        finally:
            self._refuse(written)

    def _refuse(self, current: asyncio.Future[None] | None) -> None:
        """Tell everybody who still waits that his push will not be written."""
        left = [] if current is None else [current]
        while not self._waiting.empty():
            left.append(self._waiting.get_nowait()[2])
        for future in left:
            if not future.done():
                future.set_exception(ChannelClosed("the host is gone"))

    async def aclose(self) -> None:
        """Stop sending."""
        self._sender.cancel()
        await asyncio.gather(self._sender, return_exceptions=True)
