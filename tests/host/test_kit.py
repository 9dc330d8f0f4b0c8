"""The test kit itself: it serves plugins in both eras, and notices what a server leaves behind."""

import asyncio
import json
import threading
from contextlib import asynccontextmanager
from pathlib import Path
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
        assert (await agent.tools())[-1] == "greet"
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


@pytest.mark.parametrize("client", ["claude-code", "codex-mcp-client"])
async def test_messages_ride_along_on_results_where_a_test_asks_for_it(
    entrabot: Any, entrabot_tenant: Any, tmp_path: Path, client: str
) -> None:
    await entrabot_tenant.reset()
    settings = {"ENTRABOT_INBOX": "on", "ENTRABOT_TEAMS_POLL_SECONDS": "2"}
    async with entrabot("teams", tenant=entrabot_tenant, settings=settings, client_name=client) as agent:
        await agent.call("whoami")
        said = await entrabot_tenant.say("alice", "hello")
        assert (await agent.next_push()).meta["message_id"] == said["id"]
        entries: list[dict[str, Any]] = []
        async with asyncio.timeout(20):
            while not entries:
                entries = await riding(agent)
        assert [entry["message_id"] for entry in entries] == [said["id"]]
        assert await riding(agent) == []
    (record,) = (tmp_path / "data" / "chats").glob("*.json")
    written = json.loads(record.read_bytes())
    assert (list(written["ids"]), written["unconfirmed"], written["owner"]) == ([said["id"]], {}, "")


async def riding(agent: Any) -> list[dict[str, Any]]:
    """Call a tool that is of no matter and return what rides along on its result."""
    result = await agent.client.call_tool("audit_log", {"action": "test", "resource": "test"})
    assert json.loads(result.content[0].text)["recorded"]
    documents = [json.loads(block.text) for block in result.content[1:]]
    return [entry for document in documents for entry in document["_inbox"]]


@pytest.mark.parametrize("what", ["task", "thread"])
async def test_what_a_server_leaves_behind_fails_the_test(entrabot: Any, what: str) -> None:
    let_go, begun = threading.Event(), asyncio.Event()
    left: list[Any] = []

    @asynccontextmanager
    async def careless() -> Any:
        if what == "task":
            left.append(asyncio.create_task(asyncio.Event().wait(), name="stray"))
        else:
            threading.Thread(target=let_go.wait, name="stray", daemon=True).start()
        begun.set()
        yield

    async def serve_it() -> None:
        async with entrabot(module(lifespan=lambda host: careless())) as agent:
            await agent.call("whoami")
            async with asyncio.timeout(10):
                await begun.wait()

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
