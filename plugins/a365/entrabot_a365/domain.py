"""Everything of Agent 365 that lives as long as its host, and how its parts know each other."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from entrabot_a365.client import WorkIq
from entrabot_a365.errors import A365ManifestNotFoundError
from entrabot_a365.files import Files
from entrabot_a365.manifest import ManifestSource
from entrabot_a365.settings import A365Settings
from entrabot_a365.word import Word
from entrabot_host import Health, Host


class A365:
    """The parts of the Agent 365 domain for one host."""

    def __init__(self, host: Host) -> None:
        settings = host.settings.load(A365Settings)
        self._manifest = ManifestSource(settings, host.log)
        self._work_iq = WorkIq(host, settings)
        self.word = Word(self._manifest, self._work_iq, settings.max_result_characters)
        self.files = Files(self._manifest, self._work_iq, settings.max_result_characters)

    def running(self) -> AbstractAsyncContextManager[None]:
        """Sessions with servers may be opened in the block."""
        return self._work_iq.running()

    async def configured(self) -> Health:
        """Say which servers the manifest names, without asking them. Raises `A365ManifestInvalidError`."""
        try:
            names = (await self._manifest.current()).names
        except A365ManifestNotFoundError as error:
            return Health(True, "Agent 365 is not set up: there is no tooling manifest", error.remedy)
        if not names:
            return Health(False, "The tooling manifest names no server", "Add some: a365 develop add-mcp-servers.")
        return Health(True, f"{len(names)} servers are named by the tooling manifest")
