"""Pinned home identities."""

from __future__ import annotations

import json

from entrabot_host.errors import StorageConfigError, StorageError
from entrabot_host.identity.homes import KEY, Home, Pins

from .fakes import MemoryStore, guid

CAROL, DAVE = guid(1), guid(2)
HOME, OTHER = Home(guid(11), guid(50)), Home(guid(12), guid(50))


async def test_a_pin_survives() -> None:
    store = MemoryStore()
    await Pins(store).add(CAROL, HOME)
    later = Pins(store)
    assert later.get(CAROL) is None
    await later.load()
    assert later.get(CAROL) == HOME
    assert later.problem == ""


async def test_the_first_pin_stays() -> None:
    store = MemoryStore()
    first, second = Pins(store), Pins(store)
    await first.add(CAROL, HOME)
    await first.add(CAROL, OTHER)
    await second.add(CAROL, OTHER)
    assert first.get(CAROL) == second.get(CAROL) == HOME


async def test_two_sessions_that_pin_at_once_keep_both() -> None:
    store = MemoryStore()
    await Pins(store).add(guid(3), OTHER)
    other = json.loads(store.values[KEY][0])
    other["homes"][DAVE] = {"user_id": OTHER.user_id, "tenant_id": OTHER.tenant_id}
    store.before_write = lambda: store.put(KEY, json.dumps(other).encode())
    await Pins(store).add(CAROL, HOME)
    read = Pins(store)
    await read.load()
    assert [read.get(who) for who in (CAROL, DAVE, guid(3))] == [HOME, OTHER, OTHER]


async def test_losing_the_race_for_one_sponsor_takes_the_winners() -> None:
    store = MemoryStore()
    won = json.dumps({"homes": {CAROL: {"user_id": OTHER.user_id, "tenant_id": OTHER.tenant_id}}})
    store.before_write = lambda: store.put(KEY, won.encode())
    pins = Pins(store)
    await pins.add(CAROL, HOME)
    assert pins.get(CAROL) == OTHER


async def test_storage_troubles_are_reported_and_lose_nothing() -> None:
    for failure in (StorageError("disk full"), StorageConfigError("half configured")):
        store = MemoryStore()
        pins = Pins(store)
        store.failure = failure
        await pins.add(CAROL, HOME)
        assert pins.get(CAROL) == HOME
        assert failure.message in pins.problem
        await pins.load()
        assert pins.get(CAROL) == HOME
        store.failure = None
        await pins.load()
        assert pins.problem == ""


async def test_a_damaged_file_is_reported_and_never_overwritten() -> None:
    for damage in (b"{", b"[]", b'{"homes": {"x": {}}}', b'{"homes": 3}', b"\xff"):
        store = MemoryStore()
        store.put(KEY, damage)
        pins = Pins(store)
        await pins.load()
        assert "damaged" in pins.problem
        await pins.add(CAROL, HOME)
        assert store.values[KEY][0] == damage
