"""A person's own sign-in: the server asks for it, the commands do it, and all processes share what comes of it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from entrabot_sandbox.client import Sandbox

from .wire import LEGACY, MODERN, Server, served, until

_AGENTS_OWN = ("ENTRABOT_BLUEPRINT_APP_ID", "ENTRABOT_AGENT_ID", "ENTRABOT_AGENT_OBJECT_ID", "ENTRABOT_AGENT_USER_ID")
Json = dict[str, Any]


@pytest.fixture
async def person(sandbox: Sandbox, environment: dict[str, str]) -> dict[str, str]:
    """Settings with which people sign in, on a machine without a browser; alice is the sponsor."""
    await sandbox.settings(device_interval=1)
    kept = {name: value for name, value in environment.items() if name not in _AGENTS_OWN}
    return {
        **kept,
        "ENTRABOT_CLIENT_ID": sandbox.delegated["client_id"],
        "ENTRABOT_HEADLESS": "true",
        "ENTRABOT_TEAMS_WAIT_SECONDS": "4",
        "ENTRABOT_HUMAN_USER_IDS": str(sandbox.people["alice"]["id"]),
    }


async def written(server: Server, text: str) -> bool:
    """Whether it stands on stderr by now."""
    return text in server.stderr


async def code_of(server: Server) -> str:
    """Call a tool until its error names the code."""

    async def look() -> Any:
        identity = (await server.call("whoami"))["identity"]
        return identity.get("error", {}).get("sign_in")

    asked = await until(look, "whoami names a code")
    assert asked["url"].startswith("https://127.0.0.1:")
    assert 0 < asked["expires_in_seconds"] <= 900
    return str(asked["code"])


async def identity_of(server: Server) -> Json:
    async def look() -> Any:
        identity = (await server.call("whoami"))["identity"]
        return identity if identity["state"] == "delegated" else None

    return dict(await until(look, "a person is signed in"))


def logged(server: Server) -> list[Json]:
    messages = [json.loads(line) for line in server.lines]
    return [message["params"] for message in messages if message.get("method") == "notifications/message"]


async def entrabot(environment: dict[str, str], *arguments: str) -> asyncio.subprocess.Process:
    pipes = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.PIPE}
    command = (sys.executable, "-m", "entrabot_host.cli.main", *arguments)
    return await asyncio.create_subprocess_exec(*command, env=environment, **pipes)  # type: ignore[arg-type]


async def output(environment: dict[str, str], *arguments: str) -> tuple[int | None, Any]:
    """Run a command with --json; return its status and what it prints."""
    process = await entrabot(environment, *arguments, "--json")
    async with asyncio.timeout(40):
        out, errors = await process.communicate()
    assert out, errors.decode()
    return process.returncode, json.loads(out)


async def log_in(sandbox: Sandbox, environment: dict[str, str], who: str = "alice") -> Json:
    process = await entrabot(environment, "login", "--device-code", "--json")
    assert process.stdout
    async with asyncio.timeout(40):
        asked = json.loads(await process.stdout.readline())
        await sandbox.enter_code(asked["sign_in"]["code"], who)
        out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return dict(json.loads(out))


# --- the server asks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_a_person_signs_in_with_a_code_and_a_restart_is_silent(
    sandbox: Sandbox, person: dict[str, str], era: str
) -> None:
    async with served(person, era=era) as server:
        code = await code_of(server)
        await until(lambda: written(server, code), "the code on stderr")
        (message,) = logged(server)
        assert code in message["data"]
        failure = await server.failing("list_chat_members", chat_id="19:x@thread.v2")
        assert failure["type"] == "NotSignedIn"
        assert code in failure["remedy"]
        await sandbox.enter_code(code, "alice")
        identity = await identity_of(server)
        assert identity["attribution"] == "delegated-human"
        assert identity["user_id"] == sandbox.people["alice"]["id"]
        assert identity["user_principal_name"] == sandbox.people["alice"]["upn"]
        assert identity["verified_with_graph"] is True
        assert "ENTRABOT_BLUEPRINT_APP_ID" in identity["not_tried"]["agent-user"]
        assert identity["token_cache"] == "file"
        assert "not encrypted" in identity["token_cache_problem"]
        assert "in that person's own name" in server.stderr
    await sandbox.clear_requests()
    async with served(person, era=era) as server:
        assert (await identity_of(server))["user_id"] == sandbox.people["alice"]["id"]
        assert logged(server) == []
    assert not any(path.endswith("/devicecode") for path in await sandbox.counts())


async def test_what_the_agent_says_in_a_person_s_name_is_marked_and_not_heard(
    sandbox: Sandbox, person: dict[str, str]
) -> None:
    await log_in(sandbox, person)
    bob = str(sandbox.people["bob"]["mail"])
    async with served(person, greet=False) as server:
        await server.greet("codex")  # shows no pushes, so that a send waits
        chat = (await server.call("create_chat", target_email=bob))["chat_id"]
        sent = await server.call("send_teams_message", message="<p>Hello</p>", chat_id=chat)
        assert not {"sponsor_reply", "earlier_messages", "later_messages"} & set(sent)
        (message,) = [one for one in await sandbox.messages(chat) if one["id"] == sent["message_id"]]
        assert message["from"]["user"]["id"] == sandbox.people["alice"]["id"]
        assert message["body"]["content"].startswith("[EntraBot] ")
        shown = (await server.call("read_teams_messages", chat_id=chat))["messages"]
        assert [one["is_me"] for one in shown if one["message_id"] == sent["message_id"]] == [True]
        by_hand = await sandbox.say("alice", "by hand", chat=chat)
        heard = await server.call("wait_for_sponsor_dm", timeout_seconds=30)
        assert heard["sponsor_reply"]["message_id"] == by_hand["id"]
        tasks = {task["name"]: task for task in (await server.call("whoami"))["background"]}
        assert tasks["teams-discovery"]["runs"] == 0
        assert "agent's own identity" in tasks["teams-discovery"]["waiting_for"]


async def test_a_probe_asks_nobody(sandbox: Sandbox, person: dict[str, str]) -> None:
    async with served(person) as server:
        assert "send_teams_message" in await server.tools()
        await asyncio.sleep(1.0)  # warming up begins half a second after the list at the latest
        assert logged(server) == []
    assert not any(path.endswith("/devicecode") for path in await sandbox.counts())


async def test_a_subset_asks_for_its_own_permissions(sandbox: Sandbox, person: dict[str, str]) -> None:
    environment = {**person, "ENTRABOT_PLUGINS": "teams"}
    await log_in(sandbox, environment)
    async with served(environment) as server:
        permissions = (await server.call("whoami"))["permissions"]
    assert permissions["not_in_the_users_token"] == {}
    assert "Chat.ReadWrite" in permissions["granted"]


async def test_a_login_in_a_terminal_is_noticed_by_a_server_that_waits(
    sandbox: Sandbox, person: dict[str, str]
) -> None:
    async with served(person) as server:
        await code_of(server)
        await log_in(sandbox, person)
        assert (await identity_of(server))["user_id"] == sandbox.people["alice"]["id"]


async def test_falling_back_to_a_person_is_said_loudly(
    sandbox: Sandbox, environment: dict[str, str], person: dict[str, str]
) -> None:
    await log_in(sandbox, person)
    wrong = {**environment, **person, "ENTRABOT_AGENT_USER_ID": "00000000-0000-0000-0000-00000000dead"}
    async with served(wrong) as server:
        identity = await identity_of(server)
        assert identity["attempts"][0]["provider"] == "agent-user"
        assert "FALLING BACK TO A PERSON'S IDENTITY" in server.stderr


# --- commands -------------------------------------------------------------------------------------------------------


async def test_login_status_logout(sandbox: Sandbox, person: dict[str, str]) -> None:
    status, report = await output(person, "status")
    assert status == 1
    assert report["identity"] is None
    account = await log_in(sandbox, person)
    assert account["account"]["user_name"] == sandbox.people["alice"]["upn"]
    assert account["token_cache"] == "file"
    status, report = await output(person, "status")
    assert status == 0
    assert report["identity"]["attribution"] == "delegated-human"
    (entry,) = [one for one in report["providers"] if one["provider"] == "delegated"]
    assert entry["state"] == "ready"
    assert entry["account"]["expires_in"] > 60
    assert "not encrypted" in entry["problem"]
    status, report = await output(person, "logout")
    assert (status, report["signed_out"]["user_id"]) == (0, sandbox.people["alice"]["id"])
    assert (await output(person, "status"))[0] == 1


async def test_status_of_the_agent(sandbox: Sandbox, environment: dict[str, str]) -> None:
    status, report = await output(environment, "status")
    assert status == 0
    assert report["identity"]["user_id"] == sandbox.people["agent"]["id"]
    wrong = {**environment, "ENTRABOT_AGENT_USER_ID": "00000000-0000-0000-0000-00000000dead"}
    status, report = await output(wrong, "status")
    assert status == 1
    assert "hop 3" in report["providers"][0]["reason"]


async def test_signing_out_takes_no_settings(bare: dict[str, str]) -> None:
    process = await entrabot(bare, "logout")
    out, _ = await process.communicate()
    assert (process.returncode, b"Nobody was signed in" in out) == (0, True)


@pytest.mark.parametrize("command", ["login", "status"])
async def test_nothing_configured_is_status_2(bare: dict[str, str], command: str) -> None:
    process = await entrabot(bare, command)
    out, errors = await process.communicate()
    assert process.returncode == 2
    assert b"ENTRABOT_CLIENT_ID" in out + errors


async def test_a_code_that_is_refused_is_status_1(sandbox: Sandbox, person: dict[str, str]) -> None:
    process = await entrabot(person, "login", "--device-code", "--json")
    assert process.stdout
    asked = json.loads(await process.stdout.readline())
    await sandbox.enter_code(asked["sign_in"]["code"], "alice", decline=True)
    out, _ = await process.communicate()
    assert process.returncode == 1
    assert json.loads(out)["error"]["type"] == "AuthError"


@pytest.mark.parametrize("command", ["login", "logout", "status"])
async def test_the_commands_do_not_load_the_sdk(bare: dict[str, str], command: str) -> None:
    code = (
        "import sys; from entrabot_host.cli.main import main\n"
        f"try: main([{command!r}])\nexcept SystemExit: pass\n"
        "print('mcp' in sys.modules, file=sys.stderr)"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, env=bare, stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL
    )
    _, errors = await process.communicate()
    assert errors.decode().splitlines()[-1] == "False"


async def test_login_with_a_browser(sandbox: Sandbox, person: dict[str, str], tmp_path: Path) -> None:
    """The browser is a program that writes down the address; its part is played over HTTP."""
    script, address = tmp_path / "browser", tmp_path / "address"
    script.write_text(f'#!/bin/sh\nprintf %s "$1" > {address}.new && mv {address}.new {address}\n', encoding="utf-8")
    script.chmod(0o700)
    process = await entrabot({**person, "ENTRABOT_HEADLESS": "false", "BROWSER": str(script)}, "login", "--json")

    async def opened() -> Any:
        return address.exists() and address.read_text(encoding="utf-8")

    answer = await sandbox.sign_in(await until(opened, "a browser was opened"), "alice")
    async with httpx.AsyncClient() as browser:
        page = await browser.post(answer["url"], data=answer["form"])
    assert page.status_code == 200
    async with asyncio.timeout(40):
        out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    assert json.loads(out.splitlines()[-1])["account"]["user_id"] == sandbox.people["alice"]["id"]


# --- several processes ----------------------------------------------------------------------------------------------

_ROTATE = """
import asyncio, sys
from entrabot_host.application import Application
from entrabot_host.config import load_config

