"""Files of this machine, in the folders that the operator allows and nowhere else.

Every step of a path is opened from the folder above it and may not be a symbolic link, so nobody can swing one in
between the check and the use.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread

from entrabot_files.errors import LocalPathNotAllowedError
from entrabot_host import EntrabotError

_SEPARATORS = r"[/\\]" if os.sep == "\\" else "/"
_STEP = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


@dataclass(frozen=True)
class LocalFile:
    """An open regular file."""

    descriptor: int
    name: str
    size: int


class LocalFolders:
    """The allowed folders. They may lie behind links themselves: the operator named them."""

    def __init__(self, roots: tuple[str, ...]) -> None:
        self.roots = roots

    @asynccontextmanager
    async def opened(self, path: str) -> AsyncIterator[LocalFile]:
        """Open a file for reading. Raises `LocalPathNotAllowedError`, and `EntrabotError` when there is none."""
        file = await anyio.to_thread.run_sync(self._open, path)
        try:
            yield file
        finally:
            os.close(file.descriptor)

    def _open(self, path: str) -> LocalFile:
        root, names = self._split(path)
        folder = _folder(root, names[:-1])
        try:
            descriptor = _opened(names[-1], _READ, dir_fd=folder)
        finally:
            os.close(folder)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise LocalPathNotAllowedError("The path is not a regular file.", remedy="Name a file.")
        return LocalFile(descriptor, names[-1], status.st_size)

    @asynccontextmanager
    async def created(self, path: str, *, replace: bool) -> AsyncIterator[int]:
        """Give a descriptor to write to; the file gets its name when the block ends well, and is gone otherwise.

        Raises `LocalPathNotAllowedError`, and `EntrabotError` when the name is taken or the disk refuses.
        """
        part = await anyio.to_thread.run_sync(_Part, *self._split(path))
        try:
            if not replace:
                await anyio.to_thread.run_sync(part.check_free)
            yield part.descriptor
            await anyio.to_thread.run_sync(part.finish, replace)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(part.close)

    def _split(self, path: str) -> tuple[str, list[str]]:
        """Return the allowed folder and the names below it."""
        names = re.split(_SEPARATORS, path)
        if "\0" in path or ".." in names or not path.strip():
            raise self._refused("it is empty or climbs upwards")
        if not Path(path).is_absolute():
            return self.roots[0], self._below(names)
        for root in self.roots:
            above = [name for name in re.split(_SEPARATORS, root) if name not in ("", ".")]
            kept = [name for name in names if name not in ("", ".")]
            if kept[: len(above)] == above:
                return root, self._below([*kept[len(above) :], *([""] if names[-1] in ("", ".") else [])])
        raise self._refused("it lies outside the allowed folders")

    def _below(self, names: list[str]) -> list[str]:
        kept = [name for name in names if name not in ("", ".")]
        if not kept or names[-1] in ("", "."):
            raise self._refused("it names no file")
        return kept

    def _refused(self, why: str) -> LocalPathNotAllowedError:
        return LocalPathNotAllowedError(
            f"The local path was refused: {why}.", remedy=f"Allowed are files below: {', '.join(self.roots)}"
        )


class _Part:
    """A file in the making, in its folder under a name of its own."""

    def __init__(self, root: str, names: list[str]) -> None:
        self._name = names[-1]
        self._temporary = f".{secrets.token_hex(8)}.part"
        self._folder = _folder(root, names[:-1])
        try:
            self.descriptor = _opened(self._temporary, _MAKE, 0o600, dir_fd=self._folder)
        except BaseException:
            os.close(self._folder)
            raise

    def check_free(self) -> None:
        """Raise when the name is taken."""
        with suppress(FileNotFoundError):
            os.stat(self._name, dir_fd=self._folder, follow_symlinks=False)
            raise _taken()

    def finish(self, replace: bool) -> None:
        """Give the file its name, all at once."""
        try:
            os.fsync(self.descriptor)
            if replace:
                os.replace(self._temporary, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            else:
                os.link(self._temporary, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except FileExistsError:
            raise _taken() from None
        except OSError as error:
            raise _failed(error) from None

    def close(self) -> None:
        """Remove what is left of the making."""
        os.close(self.descriptor)
        with suppress(FileNotFoundError):
            os.unlink(self._temporary, dir_fd=self._folder)
        os.close(self._folder)


def _folder(root: str, names: list[str]) -> int:
    """Open the folder that lies so far below ``root``, step by step."""
    descriptor = _opened(os.path.realpath(root), _STEP)
    for name in names:
        try:
            below = _opened(name, _STEP, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


def _opened(name: str, flags: int, mode: int = 0, *, dir_fd: int | None = None) -> int:
    try:
        return os.open(name, flags, mode, dir_fd=dir_fd)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
            raise LocalPathNotAllowedError(
                "The local path leads through a symbolic link, or through what is no folder.",
                remedy="Name the file where it really lies.",
            ) from None
        raise _failed(error) from None


def _failed(error: OSError) -> EntrabotError:
    return EntrabotError(
        f"The local file cannot be used: {error.strerror or 'the system refused'}.",
        remedy="Check that the path exists, who may read or write it, and that there is room on the disk.",
    )


def _taken() -> EntrabotError:
    return EntrabotError(
        "There is a local file of this name already.", remedy="Choose another name, or overwrite=true."
    )
