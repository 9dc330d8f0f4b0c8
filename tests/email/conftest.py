"""A tenant as at its start, and servers that have looked at their mail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from tests.email.parts import looks, until

Mailing = Callable[..., AbstractAsyncContextManager[Any]]


@pytest.fixture
async def tenant(entrabot_tenant: Any) -> Any:
    await entrabot_tenant.reset()
    await entrabot_tenant.control("DELETE", "/requests")
    return entrabot_tenant


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
