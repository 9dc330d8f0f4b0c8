"""A whole server whose state lies in Azure's emulator: it works, and it answers while the endpoint hangs or refuses."""

from __future__ import annotations

import asyncio
import secrets
import sys
from pathlib import Path
from typing import Any

import pytest

from entrabot_host.testing.agent import ToolFailed
from tests.host.storage.azurite import Azurite
from tests.host.storage.interposer import answers, hangs, interposed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]
FAULTS = {
    "hangs": hangs,
    "403": answers(403, "AuthorizationPermissionMismatch"),
    "409": answers(409, "ContainerBeingDeleted"),
    "412": answers(412, "LeaseIdMissing"),
    "503": answers(503, "ServerBusy"),
}


async def test_state_goes_to_the_container(
    entrabot: Any, entrabot_tenant: Any, azurite: Azurite, tmp_path: Path
) -> None:
    await entrabot_tenant.reset()
    container = await azurite.make(f"c{secrets.token_hex(8)}")
    settings = azurite.settings(container, entrabot_tenant.environment["ENTRABOT_CA_BUNDLE"], tmp_path)
    async with entrabot("teams", tenant=entrabot_tenant, settings=settings) as agent:
        health = {check["check"]: check for check in (await agent.call("whoami"))["health"]}
        assert health["storage"]["ok"]
        assert health["storage"]["summary"] == f"blob: {azurite.endpoint}/{container}"
        await entrabot_tenant.say("alice", "Is the tide in?")
        async with asyncio.timeout(30):
            while not (await agent.call("read_interactions"))["interactions"]:
                await asyncio.sleep(0.1)
        (line,) = (await agent.call("read_interactions", direction="inbound"))["interactions"]
        assert "Is the tide in?" in line["summary"]
    backend = azurite.backend(container)
    keys = await backend.list()
    await backend.aclose()
    assert {key.split("/")[0] for key in keys} >= {"chats", "interactions", "installation.json"}
    data = tmp_path / "data"
    assert {path.name for path in data.iterdir()} <= {"sessions"} if data.exists() else True


@pytest.mark.parametrize("entrabot_era", ["legacy"], indirect=True)
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_the_server_answers_while_storage_does_not(
    entrabot: Any, entrabot_tenant: Any, azurite: Azurite, tmp_path: Path, fault: Any
) -> None:
    async with interposed(azurite) as between:
        between.always = fault
        trust = entrabot_tenant.environment["ENTRABOT_CA_BUNDLE"]
        settings = azurite.settings("any", trust, tmp_path, between.endpoint)
        async with entrabot(tenant=entrabot_tenant, settings=settings) as agent:
            asking = asyncio.create_task(agent.call("read_interactions"))
            async with asyncio.timeout(15):
                for number in range(5):
                    await agent.call("audit_log", action="file.read", resource=str(number))
            if fault is hangs:
                assert not asking.done()
            with pytest.raises(ToolFailed) as caught:
                async with asyncio.timeout(60):
                    await asking
            assert caught.value.error["type"] == "StorageError"
            assert between.endpoint in caught.value.error["message"]
            if fault is not hangs:
                assert (await agent.call("whoami"))["identity"]["verified_with_graph"]
            between.over.set()


_LOOK = """
import sys
from entrabot_host.application import Application
from entrabot_host.config import Config, Layer

values = {"ENTRABOT_BLOB_ENDPOINT": "https://a.blob.core.windows.net", "ENTRABOT_BLOB_CONTAINER": "c"}
Application(Config([Layer("the test", values)]))
heavy = [name for name in sys.modules if name.split(".")[0] in ("azure", "aiohttp") or name == "rich"]
print(heavy)
"""


async def test_assembly_imports_nothing_of_azure_even_where_it_is_configured() -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", _LOOK, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert output.strip() == b"[]"


_WITHOUT = """
import asyncio, sys
sys.modules["azure.storage.blob.aio"] = None
from entrabot_host.storage.settings import StorageSettings, open_backend
from pathlib import Path
from tests.host.storage.azurite import BlobAccess, stand_in_cloud, token

values = {"ENTRABOT_BLOB_ENDPOINT": "https://127.0.0.1:1/a", "ENTRABOT_BLOB_CONTAINER": "c"}
backend = open_backend(
    StorageSettings.model_validate(values), Path("x"), lambda: BlobAccess(stand_in_cloud(), "", token)
)
try:
    asyncio.run(backend.check())
except Exception as error:
    print(type(error).__name__, error.message, error.remedy)
"""


async def test_a_missing_package_is_named_with_the_command_that_installs_it() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _WITHOUT, stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[3]
    )
    output, _ = await process.communicate()
    assert output.startswith(b"StorageConfigError")
    assert b"pip install 'entrabot-host[blob]'" in output
