"""One sandbox for all tests of this folder, as new for each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from entrabot_sandbox.client import Sandbox

from tests.host.auth.tenant import Tenant


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="package")
def no_proxy() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("NO_PROXY", "no_proxy"):
            patch.setenv(name, "127.0.0.1,localhost,::1")
        yield


@pytest.fixture(scope="package")
async def sandbox(anyio_backend: str, no_proxy: None) -> AsyncIterator[Sandbox]:
    async with Sandbox.start() as sandbox:
        yield sandbox


@pytest.fixture
async def tenant(sandbox: Sandbox) -> Tenant:
    await sandbox.reset()
    await sandbox.clear_requests()
    await sandbox.settings(throttling=False)
    return Tenant(sandbox)
