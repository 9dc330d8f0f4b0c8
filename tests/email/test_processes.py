"""Eight servers on one mailbox, real processes."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.wire import Server, served
from tests.email.parts import looks, until, write

SERVERS = 8
MAILS = 24
_KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR")


def environment(tenant: Any, folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {
        **kept,
        **tenant.environment,
        "HOME": str(folder),
        "ENTRABOT_DATA_DIR": str(folder / "data"),
        "ENTRABOT_LOG_DIR": str(folder / "log"),
        "ENTRABOT_AUDIT_DIR": str(folder / "audit"),
        "ENTRABOT_PLUGINS": "email",
        "ENTRABOT_PUSH": "on",
        "ENTRABOT_EMAIL_POLL_SECONDS": "5",
        "ENTRABOT_EMAIL_SUMMARY": "off",
    }


@pytest.mark.timeout(300)
async def test_each_mail_is_delivered_by_one_of_them(tenant: Any, tmp_path: Path) -> None:
    settings = environment(tenant, tmp_path)

    async def looked(times: int) -> None:
        async def often() -> bool:
            return await looks(tenant) >= times

        await until(often, 120)

    async with served(settings) as first:
        await first.call("whoami")
        await looked(1)
    written = [(await write(tenant, "alice", f"mail {number}"))["id"] for number in range(MAILS // 2)]
    async with AsyncExitStack() as stack:
        servers = await asyncio.gather(*(stack.enter_async_context(served(settings)) for _ in range(SERVERS)))
        await asyncio.gather(*(server.call("whoami") for server in servers))
        written += [(await write(tenant, "bob", f"more {number}"))["id"] for number in range(MAILS // 2)]
        seen: Counter[str] = Counter()

        async def all_seen() -> bool:
            seen.update(_taken(servers))
            return set(written) <= set(seen)

        await until(all_seen, 150)
        await looked(await looks(tenant) + 2 * SERVERS)
        seen.update(_taken(servers))
    assert {key: seen[key] for key in written} == dict.fromkeys(written, 1)


def _taken(servers: list[Server]) -> list[str]:
    found = []
    for server in servers:
        while not server.pushes.empty():
            found.append(str(server.pushes.get_nowait()["meta"]["message_id"]))
    return found
