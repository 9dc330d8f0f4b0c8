"""Which peers may become observers: the operator's choice, and the servers that an ``.mcp.json`` lists."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from entrabot_efferent_copy.selfref import _is_self_referential_peer

log = logging.getLogger(__name__)
ENABLE: Final = "EFFERENT_COPY_ENABLE"
DISABLE: Final = "EFFERENT_COPY_DISABLE"
SINKS: Final = "EFFERENT_COPY_SINKS"
CONFIG: Final = "EFFERENT_COPY_CONFIG"
TRUST_WORKDIR: Final = "EFFERENT_COPY_TRUST_WORKDIR"
WORKDIR_FILE: Final = ".mcp.json"

_LARGEST_FILE = 4 * 1024 * 1024
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_TRANSPORTS: Mapping[str, str] = {
    "stdio": "stdio",
    "sse": "sse",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamablehttp": "http",
}


@dataclass(frozen=True)
class Choice:
    """What the operator asked for. ``sinks`` empty means every compatible peer of a file that is trusted."""

    enabled: bool
    sinks: frozenset[str] = frozenset()
    config: Path | None = None
    trust_workdir: bool = False

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Choice:
        """Read it from variables. ``EFFERENT_COPY_DISABLE`` wins, whatever it holds unless that means no."""
        disabled = environ.get(DISABLE, "").strip().lower() not in ("", "0", "false", "no", "off")
        config = environ.get(CONFIG, "").strip()
        return cls(
            enabled=not disabled and _is_on(environ.get(ENABLE, "")),
            sinks=frozenset(split_names(environ.get(SINKS, ""))),
            config=Path(config).expanduser() if config else None,
            trust_workdir=_is_on(environ.get(TRUST_WORKDIR, "")),
        )


def _is_on(value: str) -> bool:
    return value.strip().lower() in ("1", "true", "yes", "on")


def split_names(text: str) -> tuple[str, ...]:
    """Split ``"a, b"`` into its names."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


@dataclass(frozen=True)
class Peer:
    """One server of an ``.mcp.json``, ready to be connected. transport: ``stdio``, ``sse`` or ``http``."""

    name: str
    transport: str
    command: str = ""
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str = ""
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON data from which `from_dict` makes the same peer."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Peer:
        """Undo `to_dict`."""
        return cls(**{**data, "args": tuple(data["args"])})


@dataclass(frozen=True)
class Candidates:
    """The peers to be asked whether they observe, and the names of those that are not trusted to be asked."""

    peers: tuple[Peer, ...] = ()
    passed_over: tuple[str, ...] = ()
    file: str = ""


def candidates(choice: Choice, config_path: Path | None = None) -> Candidates:
    """Read the file that counts and return the peers to be asked; connects to nothing and starts nothing.

    A file that the operator named is followed. ``.mcp.json`` of the working directory may be a stranger's: its peers
    count only if the operator named them, or said that the folder is trusted. What is wrong is logged, not raised.
    """
    if not choice.enabled:
        return Candidates()
    named = config_path or choice.config
    path = named or Path.cwd() / WORKDIR_FILE
    if not named and not path.is_file():
        return Candidates()
    entries = _read(path)
    trusted = named is not None or choice.trust_workdir
    peers, passed_over = [], []
    for name, entry in entries.items():
        if choice.sinks and name not in choice.sinks:
            continue
        if not trusted and name not in choice.sinks:
            passed_over.append(name)
        elif (peer := _peer(name, entry)) is not None:
            peers.append(peer)
    if missing := sorted(choice.sinks - set(entries)):
        log.warning("%s names %s, which %s does not list", SINKS, shown(missing), path)
    if passed_over:
        log.warning(
            "%s lists MCP servers that no setting of yours names: %s. None was started or connected. To send them"
            " copies of tool calls, name them in %s, or set %s=1 if you trust every project you work in.",
            path,
            shown(passed_over),
            SINKS,
            TRUST_WORKDIR,
        )
    return Candidates(tuple(peers), tuple(passed_over), str(path))


def _read(path: Path) -> dict[str, Any]:
    """Return the file's servers by name, none if it is of no use."""
    try:
        with path.open("rb") as stream:
            data = stream.read(_LARGEST_FILE + 1)
        if len(data) > _LARGEST_FILE:
            raise ValueError(f"it is larger than {_LARGEST_FILE} bytes")
        content = json.loads(data.decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        reason = f"line {error.lineno}: {error.msg}" if isinstance(error, json.JSONDecodeError) else error
        log.warning("no observer is taken from %s, which cannot be read as JSON: %s", path, reason)
        return {}
    servers = content.get("mcpServers", content.get("servers")) if isinstance(content, dict) else None
    if not isinstance(servers, dict):
        log.warning('no observer is taken from %s: it has no object named "mcpServers"', path)
        return {}
    return servers


def _peer(name: str, entry: Any) -> Peer | None:
    """Check one entry; says on the log why it is left out."""
    try:
        peer = _parsed(name, entry)
    except ValueError as error:
        log.warning("MCP server %s is no candidate for copies of tool calls: %s", shown([name]), error)
        return None
    if peer is not None and peer.transport == "stdio" and _is_self_referential_peer(peer):
        log.info("MCP server %s is this server itself and gets no copies", shown([name]))
        return None
    return peer


def _parsed(name: str, entry: Any) -> Peer | None:
    if not isinstance(entry, dict):
        raise ValueError("its entry is not an object")
    if entry.get("disabled") is True:
        return None
    kind = entry.get("type", entry.get("transport")) or ("http" if "url" in entry else "stdio")
    transport = _TRANSPORTS.get(str(kind).lower())
    if transport is None:
        raise ValueError("its type is none of stdio, sse, http, streamable-http")
    if transport != "stdio":
        url = _text(entry, "url")
        if not url.lower().startswith(("http://", "https://")):
            raise ValueError("its url is not an http or https address")
        return Peer(name, transport, url=url, headers=_texts(entry, "headers"))
    args = entry.get("args", [])
    if not isinstance(args, list) or not all(isinstance(argument, str) for argument in args):
        raise ValueError('"args" is not a list of strings')
    return Peer(
        name,
        transport,
        command=_text(entry, "command"),
        args=tuple(_expanded(argument, "args") for argument in args),
        env=_texts(entry, "env"),
        cwd=_text(entry, "cwd") if entry.get("cwd") else "",
    )


def _text(entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f'"{key}" is missing or not a string')
    return _expanded(value, key)


def _texts(entry: Mapping[str, Any], key: str) -> dict[str, str]:
    values = entry.get(key) or {}
    if not isinstance(values, dict):
        raise ValueError(f'"{key}" is not an object')
    if not all(isinstance(value, str | int | float) for value in values.values()):
        raise ValueError(f'"{key}" holds something that is not a string')
    return {name: _expanded(str(value), key) for name, value in values.items()}


def _expanded(text: str, key: str) -> str:
    """Replace ``${NAME}`` and ``${NAME:-default}`` from the environment."""

    def value(found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        known = os.environ.get(name)
        if default is not None:
            return known or default
        if known is None:
            raise ValueError(f'"{key}" needs the environment variable {name}, which is not set')
        return known

    if "\0" in text:
        raise ValueError(f'"{key}" holds a null character')
    return _VARIABLE.sub(value, text)


def shown(names: Iterable[str]) -> str:
    """Names from a file for a log line: quoted, cut short, ten at most."""
    known = list(names)
    listed = ", ".join(ascii(name[:64]) for name in known[:10])
    return f"{listed} and {len(known) - 10} more" if len(known) > 10 else listed
