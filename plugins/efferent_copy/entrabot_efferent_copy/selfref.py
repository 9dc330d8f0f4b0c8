"""Whether a peer is this very server: starting ourselves as our own observer would go on for ever.

Only what a command *runs* counts. Another server that shares our interpreter, or mentions our name in an argument, is
not us.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

COMMAND: Final = "entrabot-mcp"
MODULE: Final = "entrabot_host.main"

_MARKER = re.compile(r"^\s*(?:#|//|::|rem\b)\s*entrabot-self-ref-target:\s*(\S.*?)\s*$", re.IGNORECASE | re.MULTILINE)
_READ = 16_384
_DEEPEST = 8
_PYTHON = re.compile(r"^(?:python|pypy)[\d.]*w?$")
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
_PREFIXES = frozenset({"env", "exec", "nohup", "nice", "setsid", "stdbuf", "time", "caffeinate"})
_RUNNERS: Mapping[str, tuple[str, ...]] = {
    "uv": ("run", "tool", "x"),
    "uvx": (),
    "pipx": ("run",),
    "poetry": ("run",),
    "pdm": ("run",),
    "hatch": ("run",),
    "rye": ("run",),
}
_PYTHON_VALUES = frozenset({"-X", "-W"})
_TAKE_VALUE = frozenset(
    {
        *("-p", "-w", "-C", "-n", "-u", "--unset", "--chdir"),
        *("--directory", "--project", "--package", "--group", "--extra", "--env-file", "--config-file", "--color"),
        *("--with", "--with-editable", "--with-requirements", "--from", "--spec", "--python"),
        *("--index", "--default-index"),
    }
)
_ASSIGNMENT = re.compile(r"^[A-Za-z_]\w*=")


def _is_self_referential_peer(peer: Any) -> bool:
    """Whether the peer's command runs this server, through interpreters, runners, shells, wrappers and symlinks.

    peer: a mapping as it stands in ``.mcp.json``, or an object with ``command``, ``args``, ``cwd`` and ``env``.
    """
    known: Mapping[str, Any] = peer if isinstance(peer, Mapping) else vars(peer)
    command = known.get("command")
    if not isinstance(command, str) or not command.strip():
        return False
    arguments = [str(argument) for argument in known.get("args") or ()]
    return _Resolver(known.get("cwd"), known.get("env")).is_ours([command, *arguments])


def _wrapper_self_ref_target(path: str | os.PathLike[str]) -> Path | None:
    """Return what a wrapper script declares to run with ``# entrabot-self-ref-target: <path>``, or None.

    A relative target is relative to the script's folder.
    """
    script = Path(path)
    try:
        if not script.is_file():
            return None
        with script.open("rb") as stream:
            head = stream.read(_READ).decode("utf-8", "replace")
    except OSError:
        return None
    if head.startswith(("\x7fELF", "MZ")) or (found := _MARKER.search(head)) is None:
        return None
    target = Path(os.path.expandvars(found[1].strip("\"'"))).expanduser()
    return target if target.is_absolute() else script.parent / target


class _Resolver:
    """Follows one command line to what it runs in the end."""

    def __init__(self, cwd: Any, env: Any) -> None:
        self._cwd = Path(cwd).expanduser() if cwd else Path.cwd()
        self._path = env.get("PATH") if isinstance(env, Mapping) else None
        self._own = _own_files()

    def is_ours(self, line: Sequence[str], depth: int = 0) -> bool:
        if not line or depth > _DEEPEST:
            return False
        command, arguments = line[0], list(line[1:])
        name = Path(command).name.lower().removesuffix(".exe").removesuffix(".cmd")
        if _PYTHON.match(name):
            return self._python(command, arguments)
        if name in _SHELLS:
            return self._shell(arguments, depth)
        if name in _PREFIXES:
            return self.is_ours(_positional(arguments), depth + 1)
        if name in _RUNNERS:
            return self._runner(name, arguments, depth)
        return self._file(self._which(command))

    def _python(self, command: str, arguments: list[str]) -> bool:
        position = 0
        while position < len(arguments) and arguments[position].startswith("-"):
            option = arguments[position]
            rest = arguments[position + 1 :]
            if option.startswith("-m"):
                return _is_our_module(option[2:] or next(iter(rest), ""))
            if option.startswith("-c"):
                return MODULE in (option[2:] or next(iter(rest), ""))
            position += 2 if option in _PYTHON_VALUES else 1
        if position < len(arguments):
            return self._file(self._cwd / Path(arguments[position]).expanduser())
        return not arguments and _real(self._which(command)) == _real(Path(sys.executable))

    def _shell(self, arguments: list[str], depth: int) -> bool:
        for position, argument in enumerate(arguments):
            if argument.startswith("-") and "c" in argument[1:] and not argument.startswith("--"):
                return any(self.is_ours(line, depth + 1) for line in _commands(arguments[position + 1 :]))
            if not argument.startswith("-"):
                return self._file(self._cwd / Path(argument).expanduser())
        return False

    def _runner(self, name: str, arguments: list[str], depth: int) -> bool:
        rest = _positional(arguments)
        while rest and rest[0] in _RUNNERS[name]:
            rest = rest[1:]
            if rest[:1] in (["-m"], ["--module"]):
                return _is_our_module(next(iter(rest[1:]), ""))
            rest = _positional(rest)
        if rest and Path(rest[0]).suffix == ".py":
            return self._file(self._cwd / rest[0])
        return self.is_ours(rest, depth + 1)

    def _which(self, command: str) -> Path:
        expanded = Path(command).expanduser()
        if len(expanded.parts) > 1:
            return self._cwd / expanded
        found = shutil.which(command, path=self._path)
        return Path(found) if found else expanded

    def _file(self, path: Path, depth: int = 0) -> bool:
        real = _real(path)
        if path.name == COMMAND or Path(path.name).stem == COMMAND or real.name == COMMAND or real in self._own:
            return True
        target = _wrapper_self_ref_target(real)
        return target is not None and depth <= _DEEPEST and self._file(target, depth + 1)


def _own_files() -> frozenset[Path]:
    """The script this process runs, and the module behind it."""
    spec = find_spec(MODULE)
    candidates = [sys.argv[0] if sys.argv else "", spec.origin if spec else None]
    return frozenset(_real(Path(name)) for name in candidates if name and name not in ("-c", "-m", "-"))


def _is_our_module(name: str) -> bool:
    main = sys.modules.get("__main__")
    running = getattr(getattr(main, "__spec__", None), "name", "") or ""
    return name in {MODULE, MODULE.rpartition(".")[0], running, running.removesuffix(".__main__")} - {""}


def _positional(arguments: Sequence[str]) -> list[str]:
    """Leave out leading options and assignments."""
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        if argument in ("-m", "--module"):
            break
        if argument == "--":
            return list(arguments[position + 1 :])
        if not argument.startswith("-") and not _ASSIGNMENT.match(argument):
            break
        position += 2 if argument in _TAKE_VALUE else 1
    return list(arguments[position:])


def _commands(script: Sequence[str]) -> Iterator[list[str]]:
    """Split what a shell is given after ``-c`` into its simple commands."""
    try:
        lexer = shlex.shlex(next(iter(script), ""), posix=True, punctuation_chars=";&|()\n")
        lexer.whitespace = " \t\r"
        words = list(lexer)
    except ValueError:  # an unclosed quote: the shell will refuse it, too
        return
    line: list[str] = []
    for word in [*words, ";"]:
        if set(word) <= set(";&|()\n"):
            yield _positional(line)
            line = []
        else:
            line.append(word)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
