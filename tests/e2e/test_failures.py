"""Whatever is broken, the tool that needs it says what and what to do, and whoami says the same and keeps answering."""

from __future__ import annotations

import json
import socket
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from entrabot_sandbox.client import Sandbox

from tests.e2e.wire import Server, served, until

ALICE = "alice@contoso.example"


async def both(server: Server) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a tool that needs the identity says, and what whoami says about the identity."""
    me = await server.call("whoami")
    error = await server.failing("create_chat", target_email=ALICE)
    return error, me["identity"]["error"]


def told(error: dict[str, Any], *words: str) -> None:
    """The error has its shape and names these things, in its message or its remedy."""
    assert set(error) >= {"type", "message", "remedy"}
    assert error["remedy"], error
    text = f"{error['message']} {error['remedy']}"
    assert all(word in text for word in words), (words, error)
    assert "Traceback" not in text


# --- signing in -------------------------------------------------------------------------------------------------------


async def test_a_certificate_that_is_not_registered(environment: dict[str, str], tmp_path: Path) -> None:
    async with served({**environment, "ENTRABOT_BLUEPRINT_CERT_FILE": _another_certificate(tmp_path)}) as server:
        error, seen = await both(server)
    told(error, "hop 1: blueprint", "not registered", "ENTRABOT_BLUEPRINT_CERT_FILE", "thumbprint")
    assert (error["code"], error["hop"]) == ("AADSTS700027", "hop 1: blueprint")
    assert (seen["message"], seen["remedy"]) == (error["message"], error["remedy"])
    assert "eyJ" not in json.dumps(error), "an assertion is shown"


async def test_a_certificate_that_others_can_read(environment: dict[str, str], tmp_path: Path) -> None:
    copy = tmp_path / "open.pem"
    copy.write_bytes(Path(environment["ENTRABOT_BLUEPRINT_CERT_FILE"]).read_bytes())
    copy.chmod(0o644)
    async with served({**environment, "ENTRABOT_BLUEPRINT_CERT_FILE": str(copy)}) as server:
        error, seen = await both(server)
    told(error, "open to other users", f"chmod 600 {copy}")
    assert error["hop"] == "hop 1: blueprint"
    assert seen["message"] == error["message"]


async def test_a_tenant_that_does_not_exist(environment: dict[str, str]) -> None:
    async with served({**environment, "ENTRABOT_TENANT_ID": str(uuid.uuid4())}) as server:
        error, seen = await both(server)
    told(error, "hop 1: blueprint", "ENTRABOT_TENANT_ID")
    assert seen["message"] == error["message"]


async def test_consent_is_missing_and_is_then_granted(sandbox: Sandbox, environment: dict[str, str]) -> None:
    granted = (await sandbox.state())["grants"][f"{environment['ENTRABOT_AGENT_ID']} graph"]
    await sandbox.grant("graph", scopes=None)
    async with served(environment) as server:
        error, seen = await both(server)
        told(error, "hop 3: agent user", "Consent is missing", environment["ENTRABOT_AGENT_ID"])
        assert error["code"] == "AADSTS65001"
        assert seen["message"] == error["message"]

        await sandbox.grant("graph", **granted)

        await signed_in(server)
        assert (await server.call("create_chat", target_email=ALICE))["watched"] is True

        async def listening() -> bool:
            tasks = {task["name"]: task for task in (await server.call("whoami"))["background"]}
            return "last_success_seconds_ago" in tasks["teams-poll"]

        await until(listening, "looks at the chats")
        await sandbox.say("alice", "now?")
        assert "now?" in (await server.next_push())["content"]


async def signed_in(server: Server) -> None:
    async def is_agent() -> Any:
        return (await server.call("whoami"))["identity"].get("attribution") == "agent"

    await until(is_agent, "signed in after consent")


# --- settings ---------------------------------------------------------------------------------------------------------


async def test_no_tenant(environment: dict[str, str]) -> None:
    async with served({**environment, "ENTRABOT_TENANT_ID": ""}) as server:
        error, seen = await both(server)
    told(error, "ENTRABOT_TENANT_ID")
    assert "ENTRABOT_AGENT_ID" not in error["message"], "only what is missing is named"
    assert seen["message"] == error["message"]


async def test_nothing_is_configured(bare: dict[str, str]) -> None:
    async with served(bare) as server:
        error, seen = await both(server)
    told(error, "ENTRABOT_TENANT_ID", "ENTRABOT_BLUEPRINT_CERT_FILE")
    assert seen["type"] == "NotSignedIn"
    assert seen["message"] in error["message"], "the refusal gives the real reason"
    assert error["remedy"] == seen["remedy"]


async def test_a_login_url_without_a_graph_url(environment: dict[str, str]) -> None:
    async with served({**environment, "ENTRABOT_GRAPH_URL": ""}) as server:
        error, seen = await both(server)
    told(error, "ENTRABOT_LOGIN_URL", "ENTRABOT_GRAPH_URL")
    told(seen, "ENTRABOT_LOGIN_URL", "ENTRABOT_GRAPH_URL")


async def test_a_malformed_id(environment: dict[str, str]) -> None:
    async with served({**environment, "ENTRABOT_AGENT_USER_ID": "{not-a-guid-4711}"}) as server:
        error, seen = await both(server)
    told(error, "ENTRABOT_AGENT_USER_ID", "GUID", "the environment")
    told(seen, "ENTRABOT_AGENT_USER_ID")
    assert "4711" not in json.dumps([error, seen])


async def test_storage_is_configured_by_half(environment: dict[str, str]) -> None:
    half = {**environment, "ENTRABOT_BLOB_ENDPOINT": "https://account.blob.core.windows.net"}
    async with served(half) as server:
        error = await server.failing("create_chat", target_email=ALICE)
        me = await server.call("whoami")
        stderr = server.stderr
    told(error, "ENTRABOT_BLOB_CONTAINER", "ENTRABOT_KEEP_MEMORY_LOCAL")
    assert error["type"] == "StorageConfigError"
    storage = next(check for check in me["health"] if check["check"] == "storage")
    assert (storage["ok"], storage["summary"], storage["remedy"]) == (False, error["message"], error["remedy"])
    assert "ENTRABOT_BLOB_CONTAINER" in stderr
    assert not list(Path(environment["ENTRABOT_DATA_DIR"]).rglob("watched_chats")), "it fell back to local files"


@pytest.mark.parametrize("how", ["flag", "variable"])
async def test_the_settings_file_is_missing(bare: dict[str, str], tmp_path: Path, how: str) -> None:
    missing = str(tmp_path / "missing.env")
    environment = {**bare, "ENTRABOT_ENV_FILE": missing} if how == "variable" else bare
    arguments = ("--env-file", missing) if how == "flag" else ()
    async with served(environment, *arguments, greet=False) as server:
        assert await server.ended() == 2
        stderr = server.stderr
        assert server.lines == []
    assert missing in stderr
    assert "--env-file" in stderr
    assert "Traceback" not in stderr


async def test_settings_from_a_file(environment: dict[str, str], tmp_path: Path) -> None:
    """The counterpart: with a good file in place of the environment, the server works."""
    names = [name for name in environment if name.startswith("ENTRABOT_")]
    file = tmp_path / "good.env"
    file.write_text("".join(f"{name}={environment[name]}\n" for name in names), encoding="utf-8")
    rest = {name: value for name, value in environment.items() if name not in names}
    async with served(rest, "--env-file", str(file)) as server:
        assert (await server.call("whoami"))["identity"]["attribution"] == "agent"


# --- Graph ------------------------------------------------------------------------------------------------------------


async def test_nothing_answers_at_graphs_address(environment: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server_socket:
        dead = f"https://127.0.0.1:{server_socket.getsockname()[1]}"
    async with served({**environment, "ENTRABOT_GRAPH_URL": dead}) as server:
        error = await server.failing("create_chat", target_email=ALICE)
        me = await server.call("whoami")
    told(error, "could not be reached")
    assert error["type"] == "GraphUnavailable"
    assert me["identity"]["attribution"] == "agent"
    assert me["identity"]["verified_with_graph"] is False
    assert me["identity"]["error"]["message"] == error["message"]
    assert me["sponsors"] == []
    assert me["sponsor_problems"]
    assert not next(check for check in me["health"] if check["check"] == "graph")["ok"]


async def test_broken_connections_are_survived(sandbox: Sandbox, environment: dict[str, str]) -> None:
    async with served(environment) as server:
        await server.call("whoami")
        await sandbox.fault("drop_before", method="GET", path="/v1.0/**", count=2)
        chat = (await server.call("create_chat", target_email=ALICE))["chat_id"]
        await sandbox.clear_faults()
        await sandbox.fault("drop_after", method="POST", path="/v1.0/chats/*/messages", count=1)
        sent = await server.call("send_teams_message", message="just once", chat_id=chat)
        (message,) = await sandbox.messages(chat, sender="agent")
        assert message["id"] == sent["message_id"]


async def test_expired_tokens_are_replaced_unnoticed(sandbox: Sandbox, environment: dict[str, str]) -> None:
    async with served(environment) as server:
        chat = (await server.call("create_chat", target_email=ALICE))["chat_id"]
        await sandbox.clear_requests()
        await sandbox.expire_tokens()
        await server.call("send_teams_message", message="still here", chat_id=chat)
        assert [request for request in await sandbox.requests() if request["status"] == 401], "nothing had expired"
        assert len(await sandbox.messages(chat, sender="agent")) == 1
        await sandbox.expire_tokens(all=True)
        await server.call("send_teams_message", message="and here", chat_id=chat)
        assert len(await sandbox.messages(chat, sender="agent")) == 2
        await sandbox.say("alice", "good", chat=chat)
        assert "good" in (await server.next_push())["content"]


async def test_graph_says_how_long_to_wait(sandbox: Sandbox, environment: dict[str, str]) -> None:
    async with served(environment) as server:
        chat = (await server.call("create_chat", target_email=ALICE))["chat_id"]
        await sandbox.clear_requests()
        path = "/v1.0/chats/*/messages"
        await sandbox.fault("status", method="POST", path=path, status=429, retry_after=3, count=1)
        await server.call("send_teams_message", message="patience", chat_id=chat)
        posts = [one for one in await sandbox.requests() if one["method"] == "POST" and "/messages" in one["path"]]
    assert [post["status"] for post in posts] == [429, 201]
    refused, taken = (datetime.fromisoformat(post["time"]) for post in posts)
    assert taken - refused >= timedelta(seconds=3)
    assert len(await sandbox.messages(chat, sender="agent")) == 1


async def test_graph_limits_without_end(sandbox: Sandbox, environment: dict[str, str]) -> None:
    async with served(environment) as server:
        chat = (await server.call("create_chat", target_email=ALICE))["chat_id"]
        path = "/v1.0/chats/*/messages"
        await sandbox.fault("status", method="POST", path=path, status=429, retry_after=120)
        error = await server.failing("send_teams_message", message="never", chat_id=chat)
    told(error, "120 seconds")
    assert (error["type"], error["status"]) == ("GraphThrottled", 429)
    assert await sandbox.messages(chat, sender="agent") == []


def _another_certificate(folder: Path) -> str:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "another")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file = folder / "another.pem"
    file.touch(mode=0o600)
    file.write_bytes(private + certificate.public_bytes(pem))
    return str(file)
