"""What the last fetch brought, kept for the next start."""

from __future__ import annotations

import os
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from entrabot_host.persona.cache import Cached, PersonaCache

URL = "https://persona.example/mcp"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)


def test_a_text_and_a_failure_are_kept_side_by_side(tmp_path: Path) -> None:
    cache = PersonaCache(tmp_path / "data", URL)
    assert cache.read() == Cached()
    assert cache.read().nothing

    cache.note("no answer", NOW)
    assert cache.read() == Cached(error="no answer", failed=NOW)
    assert not cache.read().nothing

    cache.keep("You are Sati.", LATER)
    assert cache.read() == Cached("You are Sati.", LATER)

    cache.note("refused", LATER + timedelta(minutes=1))
    assert cache.read().text == "You are Sati."
    assert cache.read().last_error == "refused"


def test_a_failure_before_the_text_counts_no_more(tmp_path: Path) -> None:
    cache = PersonaCache(tmp_path, URL)
    cache.keep("You are Sati.", LATER)
    cache.note("no answer", NOW)  # another process, which gave up earlier and writes later
    assert cache.read().last_error == ""


def test_another_address_is_another_persona(tmp_path: Path) -> None:
    PersonaCache(tmp_path, URL).keep("You are Sati.", NOW)
    assert PersonaCache(tmp_path, f"{URL}?who=mara").read().nothing


def test_the_files_are_the_owners_alone_and_no_stored_keys(tmp_path: Path) -> None:
    PersonaCache(tmp_path / "data", URL).keep("You are Sati.", NOW)
    PersonaCache(tmp_path / "data", URL).note("refused", NOW)
    (folder,) = (tmp_path / "data").iterdir()
    assert folder.name.startswith(".")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    found = sorted(folder.iterdir())
    assert len(found) == 2
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in found)
    assert all("persona.example" not in path.name + path.read_text(encoding="utf-8") for path in found)


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe", b"{", b"[]", b"null", b'{"text": "x"}', b'{"text": "x", "fetched": 3}', b'{"fetched": "no"}'],
)
def test_a_file_that_makes_no_sense_counts_as_absent(tmp_path: Path, content: bytes) -> None:
    cache = PersonaCache(tmp_path, URL)
    cache.keep("You are Sati.", NOW)
    (path,) = (tmp_path / ".persona").iterdir()
    path.write_bytes(content)
    assert cache.read().nothing


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("/dev/zero"), lambda path: os.mkfifo(path)])
def test_what_is_no_plain_file_is_not_read(tmp_path: Path, make: object) -> None:
    cache = PersonaCache(tmp_path, URL)
    cache.keep("You are Sati.", NOW)
    (path,) = (tmp_path / ".persona").iterdir()
    path.unlink()
    make(path)  # type: ignore[operator]
    assert cache.read().nothing


@pytest.mark.parametrize("content", [b"[" * 200_000, b'{"text": "' + b"x" * 2_000_000 + b'", "fetched": "2026-01-01"}'])
def test_a_file_that_nobody_of_us_wrote_holds_nothing_up(tmp_path: Path, content: bytes) -> None:
    cache = PersonaCache(tmp_path, URL)
    cache.keep("You are Sati.", NOW)
    (path,) = (tmp_path / ".persona").iterdir()
    path.write_bytes(content)
    assert cache.read().nothing


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_text_that_others_may_have_written_is_not_believed(tmp_path: Path, mode: int) -> None:
    cache = PersonaCache(tmp_path, URL)
    cache.keep("You are Sati.", NOW)
    (path,) = (tmp_path / ".persona").iterdir()
    path.chmod(mode)
    assert cache.read().nothing
    cache.keep("You are Sati.", NOW)
    assert cache.read().text == "You are Sati."


def test_many_writers_leave_one_whole_text(tmp_path: Path) -> None:
    texts = [str(number) * 50_000 for number in range(8)]

    def write(text: str) -> None:
        cache = PersonaCache(tmp_path, URL)
        for _ in range(5):
            cache.keep(text, NOW)
            assert cache.read().text in texts

    threads = [threading.Thread(target=write, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert PersonaCache(tmp_path, URL).read().text in texts
    assert len(list((tmp_path / ".persona").iterdir())) == 1