async def main():
    application = Application(load_config({}))
    provider = application.delegated.provider
    await provider.sign_in_silently()
    token = await provider.token("https://graph.microsoft.com")
    for _ in range(int(sys.argv[1])):
        token = await provider.token("https://graph.microsoft.com", rejected=token.secret)
    await provider.aclose()

asyncio.run(main())
"""


@asynccontextmanager
async def running(environment: dict[str, str], times: int) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _ROTATE, str(times), env=environment, stderr=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_processes_that_renew_one_sign_in_never_lock_each_other_out(
    sandbox: Sandbox, person: dict[str, str]
) -> None:
    await sandbox.settings(refresh_rotation="revoke")
    await log_in(sandbox, person)
    async with running(person, 30) as one, running(person, 30) as two, running(person, 30) as three:
        async with asyncio.timeout(100):
            ends = await asyncio.gather(*(process.communicate() for process in (one, two, three)))
        assert [process.returncode for process in (one, two, three)] == [0, 0, 0], ends
    assert (await output(person, "status"))[0] == 0


async def test_a_process_that_is_killed_leaves_no_lock(sandbox: Sandbox, person: dict[str, str]) -> None:
    await log_in(sandbox, person)
    async with running(person, 10_000) as process:
        requests = await sandbox.requests()
        async with asyncio.timeout(30):
            while len(await sandbox.requests()) < len(requests) + 5:
                await asyncio.sleep(0.05)
        process.kill()
        await process.communicate()
    assert (await output(person, "status"))[0] == 0
