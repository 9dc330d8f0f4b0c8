"""Everything of files that lives as long as its host, and how its parts know each other."""

from __future__ import annotations

from entrabot_files.api import FilesApi
from entrabot_files.commenting import Commenting
from entrabot_files.fetching import Fetching
from entrabot_files.finding import Finding
from entrabot_files.local import LocalFolders
from entrabot_files.reading import Reading
from entrabot_files.saving import Saving
from entrabot_files.settings import FilesSettings
from entrabot_files.sharing import Sharing
from entrabot_files.sites import Denylist
from entrabot_files.targets import Targets
from entrabot_files.uploading import Uploads
from entrabot_files.writing import Writing
from entrabot_host import Health, Host


class Files:
    """The parts of the files domain for one host."""

    def __init__(self, host: Host) -> None:
        self.settings = host.settings.load(FilesSettings)
        self._api = FilesApi(host)
        denylist = Denylist(self.settings.denied_sites)
        folders = LocalFolders(self.settings.local_roots)
        fetching = Fetching(host)
        self.finding = Finding(self._api, denylist)
        self.reading = Reading(self._api, denylist, self.settings, fetching)
        self.commenting = Commenting(self._api, denylist)
        self.sharing = Sharing(host, self._api, denylist)
        self.writing = Writing(Targets(self._api, denylist), Uploads(host, fetching), folders)
        self.saving = Saving(self._api, denylist, fetching, folders, self.settings.max_download_bytes)

    async def reachable(self) -> Health:
        """Ask Graph for the agent's own drive. Raises `GraphError` and `AuthError`, which the host shows."""
        await self._api.own_drive()
        return Health(True, "The agent's OneDrive answers")
