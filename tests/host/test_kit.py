"""The test kit itself: it serves plugins in both eras, and notices what a server leaves behind."""

import asyncio
import threading
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from entrabot_host import BackgroundTask, Gate, hookimpl
from entrabot_host.testing.agent import ToolFailed
from entrabot_host.testing.auth_provider import AuthProviderContract

from .plugin_parts import tool

pytestmark = pytest.mark.anyio


def module(**hooks: Any) -> SimpleNamespace:
    return SimpleNamespace(__name__="hello", **{name: hookimpl(hook) for name, hook in hooks.items()})


async def test_a_plugin_is_served_and_called_in_both_eras(entrabot: Any, entrabot_era: str) -> None:
    async with entrabot(module(register_tools=lambda host: [tool()])) as agent:
        assert await agent.call("greet", name="Ada") == {"greeting": "Hello, Ada!"}
        assert await agent.tools() == ["whoami", "audit_log", "greet"]
        assert (agent.client.protocol_version == "2026-07-28") is (entrabot_era != "legacy")
        with pytest.raises(ToolFailed, match="name is required"):
            await agent.call("greet")


async def test_recurring_work_follows_the_tests_clock(entrabot: Any, entrabot_clock: Any) -> None:
    runs: list[float] = []

    async def look() -> None:
        runs.append(entrabot_clock.monotonic())

    task = BackgroundTask(name="look", run=look, interval=60, description="Looks", gate=Gate.ALWAYS)
    async with entrabot(module(background_tasks=lambda host: [task]), clock=entrabot_clock) as agent:
        await agent.call("whoami")  # the client has begun
        async with asyncio.timeout(10):
            while not runs:
                await asyncio.sleep(0.01)
        await entrabot_clock.advance(120)
        assert runs == [0.0, 60.0, 120.0]


async def test_a_server_in_a_tenant(entrabot: Any, entrabot_tenant: Any, entrabot_audit: Any) -> None:
    async with entrabot(module(register_tools=lambda host: [tool()]), "teams", tenant=entrabot_tenant) as agent:
        me = await agent.call("whoami")
        assert me["identity"]["user_principal_name"] == entrabot_tenant.environment["ENTRABOT_AGENT_UPN"]
        await agent.call("audit_log", action="file.delete", resource="notes.txt")
    (line,) = entrabot_audit()
    assert (line["action"], line["attribution_type"]) == ("file.delete", "agent")


@pytest.mark.parametrize("what", ["task", "thread"])
async def test_what_a_server_leaves_behind_fails_the_test(entrabot: Any, what: str) -> None:
    let_go = threading.Event()
    left: list[Any] = []

    @asynccontextmanager
    async def careless() -> Any:
        if what == "task":
            left.append(asyncio.create_task(asyncio.Event().wait(), name="stray"))
        else:
            threading.Thread(target=let_go.wait, name="stray", daemon=True).start()
        yield

    async def serve_it() -> None:
        async with entrabot(module(lifespan=lambda host: careless())) as agent:
            await agent.call("whoami")
            async with asyncio.timeout(10):
                while what == "task" and not left:
                    await asyncio.sleep(0.01)

    with pytest.raises(AssertionError, match=f"left behind: {what} stray"):
        await serve_it()
    let_go.set()
    for task in left:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class TestAgentUser(AuthProviderContract):
    """The built-in provider keeps the contract."""

    @pytest.fixture
    def provider(self, entrabot_tenant: Any) -> Any:
        from entrabot_host.auth.agent_user import AgentUserProvider
        from entrabot_host.config import Config, Layer
        from entrabot_host.identity.settings import AgentUserSettings
        from entrabot_host.security.clouds import CloudSettings, resolve_cloud

        config = Config([Layer("the test", entrabot_tenant.environment)])
        clouds = config.load(CloudSettings)
        return AgentUserProvider(config.load(AgentUserSettings), resolve_cloud(clouds), clouds.ca_bundle)
