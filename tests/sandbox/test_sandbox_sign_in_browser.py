"""Signing in with a real browser, as MSAL opens one."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import anyio.to_thread
import pytest
from entrabot_sandbox.client import Sandbox

from tests.sandbox import chromium
from tests.sandbox.chromium import Tab
from tests.sandbox.people import SCOPES, application

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
async def tab(sandbox: Sandbox, tmp_path: Path) -> AsyncIterator[Tab]:
    program = chromium.find()
    if program is None:
        pytest.skip("no Chromium is installed")
    async with chromium.opened(program, tmp_path / "profile", sandbox.environment["ENTRABOT_LOGIN_URL"]) as tab:
        yield tab


@pytest.mark.parametrize("scripts", [True, False])
async def test_msal_signs_in_through_a_browser(
    sandbox: Sandbox, tab: Tab, monkeypatch: pytest.MonkeyPatch, scripts: bool
) -> None:
    addresses: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def browse(address: str) -> bool:
        loop.call_soon_threadsafe(addresses.put_nowait, address)
        return True

    monkeypatch.setattr("webbrowser.open", browse)
    app = application(sandbox)

    def sign_in() -> dict[str, object]:
        return dict(app.acquire_token_interactive(SCOPES, prompt="select_account", timeout=100))

    await tab.command("Emulation.setScriptExecutionDisabled", value=not scripts)
    async with asyncio.TaskGroup() as group:
        result = group.create_task(anyio.to_thread.run_sync(sign_in))
        await tab.go(await asyncio.wait_for(addresses.get(), 30))
        await tab.click(f'input[value="{sandbox.people["alice"]["id"]}"]')
        await tab.click('button[value="accept"]')
        if not scripts:
            await tab.click("form#answer button")
        await tab.see("Authentication complete")
    claims = result.result()["id_token_claims"]
    assert isinstance(claims, dict)
    assert claims["oid"] == sandbox.people["alice"]["id"]
    account = app.get_accounts()[0]
    again = app.acquire_token_silent(SCOPES, account=account, force_refresh=True)
    assert again["token_source"] == "identity_provider"


@pytest.fixture
def hostile() -> Iterator[Callable[[str], str]]:
    """A web server at another origin: give it a page, get its address."""
    pages: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = pages[-1].encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()

        def put(page: str) -> str:
            pages.append(page)
            return f"http://localhost:{server.server_port}/"

        yield put
        server.shutdown()
        thread.join(10)


async def test_another_page_can_neither_frame_nor_read_nor_send(
    sandbox: Sandbox, tab: Tab, hostile: Callable[[str], str]
) -> None:
    app = application(sandbox)
    flow = app.initiate_auth_code_flow(SCOPES, redirect_uri="http://localhost:1", response_mode="form_post")
    address = str(flow["auth_uri"])
    await tab.go(address)
    await tab.see("Alice Example")  # there is a cookie by now
    quoted = json.dumps(address)
    page = f"""<!DOCTYPE html><p id="told">waiting</p><iframe id="frame"></iframe><script>
        const told = text => document.getElementById("told").textContent += `[${{text}}]`;
        document.getElementById("frame").onload = () => told("loaded");
        document.getElementById("frame").src = {quoted};
        fetch({quoted}, {{credentials: "include"}}).then(() => told("was-read"), () => told("not-read"));
    </script>"""
    await tab.go(hostile(page))
    source = await tab.see("[not-read]")
    assert "[was-read]" not in source
    await tab.see("[loaded]")
    assert "Alice" not in await (await tab.frame()).see("neterror")  # the browser's own page about a failure
    alice = sandbox.people["alice"]["id"]
    page = f"""<!DOCTYPE html><form method="post"><input name="user" value="{alice}">
        <input name="action" value="accept"></form><script>
        document.forms[0].action = {quoted}; document.forms[0].submit();</script>"""
    await tab.go(hostile(page))
    await tab.see("The form was not sent from this page.")


async def test_a_code_is_entered_in_a_browser(sandbox: Sandbox, tab: Tab) -> None:
    app = application(sandbox)
    flow = app.initiate_device_flow(SCOPES)
    await tab.go(flow["verification_uri"])
    await tab.type('input[name="user_code"]', flow["user_code"])
    await tab.click("button")
    await tab.click(f'input[value="{sandbox.people["bob"]["id"]}"]')
    await tab.click('button[value="accept"]')
    await tab.see("as Bob Example")
    result = app.acquire_token_by_device_flow(flow)
    assert result["id_token_claims"]["oid"] == sandbox.people["bob"]["id"]
