"""Microsoft's own Python SDK drives the sandbox's Teams chats and knows every property that it returns."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from entrabot_sandbox.client import Sandbox

from entrabot_host.auth.agent_user import AgentUserProvider
from entrabot_host.identity.session import Session
from entrabot_host.identity.settings import AgentUserSettings
from entrabot_host.security.clouds import CloudSettings, resolve_cloud
from tests.packages import microsoft_sdk

WALK = Path(__file__).with_name("sdk_walk.py")
UNDECLARED = {"TeamworkUserIdentity.tenantId"}
"""Not in the metadata, but in payloads."""
PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20


@pytest.fixture(scope="session")
def sdk_python() -> str:
    """An interpreter with the SDK."""
    return str(microsoft_sdk())


async def token(environment: dict[str, str]) -> str:
    cloud = resolve_cloud(CloudSettings.model_validate(environment))
    settings = AgentUserSettings.model_validate(environment)
    session = Session([AgentUserProvider(settings, cloud, environment["ENTRABOT_CA_BUNDLE"])])
    await session.start()
    try:
        return (await session.token(cloud.graph_audience)).secret
    finally:
        await session.aclose()


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_the_sdk_understands_all_of_it(sandbox: Sandbox, sdk_python: str) -> None:
    environment, people = sandbox.environment, sandbox.people
    root = environment["ENTRABOT_GRAPH_URL"]
    given = {
        "root": root,
        "host": urlsplit(root).hostname,
        "ca": environment["ENTRABOT_CA_BUNDLE"],
        "token": await token(environment),
        "me": environment["ENTRABOT_AGENT_USER_ID"],
        "alice": people["alice"]["id"],
        "carol": people["carol"]["mail"],
        "carol_tenant": people["carol"]["tenant_id"],
        "image": base64.b64encode(PNG).decode(),
    }
    process = await asyncio.create_subprocess_exec(
        sdk_python, str(WALK), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, errors = await asyncio.wait_for(process.communicate(json.dumps(given).encode()), 120)
    assert process.returncode == 0, errors.decode()[-3000:]
    result = json.loads(out)
    assert {name.partition(": ")[2] for name in result["strange"]} <= UNDECLARED
    assert {"Chat", "ChatMessage", "ChatMessageMention", "AadUserConversationMember"} <= set(result["seen"])
    assert base64.b64decode(result["image"]) == PNG
    assert (result["members"], result["chats"]) == (3, 1)
    assert result["soft_delete_below_chats"] == 405
    assert result["deleted"] is True
