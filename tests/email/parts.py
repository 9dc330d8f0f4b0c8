"""Mail as people of the sandbox write and read it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

Json = dict[str, Any]


async def write(tenant: Any, person: str, subject: str, **more: Any) -> Json:
    """Send a mail to the agent, or to whom ``to`` names."""
    body = {"as": person, "subject": subject, **({"text": "Hello"} if "html" not in more else {}), **more}
    return dict(await tenant.control("POST", "/mail", json=body))


async def inbox_of(tenant: Any, person: str, **query: Any) -> list[Json]:
    """What is in somebody's inbox, or another folder."""
    return list((await tenant.control("GET", "/mail", params={"of": person, **query}))["value"])


async def until(condition: Callable[[], Awaitable[Any]], seconds: float = 20.0) -> Any:
    """Wait until the condition holds; return what it returned."""
    async with asyncio.timeout(seconds):
        while not (found := await condition()):
            await asyncio.sleep(0.02)
    return found


async def looks(tenant: Any) -> int:
    """How often the inbox was looked at."""
    counts = (await tenant.control("GET", "/requests", params={"since": 2**60}))["counts"]
    return int(counts.get("GET /v1.0/me/mailFolders/inbox/messages", 0))


async def look_again(tenant: Any, clock: Any, more: int = 1) -> None:
    """Make the poll due until the inbox was looked at so many times more."""
    before = await looks(tenant)

    async def often() -> bool:
        await clock.advance(60)
        return await looks(tenant) >= before + more

    await until(often)
