"""The list of watched chats and its store."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from entrabot_teams.watching import KEY, WatchedChats

from tests.teams.parts import Clock, MemoryStore, PlainHost

A, B, C = (f"19:{letter * 32}@thread.v2" for letter in "abc")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def host() -> PlainHost:
    return PlainHost(graph=None, identity=None)


@pytest.fixture
def watched(host: PlainHost, clock: Clock) -> WatchedChats:
    return WatchedChats(host, clock)


def lines(store: MemoryStore) -> list[str]:
    return store.values[KEY].decode().splitlines()


async def test_an_old_list_is_read_and_added_to(host: PlainHost, watched: WatchedChats) -> None:
    await host.store.write(KEY, f"{A}\r\n# mine\n\n{B}".encode())
    assert await watched.all() == {A, B}
    await watched.add([C, A])
    assert lines(host.store) == [A, "# mine", "", B, C]


async def test_additions_are_one_write_and_repeats_none(host: PlainHost, watched: WatchedChats) -> None:
    await watched.add([A, B, C, A])
    assert (host.store.writes, lines(host.store)) == (1, [A, B, C])
    reads = host.store.reads
    await watched.add([A, B])
    await watched.all()
    assert (host.store.writes, host.store.reads) == (1, reads)


async def test_what_is_no_chat_id_is_not_watched(host: PlainHost, watched: WatchedChats) -> None:
    await watched.add(["", "x", f"{A}\n{B}"])
    assert await watched.all() == frozenset()
    assert host.store.values == {}


async def test_another_session_writes_at_the_same_time(host: PlainHost, watched: WatchedChats) -> None:
    await host.store.write(KEY, f"{A}\n".encode())
    host.store.rival = f"{A}\n{B}\n".encode()
    await watched.add([C])
    assert lines(host.store) == [A, B, C]
    assert await watched.all() == {A, B, C}


async def test_another_session_makes_the_list(host: PlainHost, watched: WatchedChats) -> None:
    host.store.rival = f"{A}\n".encode()
    await watched.add([B])
    assert lines(host.store) == [A, B]


async def test_unreadable_is_retried_after_a_minute_and_never_replaced(
    host: PlainHost, watched: WatchedChats, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    await host.store.write(KEY, f"{A}\n".encode())
    host.store.broken = True
    assert await watched.all() == frozenset()
    assert "disk is gone" in caplog.text
    assert watched.problem
    reads = host.store.reads
    assert await watched.all() == frozenset()
    assert host.store.reads == reads
    await watched.add([B])
    host.store.broken = False
    assert await watched.all() == {B}
    clock.offset += 61
    assert await watched.all() == {A, B}
    assert lines(host.store) == [A, B]
    assert watched.problem == ""


async def test_a_list_that_is_no_text_is_left_alone(host: PlainHost, watched: WatchedChats) -> None:
    await host.store.write(KEY, b"\xff\xfe\x00")
    await watched.add([A])
    assert host.store.values[KEY] == b"\xff\xfe\x00"
    assert await watched.all() == {A}
    assert "UTF-8" in watched.problem


async def test_other_sessions_chats_are_learnt(host: PlainHost, watched: WatchedChats, clock: Clock) -> None:
    await watched.add([A])
    await host.store.write(KEY, f"{A}\n{B}\n".encode())
    assert await watched.all() == {A}
    clock.offset += 61
    assert await watched.all() == {A, B}


async def test_a_list_that_others_keep_changing_is_given_up_for_now(watched: WatchedChats, host: PlainHost) -> None:
    from entrabot_host import ConcurrencyError

    async def refuse(*_: Any, **__: Any) -> str:
        raise ConcurrencyError("Another version is there.")

    host.store.write = refuse  # type: ignore[method-assign]
    await watched.add([A])
    assert await watched.all() == {A}
    assert watched.problem


def test_the_key_is_owned_once() -> None:
    from entrabot_teams.domain import Teams

    host = PlainHost(graph=None, identity=SimpleNamespace())
    assert host.shared(Teams) is host.shared(Teams)
    assert host.store.owned == [KEY]
