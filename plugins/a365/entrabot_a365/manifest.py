"""The tooling manifest: which Work IQ servers there are. Anybody may have written it, so it decides nothing alone."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import anyio
import anyio.to_thread
import pydantic_core
from pydantic import BaseModel, BeforeValidator, Field, StringConstraints, ValidationError

from entrabot_a365.errors import A365ManifestInvalidError, A365ManifestNotFoundError
from entrabot_a365.settings import A365Settings

FILE = "ToolingManifest.json"
MAX_BYTES = 256 * 1024
MAX_SERVERS = 100
_SECONDS = 5.0
_PLACES = (Path(FILE), Path(".a365", FILE))
_SHARED_APP = "ea9ffc3e-8a23-4a7d-836d-234d7c7565c1"
_NO_AUDIENCE = ("", "default", _SHARED_APP, f"api://{_SHARED_APP}")

Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Text = Annotated[
    str,
    BeforeValidator(lambda value: "" if value in (None, "null") else value),
    StringConstraints(strip_whitespace=True, max_length=2000),
]


@dataclass(frozen=True)
class Server:
    """A Work IQ server. ``audience`` is what its tokens are asked for, without ``/.default``."""

    name: str
    url: str
    audience: str


class _Entry(BaseModel):
    name: Name = Field(alias="mcpServerName")
    unique_name: Text = Field(default="", alias="mcpServerUniqueName")
    url: Text = ""
    scope: Text = ""
    audience: Text = ""


class Manifest:
    """The servers that one file names, by name; case does not count."""

    def __init__(self, path: Path, servers: Iterable[tuple[str, Server]]) -> None:
        self.path = path
        self._servers: dict[str, Server] = {}
        for name, server in servers:
            self._servers.setdefault(name.casefold(), server)

    def get(self, name: str) -> Server | None:
        """Return the server of that name or unique name."""
        return self._servers.get(name.casefold())

    @property
    def names(self) -> list[str]:
        """The servers' names, sorted."""
        return sorted({server.name for server in self._servers.values()})


class ManifestSource:
    """Finds the manifest and reads it anew for each call, since it is added to while a server runs."""

    def __init__(self, settings: A365Settings, log: logging.Logger) -> None:
        self._settings = settings
        self._log = log
        self._last: tuple[Path, bytes, Manifest] | None = None

    async def current(self) -> Manifest:
        """Return the manifest. Raises `A365ManifestNotFoundError` and `A365ManifestInvalidError`."""
        try:
            with anyio.fail_after(_SECONDS):
                path, content = await anyio.to_thread.run_sync(self._find, abandon_on_cancel=True)
        except TimeoutError:
            raise A365ManifestInvalidError(f"{FILE} could not be read within {_SECONDS:g} seconds.") from None
        if self._last is None or self._last[:2] != (path, content):
            self._last = (path, content, parse(content, path, self._settings, self._log))
        return self._last[2]

    def _find(self) -> tuple[Path, bytes]:
        named = self._settings.manifest
        for place in (Path(named).expanduser(),) if named else _PLACES:
            if (content := _content(place)) is not None:
                return place, content
        looked = "the file that ENTRABOT_A365_TOOLING_MANIFEST names" if named else f"a {FILE}"
        raise A365ManifestNotFoundError(f"Agent 365 is not set up here: {looked} was not found.")


def _content(path: Path) -> bytes | None:
    """Return what is in a file; None when there is none. Never waits: it may be a pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise A365ManifestInvalidError(f"{FILE} cannot be read: {error.strerror}.") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise A365ManifestInvalidError(f"{FILE} is not a file.")
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise A365ManifestInvalidError(f"{FILE} cannot be read: {error.strerror}.") from None
    finally:
        os.close(descriptor)
    if len(content) > MAX_BYTES:
        raise A365ManifestInvalidError(f"{FILE} is larger than {MAX_BYTES // 1024} KiB.")
    return content


def parse(content: bytes, path: Path, settings: A365Settings, log: logging.Logger) -> Manifest:
    """Read a manifest as tolerantly as Microsoft's own tools: entries that make no sense are skipped.

    Raises `A365ManifestInvalidError` for what is not JSON.
    """
    try:
        root = pydantic_core.from_json(content.removeprefix(b"\xef\xbb\xbf"))
    except ValueError:
        raise A365ManifestInvalidError(f"{FILE} is not JSON in UTF-8.") from None
    rows = root.get("mcpServers") if isinstance(root, dict) else None
    entries = (_entry(row, log) for row in (rows if isinstance(rows, list) else [])[:MAX_SERVERS])
    servers = [(entry, _server(entry, settings)) for entry in entries if entry]
    unique = [(entry.unique_name, server) for entry, server in servers if entry.unique_name]
    return Manifest(path, unique + [(entry.name, server) for entry, server in servers])


def _entry(row: Any, log: logging.Logger) -> _Entry | None:
    try:
        return _Entry.model_validate(row)
    except ValidationError as error:
        parts = {str(detail["loc"][0]) if detail["loc"] else "entry" for detail in error.errors()}
        log.warning("an entry of %s was skipped: %s makes no sense", FILE, ", ".join(sorted(parts)))
        return None


def _server(entry: _Entry, settings: A365Settings) -> Server:
    url = entry.url or f"{settings.platform_endpoint.rstrip('/')}/agents/servers/{quote(entry.name, safe='')}"
    audience = entry.audience.lower()
    if audience in _NO_AUDIENCE:
        audience = settings.platform_scope.lower().removesuffix("/.default")
    return Server(entry.unique_name or entry.name, url, audience)
