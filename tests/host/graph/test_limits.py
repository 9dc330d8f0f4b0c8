"""Token buckets: the right one, in order, and given up when the caller goes away."""

from __future__ import annotations

import asyncio

import pytest

from entrabot_host.graph.limits import (
    CHAT_GET,
    CHAT_POST,
    DIRECTORY,
    DRIVE,
    MAIL,
    OTHER,
    TEAMS_GET,
    TEAMS_OTHER,
    Limit,
    Limiter,
    TokenBucket,
    limit_for,
)
from tests.host.graph.conftest import Time


@pytest.mark.parametrize(
    ("method", "path", "limit"),
    [
        ("GET", "/chats/19:a/messages", CHAT_GET),
        ("GET", "/me/chats/19:a/messages?$top=50", CHAT_GET),
        ("POST", "/chats/19:a/messages", CHAT_POST),
        ("POST", "/users/1/chats/19:a/messages/2/softDelete", TEAMS_OTHER),
        ("PATCH", "/chats/19:a/messages/2", TEAMS_OTHER),
        ("GET", "/me/chats", TEAMS_GET),
        ("GET", "chats/19:a/members", TEAMS_GET),
        ("POST", "/chats", TEAMS_OTHER),
        ("GET", "/me/messages", MAIL),
        ("POST", "/me/sendMail", MAIL),
        ("GET", "/drives/d/items/i", DRIVE),
        ("GET", "/shares/u!x/driveItem", DRIVE),
        ("GET", "/servicePrincipals/1/sponsors", DIRECTORY),
        ("GET", "/users/a", DIRECTORY),
        ("GET", "/search/query", OTHER),
    ],
)
def test_which_limit(method: str, path: str, limit: Limit) -> None:
    assert limit_for(method, path) is limit


async def test_a_bucket_holds_its_rate() -> None:
    clock = Time()
    bucket = TokenBucket(20, clock, clock.sleep)
    for _ in range(70):
        await bucket.acquire()
    assert clock.now - 1000.0 == pytest.approx((70 - 10) / 20)


async def test_an_idle_bucket_fills_up_to_its_brim_only() -> None:
    clock = Time()
    bucket = TokenBucket(20, clock, clock.sleep)
    clock.now += 3600
    for _ in range(11):
        await bucket.acquire()
    assert sum(clock.slept) == pytest.approx(1 / 20)


async def test_first_come_first_served() -> None:
    clock = Time()
    bucket = TokenBucket(2, clock, clock.sleep)
    order: list[int] = []

    async def one(number: int) -> None:
        await bucket.acquire()
        order.append(number)

    await asyncio.wait_for(asyncio.gather(*(one(number) for number in range(20))), 10)
    assert order == list(range(20))


async def test_who_goes_away_takes_nothing() -> None:
    gate = asyncio.Event()
    sleeping = asyncio.Event()

    async def sleep(_: float) -> None:
        sleeping.set()
        await gate.wait()

    now = 0.0
    bucket = TokenBucket(2, lambda: now, sleep)
    await bucket.acquire()
    waiting = [asyncio.create_task(bucket.acquire()) for _ in range(3)]
    await asyncio.wait_for(sleeping.wait(), 10)
    for task in waiting[:2]:
        task.cancel()
    await asyncio.gather(*waiting[:2], return_exceptions=True)
    assert all(task.cancelled() for task in waiting[:2])
    now = 0.5
    gate.set()
    await asyncio.wait_for(waiting[2], 10)


async def test_a_batch_counts_every_part() -> None:
    clock = Time()
    limiter = Limiter(clock, clock.sleep)
    for _ in range(3):
        await limiter.acquire_all([("GET", "/chats/1/messages")] * 20)
    assert clock.now - 1000.0 == pytest.approx(2.0)
    await limiter.acquire("GET", "/me/chats")
    assert clock.now - 1000.0 == pytest.approx(2.0)
