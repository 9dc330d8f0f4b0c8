"""Entry points to plugins: list without importing, select, then load each one on its own.

pluggy's own loader is not used: it stops at the first plugin whose import raises.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from entrabot_host.config import Config
from entrabot_host.errors import PluginError, SettingsError
from entrabot_host.security.redaction import redact
from entrabot_host.security.text import one_line

GROUP = "entrabot.plugins"
ALLOW = "ENTRABOT_PLUGINS"
BLOCK = "ENTRABOT_PLUGINS_DISABLED"
STRICT = "ENTRABOT_STRICT_PLUGINS"
READ_ONLY = "ENTRABOT_READ_ONLY"
FILES = "ENTRABOT_PLUGIN_FILES"
HOST = "host"
RESERVED = frozenset({HOST, "agent-user", "delegated", "persona"})
"""Names of the host's own plugins."""
_OWN_FOLDER = Path(__file__).parent


class Status(StrEnum):
    """What became of an installed plugin."""

    ACTIVE = "active"
    DISABLED = "disabled"
    QUARANTINED = "quarantined"


@dataclass(frozen=True)
class Installed:
    """A plugin that is there, whether or not it will be used. ``load`` imports it."""

    name: str
    distribution: str
    version: str
    load: Callable[[], object] = field(repr=False)


@dataclass(frozen=True)
class Problem:
    """Why a plugin is quarantined: at which step, and the cause in one line. ``trace`` is for the log only."""

    plugin: Installed
    step: str
    cause: str
    trace: str = field(default="", repr=False)

    def __str__(self) -> str:
        origin = f"{self.plugin.distribution} {self.plugin.version}".strip()
        return f"plugin {self.plugin.name!r} ({origin}) is quarantined: {self.step}: {self.cause}"


@dataclass(frozen=True)
class Selection:
    """The operator's choice. allow: None means everything that is installed. files: plugins that are no packages."""

    allow: frozenset[str] | None = None
    block: frozenset[str] = frozenset()
    files: tuple[Path, ...] = ()
    read_only: bool = False
    strict: bool = False

    def wants(self, name: str) -> bool:
        """Whether the plugin of this name is to be used."""
        return name not in self.block and (self.allow is None or name in self.allow or name in self._file_names)

    def names(self, name: str) -> bool:
        """Whether the operator listed the plugin by name: only then do its policy wrappers count."""
        return name in (self.allow or ()) or name in self._file_names

    @property
    def _file_names(self) -> set[str]:
        return {path.stem for path in self.files}


@dataclass(frozen=True)
class Loaded:
    """A plugin that was imported. ``module`` holds its hook implementations."""

    installed: Installed
    module: object = field(repr=False)

    @property
    def name(self) -> str:
        """The plugin's name, from its entry point."""
        return self.installed.name


def selection(config: Config) -> Selection:
    """Read the operator's choice from the settings. Raises `SettingsError` for a switch that is neither on nor off."""
    allow = config.get(ALLOW)
    return Selection(
        allow=None if not allow else frozenset() if allow.lower() == "none" else _names(allow),
        block=_names(config.get(BLOCK)),
        files=tuple(Path(part).expanduser() for part in config.get(FILES).split(os.pathsep) if part.strip()),
        read_only=switch(config, READ_ONLY),
        strict=switch(config, STRICT),
    )


def switch(config: Config, name: str) -> bool:
    """Read an on/off variable; unset is off. Raises `SettingsError`."""
    value = config.get(name).lower()
    if value in ("", "0", "false", "no", "off"):
        return False
    if value in ("1", "true", "yes", "on"):
        return True
    raise SettingsError(f"{name} (from {config.origin(name)}) must be 1 or 0.", remedy=f"Set {name}=1 or unset it.")


def _names(text: str) -> frozenset[str]:
    return frozenset(part.strip() for part in text.split(",") if part.strip())


def installed_plugins(files: Sequence[Path] = ()) -> list[Installed]:
    """List the plugins of this environment, and those in ``files``, by name, importing none of them.

    A file takes the place of an installed plugin of its name: it is what its author is working on.
    """
    from importlib_metadata import entry_points

    found = [
        Installed(
            name=point.name,
            distribution=point.dist.name if point.dist else "unknown",
            version=point.dist.version if point.dist else "",
            load=point.load,
        )
        for point in entry_points(group=GROUP)
        if point.name not in {path.stem for path in files}
    ]
    found += [Installed(path.stem, str(path), "", partial(_load_file, path)) for path in files]
    return sorted(found, key=lambda plugin: (plugin.name, plugin.distribution))


def _load_file(path: Path) -> object:
    """Import one file as a module of its own, under a name that hides nothing."""
    spec = spec_from_file_location(f"entrabot_plugin_file_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise PluginError(f"{path} is not a Python file.")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # annotations are resolved through it
    spec.loader.exec_module(module)
    return module


def unknown_names(chosen: Selection, installed: Iterable[Installed]) -> list[str]:
    """Say which listed names no installed plugin has: most likely typing errors, so the operator is told."""
    names = {plugin.name for plugin in installed} | RESERVED
    listed = {ALLOW: chosen.allow or frozenset(), BLOCK: chosen.block}
    return [
        f"{variable} names {name[:64]!r}, which is not installed; there are: {', '.join(sorted(names - RESERVED))}"
        for variable, wanted in listed.items()
        for name in sorted(wanted - names)
    ]


def load_plugins(installed: Sequence[Installed], chosen: Selection) -> tuple[list[Loaded], list[Problem]]:
    """Import the selected plugins, each on its own; what fails is returned as a problem."""
    loaded: list[Loaded] = []
    problems: list[Problem] = []
    copies = Counter(plugin.name for plugin in installed)
    for plugin in installed:
        if not chosen.wants(plugin.name):
            continue
        if plugin.name in RESERVED or copies[plugin.name] > 1:
            problems.append(Problem(plugin, "selection", _name_clash(plugin, installed)))
            continue
        try:
            loaded.append(Loaded(plugin, plugin.load()))
        except BaseException as error:  # SystemExit and the like, too: nothing of a plugin may end the server
            problems.append(failed(plugin, "import", error))
    return loaded, problems


def failed(plugin: Installed, step: str, error: BaseException) -> Problem:
    """Describe an exception that a plugin let escape."""
    cause = one_line(redact(f"{type(error).__name__}: {error}"[:2000]), 500)
    return Problem(plugin, step, f"{cause}{_place(error)}", "".join(traceback.format_exception(error)))


def _place(error: BaseException) -> str:
    """Say in which file and line of the plugin, or of what it uses, an exception came up."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<") and not Path(frame.filename).is_relative_to(_OWN_FOLDER)
    ]
    places = [f"{Path(frame.filename).name}, line {frame.lineno}" for frame in frames if "pluggy" not in frame.filename]
    return f" ({one_line(places[-1], 100)})" if places else ""


def _name_clash(plugin: Installed, installed: Sequence[Installed]) -> str:
    if plugin.name in RESERVED:
        return f"the name {plugin.name!r} is reserved"
    rivals = ", ".join(other.distribution for other in installed if other.name == plugin.name)
    return f"several distributions offer a plugin of this name: {rivals}; uninstall all but one"
