"""A tenant as at its start, and a host that can read its interaction log."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import date
from typing import Any

import pytest

from entrabot_host.records.facet import RecordsFacet
from tests.email.parts import looks, until

Mailing = Callable[..., AbstractAsyncContextManager[Any]]


@pytest.fixture
async def tenant(entrabot_tenant: Any) -> Any:
    await entrabot_tenant.reset()
    await entrabot_tenant.control("DELETE", "/requests")
    return entrabot_tenant


@pytest.fixture(autouse=True)
def readable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for the reading of the log where this host's records do not offer it."""

    async def interactions(self: Any, day: date) -> list[Any]:
        backend = await self._interactions._backend()
        entry = await backend.read(f"interactions/{day:%Y-%m-%d}.jsonl")
        return [json.loads(line) for line in entry.data.splitlines()] if entry else []

    if not hasattr(RecordsFacet, "interactions"):
        monkeypatch.setattr(RecordsFacet, "interactions", interactions, raising=False)


@pytest.fixture
def mailing(entrabot: Any, tenant: Any) -> Mailing:
    """A server with mail in the tenant, after its first look at the inbox; without the daily summary."""

    @asynccontextmanager
    async def serve(*plugins: Any, settings: dict[str, str] | None = None, **more: Any) -> AsyncIterator[Any]:
        before = await looks(tenant)
        chosen = {"ENTRABOT_EMAIL_SUMMARY": "off", **(settings or {})}
        async with entrabot("email", *plugins, tenant=tenant, settings=chosen, **more) as agent:
            await agent.call("whoami")  # the server works only once its client has begun

            async def looked() -> bool:
                return await looks(tenant) > before

            await until(looked)
            yield agent

    return serve
