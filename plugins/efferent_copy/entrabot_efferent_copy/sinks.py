"""Observers, how they are found, and how a copy is handed to them: usable without the host, in any asyncio program."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from entrabot_efferent_copy.channel import DISCOVERY_TIMEOUT_S, Channel, Counts, NotAnObserver, describe, first_of
from entrabot_efferent_copy.peers import Choice, Peer, candidates
from entrabot_efferent_copy.redaction import safe_copy
from entrabot_efferent_copy.transports import session_factory

log = logging.getLogger(__name__)
WARN_THROTTLE_S: Final = 60.0
"""Seconds between two warnings about one observer."""


@dataclass
class Sink:
    """An observer that receives copies.

    factory: takes no argument and returns an async context manager that yields an object with
    ``async call_tool(name, payload)``. It is entered once, by a task of the sink's own, and left when the sink is
    closed; again after the session was lost.
    """

    name: str
    factory: Callable[[], Any]
    _last_warn_ts: float = 0.0
    _channel: Channel | None = field(default=None, init=False, repr=False, compare=False)
    _loop: asyncio.AbstractEventLoop | None = field(default=None, init=False, repr=False, compare=False)

    def start(self, changed: Callable[[], None] = lambda: None) -> Channel:
        """Connect now rather than with the first copy, and return the channel. Needs a running event loop.

        changed: called after every change of its state or counts.
        """
        loop = asyncio.get_running_loop()
        if self._channel is None or self._loop is not loop:
            self._channel, self._loop = Channel(self.factory, warn=self._warn, changed=changed), loop
        self._channel.start(self.name)
        return self._channel

    @property
    def counts(self) -> Counts:
        """What became of the copies so far."""
        return self._channel.counts if self._channel is not None else Counts()

    async def drain(self) -> None:
        """Wait until every copy handed over was sent or given up. Bound it with a timeout of your own."""
        if self._channel is not None:
            await self._channel.drain()

    async def aclose(self) -> None:
        """End the session. A later copy opens a new one."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.aclose()

    def _warn(self, text: str) -> None:
        now = time.monotonic()
        if self._last_warn_ts and now - self._last_warn_ts < WARN_THROTTLE_S:
            return
        self._last_warn_ts = now
        log.warning("observer %s: %s", ascii(self.name[:64]), text)


async def discover_sinks(config_path: Path | None = None) -> list[Sink]:
    """Return the peers that observe, after asking each of them once; what fails is logged, not raised.

    config_path: a file like ``.mcp.json`` that you trust; default is the file of ``EFFERENT_COPY_CONFIG``, else
    ``.mcp.json`` in the working directory, of which only peers named in ``EFFERENT_COPY_SINKS`` count.
    """
    found = await asyncio.to_thread(candidates, Choice.of(os.environ), config_path)
    answers = await asyncio.gather(*(_observes(peer) for peer in found.peers))
    return [Sink(peer.name, session_factory(peer)) for peer, yes in zip(found.peers, answers, strict=True) if yes]


async def _observes(peer: Peer) -> bool:
    try:
        async with asyncio.timeout(DISCOVERY_TIMEOUT_S), session_factory(peer, probe=True)():
            return True
    except Exception as error:  # a peer's failure must stay its own
        level = logging.INFO if isinstance(first_of(error), NotAnObserver) else logging.WARNING
        log.log(level, "MCP server %s is no observer: %s", ascii(peer.name[:64]), describe(error))
    return False


async def fire_observe(sinks: list[Sink], tool_name: str, args: dict[str, Any], result: Any = None) -> None:
    """Hand one copy to every sink and return at once. Nothing that a sink does comes back to the caller."""
    dispatch(sinks, *payload_of(tool_name, args, result, finished=result is not None))


def payload_of(tool_name: str, args: Any, result: Any = None, *, finished: bool = False) -> tuple[dict[str, Any], int]:
    """Return the redacted arguments of an ``observe`` call and their approximate size."""
    payload = {"tool_name": tool_name, "args": args} | ({"result": result} if finished else {})
    copied, size = safe_copy(payload)
    return dict(copied), size


def dispatch(sinks: list[Sink], payload: dict[str, Any], size: int) -> None:
    """Queue a payload that is redacted already. Must run on the event loop."""
    for sink in sinks:
        sink.start().put(payload, size)
