"""The life of a running server: warming up, plugins' lifespans, background work, the end.

Nothing touches the network until `Runtime.warm_up`, which starts right after the first answers to the client; and
nothing that others can see happens before `Runtime.begin`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from typing import Any

from entrabot_host.auth.provider import Attribution
from entrabot_host.background import Supervisor
from entrabot_host.discovery import STRICT, Installed, switch
from entrabot_host.errors import EntrabotError, PluginError
from entrabot_host.failures import Failures
from entrabot_host.parts import Parts
from entrabot_host.shared import Shared
from entrabot_host.tasks import Gate

log = logging.getLogger(__name__)
_LIFESPAN_SECONDS = 30.0


class Runtime:
    """Starts and stops what lives on the server's parts."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._strict = switch(parts.config, STRICT)
        self._hearing: Shared[None] = Shared(self._begin_to_hear)
        self._lifespans = AsyncExitStack()
        self._starting: dict[str, asyncio.Event] = {}
        self._not_started: dict[str, PluginError] = {}
        self._warming = False
        self.failures = Failures(parts.backend)
        self.supervisor = Supervisor(self._open_gate, self.failures, parts.clock)

    async def warm_up(self) -> None:
        """Sign in and open the storage, concurrently. A failure is logged, and told to whoever needs the part."""
        self._warming = True
        try:
            await asyncio.gather(
                self._attempted("storage", self._parts.backend),
                self._sign_in_and_read_sponsors(),
            )
        finally:
            self._warming = False

    @property
    def busy(self) -> bool:
        """Whether warming up or an iteration of background work is under way."""
        return self._warming or any(state.busy for state in self.supervisor.states)

    async def _sign_in_and_read_sponsors(self) -> None:
        if await self._attempted("signing in", self._hearing.get):
            await self._attempted("reading the sponsors", lambda: self._parts.sponsors.sponsors())

    async def _begin_to_hear(self) -> None:
        """From this moment on people are heard, on Graph's clock: the sponsors are asked for first, so it is known."""
        from entrabot_host.delivery.start import Beginnings

        await self._parts.session.principal()
        with suppress(EntrabotError):
            await self._parts.sponsors.sponsors()
        await Beginnings(self._parts.now).first_run(await self._parts.backend())

    async def _attempted(self, what: str, part: Callable[[], Awaitable[Any]]) -> bool:
        try:
            await part()
        except EntrabotError as error:
            log.error("%s failed: %s %s", what, error.message, error.remedy)
            return False
        return True

    async def begin(self) -> None:
        """The client has really begun: enter the plugins' lifespans and start the background tasks."""
        tasks = []
        for part in self._parts.assembly.contributions:
            if part.lifespan is not None:
                await self._enter(part.plugin.installed, part.lifespan)
            tasks += [(part.plugin.installed, task) for task in part.tasks]
        self.supervisor.start(tasks)
        self._parts.sleep_watch.start()

    async def _enter(self, plugin: Installed, lifespan: AbstractAsyncContextManager[None]) -> None:
        """Enter one plugin's lifespan; its failure stays its own, unless the operator is strict."""
        try:
            async with asyncio.timeout(_LIFESPAN_SECONDS):
                await self._lifespans.enter_async_context(lifespan)
        except Exception as error:
            self._not_started[plugin.name] = PluginError(
                f"The plugin {plugin.name!r} could not start, so its tools do not work.",
                remedy="whoami shows the cause under plugins, failing; the server's log has more.",
            )
            await self.failures.note(plugin, "lifespan", error)
            if self._strict:
                raise PluginError(f"The lifespan of plugin {plugin.name!r} failed to start.") from error
        finally:
            self._start_of(plugin.name).set()

    def _start_of(self, plugin: str) -> asyncio.Event:
        return self._starting.setdefault(plugin, asyncio.Event())

    async def plugin_started(self, plugin: str) -> None:
        """Wait until a plugin's lifespan was entered, where it has one. Raises `PluginError` when that failed."""
        if not any(part.name == plugin and part.lifespan is not None for part in self._parts.assembly.contributions):
            return
        async with asyncio.timeout(_LIFESPAN_SECONDS):
            await self._start_of(plugin).wait()
        if plugin in self._not_started:
            raise self._not_started[plugin]

    async def _open_gate(self, gate: Gate) -> str:
        """Say what a background task waits for, empty when it may run. Storage comes before polling."""
        if gate is Gate.ALWAYS:
            return ""
        try:
            await self._parts.backend()
            me = await self._parts.session.principal()
            await self._hearing.get()
        except EntrabotError as error:
            return f"{type(error).__name__}: {error.message}"
        if gate is Gate.AGENT_USER and me.attribution is not Attribution.AGENT:
            return "a session of the agent's own identity"
        return ""

    async def aclose(self) -> None:
        """Stop everything. Quick and without network; the caller bounds the time."""
        await self.supervisor.aclose()
        try:
            await self._lifespans.aclose()
        except Exception as error:  # a plugin's failure stays its own
            log.error("a plugin's lifespan failed to end: %s: %s", type(error).__name__, error)
        await self._parts.aclose()
