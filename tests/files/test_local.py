"""Files of this machine: nothing outside of the allowed folders, whatever a path says or leads through."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from entrabot_files.errors import LocalPathNotAllowedError
from entrabot_files.local import LocalFolders
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from entrabot_host import EntrabotError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_bytes(b"secret")
    (tmp_path / "root-sibling").mkdir()
    (tmp_path / "root-sibling" / "a.txt").write_bytes(b"secret")
    (tmp_path / "root" / "sub").mkdir(parents=True)
    (tmp_path / "root" / "sub" / "a.txt").write_bytes(b"allowed")
    return tmp_path / "root"


@pytest.fixture
def folders(root: Path) -> LocalFolders:
    return LocalFolders((str(root),))


async def content(folders: LocalFolders, path: str) -> bytes:
    async with folders.opened(path) as file:
        return os.pread(file.descriptor, file.size, 0)


async def test_what_is_allowed(folders: LocalFolders, root: Path) -> None:
    for path in ("sub/a.txt", str(root / "sub" / "a.txt"), "./sub//a.txt", f"{root}//sub/a.txt"):
        assert await content(folders, path) == b"allowed"


async def test_what_is_outside(folders: LocalFolders, root: Path) -> None:
    above = root.parent
    for path in (
        "",
        " ",
        "/",
        "..",
        "../secret.txt",
        "sub/../../secret.txt",
        str(above / "secret.txt"),
        f"{root}/../secret.txt",
        f"{root}-sibling/a.txt",
        str(root),
        f"{root}/",
        "sub/",
        "sub/.",
        "/etc/passwd",
        "a\0b",
    ):
        with pytest.raises(LocalPathNotAllowedError):
            await content(folders, path)


async def test_links_are_not_followed(folders: LocalFolders, root: Path) -> None:
    (root / "file").symlink_to(root.parent / "secret.txt")
    (root / "folder").symlink_to(root.parent)
    (root / "inside").symlink_to(root / "sub")
    for path in ("file", "folder/secret.txt", "inside/a.txt"):
        with pytest.raises(LocalPathNotAllowedError):
            await content(folders, path)
    for path in ("folder/new.txt", "inside/new.txt"):
        with pytest.raises(LocalPathNotAllowedError):
            async with folders.created(path, replace=True):
                pass
    async with folders.created("file", replace=True) as descriptor:
        os.write(descriptor, b"new")
    assert (root.parent / "secret.txt").read_bytes() == b"secret"
    assert (root / "file").read_bytes() == b"new"
    assert not (root / "file").is_symlink()


async def test_the_allowed_folder_itself_may_be_behind_a_link(root: Path) -> None:
    (root.parent / "link").symlink_to(root)
    assert await content(LocalFolders((str(root.parent / "link"),)), "sub/a.txt") == b"allowed"


async def test_only_regular_files(folders: LocalFolders, root: Path) -> None:
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        os.chdir(root)  # the address of a socket may not be long
        listening.bind(str(root / "s"))
    for path in ("pipe", "s", "sub"):
        with pytest.raises(EntrabotError):
            await content(folders, path)
    with pytest.raises(EntrabotError, match="No such file"):
        await content(folders, "nothing")


async def test_a_file_appears_whole_or_not_at_all(folders: LocalFolders, root: Path) -> None:
    async def made(name: str, then: Callable[[], object]) -> None:
        async with folders.created(name, replace=False) as descriptor:
            os.write(descriptor, b"half")
            assert name == "sub/a.txt" or not (root / name).exists()
            then()

    with pytest.raises(ZeroDivisionError):
        await made("sub/b.txt", lambda: 1 / 0)
    with pytest.raises(EntrabotError, match="already"):
        await made("sub/a.txt", lambda: None)
    with pytest.raises(EntrabotError, match="already"):
        await made("sub/c.txt", lambda: (root / "sub" / "c.txt").write_bytes(b"theirs"))
    assert (root / "sub" / "c.txt").read_bytes() == b"theirs"
    assert sorted(path.name for path in (root / "sub").iterdir()) == ["a.txt", "c.txt"]


PARTS = st.lists(
    st.sampled_from(["..", ".", "", "sub", "a.txt", "link", "secret.txt", "~", "\\", "%2e%2e"]), max_size=6
)


@given(PARTS, st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_no_path_reads_the_secret(root: Path, parts: list[str], absolute: bool) -> None:
    import asyncio

    if not (root / "link").is_symlink():
        (root / "link").symlink_to(root.parent)
    path = "/".join(([str(root)] if absolute else []) + parts)
    try:
        found = asyncio.run(content(LocalFolders((str(root),)), path))
    except EntrabotError:
        return
    assert found == b"allowed"
