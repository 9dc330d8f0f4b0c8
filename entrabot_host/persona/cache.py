"""What the last fetch brought, in files of the data folder, for the next start to use at once.

The text and the last failure have a file each: several processes write, and a failure must not undo another's text.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from entrabot_host.storage import files

_FOLDER = ".persona"  # a name that no stored key begins with
_MOST_BYTES = 1 << 20
"""Far more than a text of 64 KiB takes in JSON; reading more would delay the start."""


@dataclass(frozen=True)
class Cached:
    """What is known from earlier: the text and when it was fetched, the last failure and when it came."""

    text: str = ""
    fetched: datetime | None = None
    error: str = ""
    failed: datetime | None = None

    @property
    def nothing(self) -> bool:
        """Whether no fetch has ever ended."""
        return self.fetched is None and self.failed is None

    @property
    def last_error(self) -> str:
        """The last fetch's failure; empty when it succeeded."""
        return "" if self.fetched and self.failed and self.failed <= self.fetched else self.error


class PersonaCache:
    """The files of one persona server, readable by their owner only. All methods block: run them in a thread.

    What others may have written is not read: it would speak to the agent.
    """

    def __init__(self, data: Path, url: str) -> None:
        name = hashlib.sha256(url.encode()).hexdigest()[:32]
        self._folder = data / _FOLDER
        self._text = self._folder / f"{name}.json"
        self._failure = self._folder / f"{name}.failed.json"

    def read(self) -> Cached:
        """Return what is there. A file that cannot be read or makes no sense counts as absent."""
        text, fetched = _entry(self._text, "text", "fetched")
        error, failed = _entry(self._failure, "error", "failed")
        return Cached(text, fetched, error, failed)

    def keep(self, text: str, now: datetime) -> None:
        """Keep the text of a fetch that succeeded. Raises `OSError`."""
        self._replace(self._text, {"text": text, "fetched": now.isoformat()})
        self._failure.unlink(missing_ok=True)

    def note(self, error: str, now: datetime) -> None:
        """Keep the failure of a fetch. Raises `OSError`."""
        self._replace(self._failure, {"error": error, "failed": now.isoformat()})

    def _replace(self, path: Path, content: dict[str, str]) -> None:
        files.make_folder(self._folder)
        with files.temporary_file(self._folder, json.dumps(content).encode()) as temporary:
            temporary.replace(path)


def _entry(path: Path, value: str, moment: str) -> tuple[str, datetime | None]:
    try:
        if not _is_ours(path.lstat()):
            return "", None
        found = files.read_file(path)
        if found is None:
            return "", None
        content: Any = json.loads(found[0])
        return str(content[value]), datetime.fromisoformat(content[moment]).astimezone(UTC)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return "", None


def _is_ours(status: os.stat_result) -> bool:
    own = os.name != "posix" or (status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    return own and status.st_size <= _MOST_BYTES
