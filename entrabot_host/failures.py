"""What went wrong with plugins while a server ran: shown by ``whoami``, and by ``entrabot plugins`` afterwards."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any

from entrabot_host.discovery import Installed, Problem, failed
from entrabot_host.errors import ConcurrencyError, StorageError
from entrabot_host.security.redaction import redact
from entrabot_host.storage.backend import MemoryBackend

log = logging.getLogger(__name__)

KEY = "plugin_failures.json"
KEPT_SECONDS = 7 * 24 * 3600.0
_KEPT = 100
_ATTEMPTS = 5


@dataclass(frozen=True)
class Failure:
    """A plugin's failure in a running server. step: ``lifespan`` or ``task NAME``. at: Unix seconds."""

    plugin: str
    distribution: str
    version: str
    step: str
    cause: str
    at: float

    @classmethod
    def of(cls, problem: Problem) -> Failure:
        """Make it of a problem that has just come up."""
        plugin = problem.plugin
        cause = redact(problem.cause)
        return cls(plugin.name, plugin.distribution, plugin.version, problem.step, cause, time.time())

    @property
    def place(self) -> tuple[str, str]:
        """Which plugin, at which step: a later failure there replaces an earlier one."""
        return self.plugin, self.step


class Failures:
    """The failures of this server's plugins. Each new one is logged once, and written down for later."""

    def __init__(self, backend: Callable[[], Awaitable[MemoryBackend]]) -> None:
        self._backend = backend
        self._now: dict[tuple[str, str], Failure] = {}

    async def note(self, plugin: Installed, step: str, error: BaseException) -> None:
        """A step of a plugin failed. Storage that does not work is no reason to fail here too."""
        failure = Failure.of(failed(plugin, step, error))
        known = self._now.get(failure.place)
        self._now[failure.place] = failure
        if known is not None and known.cause == failure.cause:
            return
        origin = f"{plugin.distribution} {plugin.version}".strip()
        log.error("plugin %r (%s) failed: %s: %s", plugin.name, origin, step, failure.cause)
        await self._write(lambda written: [*(item for item in written if item.place != failure.place), failure])

    async def over(self, plugin: Installed, step: str) -> None:
        """The step works again."""
        if self._now.pop((plugin.name, step), None) is not None:
            log.warning("plugin %r works again: %s", plugin.name, step)
            await self._write(lambda written: [item for item in written if item.place != (plugin.name, step)])

    def current(self) -> list[Failure]:
        """Return what does not work now."""
        return list(self._now.values())

    async def _write(self, change: Callable[[list[Failure]], list[Failure]]) -> None:
        try:
            backend = await self._backend()
            for _ in range(_ATTEMPTS):
                entry = await backend.read(KEY)
                kept = change(parse(entry.data) if entry else [])[-_KEPT:]
                data = json.dumps([asdict(item) for item in kept]).encode()
                try:
                    await backend.write(KEY, data, if_match=entry.etag if entry else "", if_absent=entry is None)
                except ConcurrencyError:
                    continue
                return
        except StorageError as error:
            log.debug("a plugin's failure could not be written down: %s", error.message)


def parse(data: bytes) -> list[Failure]:
    """Read what was written down, leaving out what is old or makes no sense."""
    try:
        found: list[Any] = json.loads(data)
        failures = [Failure(**item) for item in found]
        return [item for item in failures if time.time() - item.at < KEPT_SECONDS]
    except (ValueError, TypeError):
        return []
