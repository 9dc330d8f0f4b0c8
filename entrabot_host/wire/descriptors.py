"""Taking standard input and output away from everybody else. Imports next to nothing, so that it can run first."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

if sys.platform != "win32":
    import fcntl

_STDIN, _STDOUT, _STDERR = 0, 1, 2


class Wire(NamedTuple):
    """The host's two pipes as private descriptors, both above 2 and not inherited by children."""

    read_fd: int
    write_fd: int


def claim_descriptors() -> Wire:
    """Move the wire to private descriptors and divert the standard ones.

    Afterwards descriptor 0 is the null device and descriptor 1 is standard error, for this process and its children:
    ``print()`` goes to standard error, ``input()`` meets the end of file. A descriptor that was closed when the process
    started becomes one that reports its end at once.
    """
    had_input, had_output = _is_open(_STDIN), _is_open(_STDOUT)
    _fill_gaps()
    read_fd = _duplicate(_STDIN)
    write_fd = _duplicate(_STDOUT) if had_output else _widowed_pipe()
    _divert_to_null(_STDIN, os.O_RDONLY)
    os.dup2(_STDERR, _STDOUT)
    _rebind_streams(had_input)
    return Wire(read_fd, write_fd)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _fill_gaps() -> None:
    """Open the null device on every closed standard descriptor, so that no later file lands there."""
    for fd in (_STDIN, _STDOUT, _STDERR):
        if not _is_open(fd):
            _divert_to_null(fd, os.O_RDWR)


def _divert_to_null(fd: int, flags: int) -> None:
    null = os.open(os.devnull, flags)
    if null == fd:
        os.set_inheritable(fd, True)
        return
    os.dup2(null, fd)
    os.close(null)


def _duplicate(fd: int) -> int:
    if sys.platform == "win32":
        import msvcrt

        copy = os.dup(fd)
        msvcrt.setmode(copy, os.O_BINARY)
        return copy
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


def _widowed_pipe() -> int:
    """Return the writing end of a pipe that nobody reads: writing to it fails, and polling it reports so."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


def _rebind_streams(had_input: bool) -> None:
    if sys.stderr is None:
        sys.stderr = open(_STDERR, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    if sys.stdout is not None:
        sys.stdout.flush()  # whatever was printed earlier follows the diversion
    sys.stdout = sys.stderr
    if not had_input or sys.stdin is None:
        sys.stdin = open(_STDIN, encoding="utf-8", closefd=False)  # noqa: SIM115
