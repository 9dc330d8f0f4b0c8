"""Eight servers on one mailbox, real processes: state on this machine, and in Azure's emulator."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.wire import Server, served
from tests.email.parts import looks, until, write
from tests.host.storage.azurite import Azurite

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


@pytest.fixture(params=["folder", pytest.param("azurite", marks=pytest.mark.slow)])
async def storage(request: pytest.FixtureRequest, tenant: Any, tmp_path: Path) -> dict[str, str]:
    """Settings that say where state lies."""
    if request.param == "folder":
        return {}
    azurite: Azurite = request.getfixturevalue("azurite")
    container = await azurite.make(f"c{secrets.token_hex(8)}")
    return azurite.settings(container, tenant.environment["ENTRABOT_CA_BUNDLE"], tmp_path)


@pytest.mark.timeout(300)
async def test_each_mail_is_delivered_by_one_of_them(tenant: Any, tmp_path: Path, storage: dict[str, str]) -> None:
    settings = environment(tenant, tmp_path) | storage

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
