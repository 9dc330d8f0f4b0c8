"""The token cache: freshness, one request for many callers, cancellation, refused tokens."""

from __future__ import annotations

import asyncio
import time

import pytest

from entrabot_host.auth.cache import TokenCache, boot_clock
from entrabot_host.auth.provider import Token
from entrabot_host.errors import AuthError, NotSignedIn


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Mint:
    """Mints numbered tokens, or fails; waits for ``gate`` first."""

    def __init__(self, life: float = 3600.0) -> None:
        self.life = life
        self.count = 0
        self.failure: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.started = asyncio.Event()

    async def __call__(self) -> Token:
        self.count += 1
        self.started.set()
        await self.gate.wait()
        if self.failure:
            raise self.failure
        return Token(f"token-{self.count}", time.monotonic() + self.life)


@pytest.mark.parametrize(("life", "margin"), [(3600.0, 300.0), (600.0, 60.0), (100_000.0, 300.0)])
async def test_token_is_kept_until_shortly_before_its_end(life: float, margin: float) -> None:
    clock, mint = Clock(), Mint(life)
    cache = TokenCache(clock)
    first = await cache.get("key", mint)
    clock.now += life - margin - 2
    assert await cache.get("key", mint) == first
    clock.now += 4
    assert (await cache.get("key", mint)).secret == "token-2"


async def test_concurrent_callers_share_one_request() -> None:
    cache, mint = TokenCache(), Mint()
    mint.gate.clear()
    callers = [asyncio.create_task(cache.get("key", mint)) for _ in range(20)]
    await mint.started.wait()
    mint.gate.set()
    assert {token.secret for token in await asyncio.gather(*callers)} == {"token-1"}
    assert mint.count == 1


async def test_a_cancelled_caller_cancels_nobody_else() -> None:
    cache, mint = TokenCache(), Mint()
    mint.gate.clear()
    first, second = (asyncio.create_task(cache.get("key", mint)) for _ in range(2))
    await mint.started.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    mint.gate.set()
    assert (await second).secret == "token-1"
    assert mint.count == 1


async def test_a_request_that_nobody_waits_for_any_more_still_fills_the_cache() -> None:
    cache, mint = TokenCache(), Mint()
    mint.gate.clear()
    caller = asyncio.create_task(cache.get("key", mint))
    await mint.started.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    mint.gate.set()
    assert (await cache.get("key", mint)).secret == "token-1"
    assert mint.count == 1


async def test_a_failure_reaches_all_and_is_not_kept() -> None:
    cache, mint = TokenCache(), Mint()
    mint.failure = AuthError("no", code=65001)
    results = await asyncio.gather(*(cache.get("key", mint) for _ in range(3)), return_exceptions=True)
    assert [type(result) for result in results] == [AuthError] * 3
    mint.failure = None
    assert (await cache.get("key", mint)).secret == "token-2"


async def test_a_refused_token_is_minted_anew_once() -> None:
    cache, mint = TokenCache(), Mint()
    first = await cache.get("key", mint)
    again = await asyncio.gather(*(cache.get("key", mint, rejected=first.secret) for _ in range(5)))
    assert {token.secret for token in again} == {"token-2"}
    assert (await cache.get("key", mint, rejected=first.secret)).secret == "token-2"
    assert mint.count == 2


async def test_claims_ask_anew_unless_the_kept_token_is_newer_than_the_refused() -> None:
    cache, mint = TokenCache(), Mint()
    first = await cache.get("key", mint)
    second = await cache.get("key", mint, claims="{}")
    assert second != first
    assert await cache.get("key", mint) == second
    assert await cache.get("key", mint, rejected=first.secret, claims="{}") == second
    assert (await cache.get("key", mint, rejected=second.secret, claims="{}")).secret == "token-3"


async def test_a_token_that_is_due_but_valid_bridges_a_lost_network() -> None:
    clock, mint = Clock(), Mint(3600)
    cache = TokenCache(clock)
    first = await cache.get("key", mint)
    clock.now += 3400
    mint.failure = AuthError("no network")
    assert await cache.get("key", mint) == first
    with pytest.raises(AuthError):
        await cache.get("key", mint, claims="{}")
    with pytest.raises(AuthError):
        await cache.get("key", mint, rejected=first.secret)
    with pytest.raises(AuthError):
        await cache.get("key", mint)


async def test_a_refusal_by_entra_is_not_bridged() -> None:
    clock, mint = Clock(), Mint(3600)
    cache = TokenCache(clock)
    await cache.get("key", mint)
    clock.now += 3400
    mint.failure = AuthError("revoked", code=50173)
    with pytest.raises(AuthError, match="revoked"):
        await cache.get("key", mint)


async def test_closing_ends_what_is_under_way() -> None:
    cache, mint = TokenCache(), Mint()
    mint.gate.clear()
    caller = asyncio.create_task(cache.get("key", mint))
    await mint.started.wait()
    await cache.aclose()
    with pytest.raises(NotSignedIn):
        await caller
    with pytest.raises(NotSignedIn):
        await cache.get("key", mint)


def test_the_clock_runs_forward() -> None:
    first = boot_clock()
    assert boot_clock() >= first
