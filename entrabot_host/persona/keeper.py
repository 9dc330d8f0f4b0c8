"""The persona of this process: what it is now, and the work that finds out what it will be at the next start."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

from entrabot_host.clock import Clock
from entrabot_host.errors import EntrabotError
from entrabot_host.lifecycle import Child
from entrabot_host.persona.cache import Cached, PersonaCache
from entrabot_host.persona.command import token_from
from entrabot_host.persona.failure import PersonaFailed
from entrabot_host.persona.session import PersonaServer
from entrabot_host.persona.settings import PersonaSettings
from entrabot_host.prompt.persona import readable
from entrabot_host.shared import Shared
from entrabot_host.tasks import Health

log = logging.getLogger(__name__)
_DISK_SECONDS: Final = 2.0
_REMEDY: Final = "Check the persona's server and its token command; the server's log has more."


class Persona:
    """Holds the text, fetches it once for each process, and keeps what came for the next one.

    ``children``: where the token command stands while it runs, for whoever ends this process.
    """

    def __init__(self, settings: PersonaSettings, ca_bundle: str, data: Callable[[], Path], clock: Clock) -> None:
        self.children: set[Child] = set()
        self.text = ""
        self._settings = settings
        self._server = PersonaServer(settings, ca_bundle)
        self._data = data
        self._clock = clock
        self._known: Shared[Cached] = Shared(self._load)
        self._cached = Cached()
        self._cache_problem = ""
        self._heartbeat = ""
        self._remedy = _REMEDY
        self._fetching: asyncio.Task[None] | None = None
        self._patience = 0.0
        self._one_at_a_time = asyncio.Lock()

    # --- the text ---------------------------------------------------------------------------------------------------

    async def for_client(self) -> str:
        """Return the text for a client that asks now, empty when there is none.

        Waits for the network only when no fetch has ever ended, and for ``wait_seconds`` in all; not at all later.
        """
        cached = await self._known.get()
        if cached.nothing and not self.text:
            await self._wait_for(self.start())
        return self.text

    def start(self) -> asyncio.Task[None]:
        """Begin this process's one fetch, unless it has begun."""
        if self._fetching is None:
            self._patience = asyncio.get_running_loop().time() + self._settings.wait_seconds
            self._fetching = asyncio.create_task(self._fetch(), name="entrabot:persona")
        return self._fetching

    async def _wait_for(self, fetching: asyncio.Task[None]) -> None:
        left = self._patience - asyncio.get_running_loop().time()
        await asyncio.wait({fetching}, timeout=max(0.0, left))
        if not fetching.done() and self._cached.nothing:  # what never ends must not delay the next start, too
            log.warning("the persona did not come within %g seconds", self._settings.wait_seconds)
            await self._failed(f"no answer within {self._settings.wait_seconds:g} seconds, so far")

    async def _load(self) -> Cached:
        try:
            async with asyncio.timeout(_DISK_SECONDS):
                found = await asyncio.to_thread(lambda: self._cache.read())
        except TimeoutError:
            found = Cached(error="the data folder does not answer", failed=self._clock.now())
        self._cached = found
        self.text = self.text or readable(found.text)
        return found

    @property
    def _cache(self) -> PersonaCache:
        return PersonaCache(self._data(), self._settings.url)

    # --- the network ------------------------------------------------------------------------------------------------

    async def _fetch(self) -> None:
        """Fetch once. Whatever goes wrong is kept and told; it ends nothing."""
        await self._known.get()
        try:
            async with self._one_at_a_time:
                text = readable(await self._server.prompt(await self._token()))
        except EntrabotError as error:
            self._remedy = error.remedy or _REMEDY
            await self._failed(error.message)
        except Exception as error:  # a bug here must not take the body away
            log.debug("fetching the persona", exc_info=True)
            await self._failed(f"internal error: {type(error).__name__}")
        else:
            await self._came(text)
        if self._cached.last_error:
            log.warning("the persona could not be fetched: %s", self._cached.last_error)

    async def _token(self) -> str:
        return await token_from(self._settings.token_command, self.children)

    async def _came(self, text: str) -> None:
        now = self._clock.now()
        self._cached = Cached(text, now)
        self.text = self.text or text  # a text that was given to the client stays for the whole session
        await self._written(lambda cache: cache.keep(text, now))

    async def _failed(self, error: str) -> None:
        now = self._clock.now()
        self._cached = replace(self._cached, error=error, failed=now)
        await self._written(lambda cache: cache.note(error, now))

    async def _written(self, write: Callable[[PersonaCache], None]) -> None:
        self._cache_problem = ""
        try:
            async with asyncio.timeout(_DISK_SECONDS):
                await asyncio.to_thread(lambda: write(self._cache))
        except (OSError, TimeoutError, EntrabotError) as error:
            self._cache_problem = getattr(error, "strerror", None) or type(error).__name__
            log.warning("the persona cannot be kept for the next start: %s", self._cache_problem)

    # --- background -------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Fetch for the next start while the server runs."""
        self.start()
        try:
            yield
        finally:
            await self.aclose()

    async def beat(self) -> None:
        """Ask the server, with a fresh token, whether it is there. Raises `PersonaFailed`."""
        try:
            async with self._one_at_a_time:
                await self._server.check(await self._token())
        except PersonaFailed as error:
            self._heartbeat = error.outcome
            self._remedy = error.remedy or _REMEDY
            raise
        self._heartbeat = "ok"

    async def aclose(self) -> None:
        """Stop what is under way, and the token command with it. No network."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.gather(self._fetching, return_exceptions=True)

    # --- what to say of it ------------------------------------------------------------------------------------------

    async def health(self) -> Health:
        """Which text is in use, and how the last fetch went."""
        await self._known.get()
        cached = self._cached
        parts = [self._in_use()]
        if cached.last_error:
            parts.append(f"last fetch failed {_day(cached.failed)}: {cached.last_error}")
        if self._cache_problem:
            parts.append(f"it cannot be kept for the next start: {self._cache_problem}")
        if self._heartbeat:
            parts.append(f"heartbeat: {self._heartbeat}")
        healthy = not cached.last_error and not self._cache_problem and self._heartbeat in ("", "ok")
        return Health(healthy, "; ".join(parts), "" if healthy else self._remedy)

    def _in_use(self) -> str:
        if not self.text:
            return "body only"
        cached = self._cached
        newer = "" if readable(cached.text) == self.text else ", a newer one from the next start on"
        return f"cached text of {_day(cached.fetched)} ({len(self.text)} characters){newer}"


def _day(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M} {moment.tzname() or ''}".strip() if moment else "at an unknown time"
