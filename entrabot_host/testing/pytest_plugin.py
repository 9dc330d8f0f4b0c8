"""The pytest plugin: fixtures. It imports nothing of the server until a test asks for one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from entrabot_host.clock import ManualClock
    from entrabot_host.testing.agent import Agent
    from entrabot_host.testing.tenant import Tenant

ERAS = ("legacy", "2026-07-28")
_NO_TENANT = {"ENTRABOT_AGENT_ID": "00000000-0000-4000-8000-000000000001"}
"""Without a tenant nobody is signed in; an agent's id in the settings still lets deeds be attributed and audited."""
Serve = Callable[..., AbstractAsyncContextManager["Agent"]]


@pytest.fixture(params=ERAS, ids=["handshake era", "modern era"])
def entrabot_era(request: pytest.FixtureRequest) -> str:
    """The protocol era of the test: every test that uses `entrabot` runs in both."""
    return str(request.param)


@pytest.fixture
def entrabot_clock() -> ManualClock:
    """A clock that stands still: ``await entrabot_clock.advance(60)`` makes recurring work due."""
    from entrabot_host.clock import ManualClock

    return ManualClock()


@pytest.fixture(scope="session")
def entrabot_tenant() -> Iterator[Tenant]:
    """A sandbox tenant, started once; tests of one run share it. Skips when entrabot-sandbox is not installed."""
    from entrabot_host.commands import installed_commands
    from entrabot_host.tenant_child import COMMAND
    from entrabot_host.testing.tenant import Tenant

    if COMMAND not in installed_commands():
        pytest.skip("no sandbox tenant is installed (pip install 'entrabot-host[sandbox]')")
    tenant = Tenant.start()
    yield tenant
    tenant.stop()


@pytest.fixture
def entrabot(entrabot_era: str, tmp_path: Path) -> Serve:
    """Serve plugins and connect to them::

        async with entrabot("hello", my_module, tenant=entrabot_tenant, settings={"X": "1"}) as agent:

    Plugins are names of installed ones, or modules or objects with hook implementations. State, logs and audit go to
    the test's own temporary folder. Without a tenant nobody is signed in, but tools that change something can be
    called. A plugin that would be quarantined raises at once (``ENTRABOT_STRICT_PLUGINS`` is 1 unless ``settings`` say
    otherwise). On leaving, a task, thread or process that the server left behind is a failure.
    """

    @asynccontextmanager
    async def serve(
        *plugins: Any,
        tenant: Tenant | None = None,
        settings: Mapping[str, str] | None = None,
        clock: ManualClock | None = None,
        client_name: str = "claude-code",
    ) -> AsyncIterator[Agent]:
        from entrabot_host.testing.leaks import Census, settled
        from entrabot_host.testing.memory import served

        environment = {
            **(tenant.environment if tenant else _NO_TENANT),
            **_folders(tmp_path),
            "ENTRABOT_STRICT_PLUGINS": "1",
            **(settings or {}),
        }
        census = Census()
        try:
            async with served(plugins, environment, mode=entrabot_era, name=client_name, clock=clock) as agent:
                yield agent
        except BaseExceptionGroup as group:  # the SDK's client wraps whatever ends it, a failed assertion included
            raise _only(group) from None
        await settled(census)

    return serve


@pytest.fixture
def entrabot_audit(tmp_path: Path) -> Callable[[], list[dict[str, Any]]]:
    """Read the audit lines that the test's server wrote, oldest first."""

    def lines() -> list[dict[str, Any]]:
        files = sorted((tmp_path / "audit").glob("*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]

    return lines


def _only(error: BaseException) -> BaseException:
    """Unwrap groups of one."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _folders(folder: Path) -> dict[str, str]:
    return {
        "ENTRABOT_DATA_DIR": str(folder / "data"),
        "ENTRABOT_LOG_DIR": str(folder / "logs"),
        "ENTRABOT_AUDIT_DIR": str(folder / "audit"),
    }
