"""What callers and clients hear while a person is asked to sign in; and the sign-in with a browser."""

from __future__ import annotations

import asyncio
import socket
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import keyring
import keyring.backends.fail
import pytest

from entrabot_host.auth import prompting
from entrabot_host.auth.failures import Hop
from entrabot_host.auth.prompting import BrowserWindow, NoBrowser, check_address
from entrabot_host.auth.provider import SignInPrompt
from entrabot_host.errors import AuthError, NotSignedIn
from entrabot_host.identity.session import Session, State
from entrabot_host.push import LOG_METHOD, PushQueue
from entrabot_host.security.clouds import CloudSettings, resolve_cloud
from tests.host.auth.delegated_entra import ALICE, GRAPH, PeopleEntra, refusal


@pytest.fixture(autouse=True)
def no_keystore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring, "get_keyring", keyring.backends.fail.Keyring)


@pytest.fixture
def entra() -> Iterator[PeopleEntra]:
    service = PeopleEntra()
    with service.in_place():
        yield service


async def test_callers_learn_what_the_person_has_to_do_at_once(entra: PeopleEntra, tmp_path: Path) -> None:
    provider = entra.provider(tmp_path)
    provider.begin()
    session = Session([provider])
    with pytest.raises(NotSignedIn) as caught:
        await session.principal()
    assert session.state is State.AUTHENTICATING
    assert session.prompt
    assert "https://microsoft.com/devicelogin" in caught.value.remedy
    sign_in = caught.value.to_dict()["sign_in"]
    assert (sign_in["url"], sign_in["code"]) == ("https://microsoft.com/devicelogin", "ABCD-1234")
    assert 800 < sign_in["expires_in_seconds"] <= 900
    entra.entered = True
    async with asyncio.timeout(10):
        while session.known_principal is None:
            await asyncio.sleep(0.05)
    assert (await session.principal()).user_id == ALICE
    assert (await session.token(GRAPH)).secret
    assert (session.state, session.prompt) == (State.DELEGATED, None)
    assert len(entra.asked("devicecode")) == 1
    await session.aclose()


async def test_closing_a_session_that_waits_for_a_person(entra: PeopleEntra, tmp_path: Path) -> None:
    provider = entra.provider(tmp_path)
    provider.begin()
    session = Session([provider])
    with pytest.raises(NotSignedIn):
        await session.principal()
    async with asyncio.timeout(2):
        await session.aclose()
    with pytest.raises(NotSignedIn, match="closed"):
        await session.principal()


async def test_log_messages_keep_the_order_and_wait_until_the_client_is_ready() -> None:
    written: list[tuple[str, dict[str, Any]]] = []
    ready = asyncio.Event()

    async def notify(method: str, params: dict[str, Any]) -> None:
        written.append((method, params))

    queue = PushQueue(notify, ready, lambda: False)
    for number in range(200):  # more than are kept: nobody is stalled by that
        queue.log(f"message {number}")
    await asyncio.sleep(0)
    assert written == []
    ready.set()
    await queue.push({"content": "x"}) if queue.ready else None
    async with asyncio.timeout(5):
        while len(written) < 64:
            await asyncio.sleep(0)
    assert written[0] == (LOG_METHOD, {"level": "warning", "logger": "entrabot", "data": "message 0"})
    await queue.aclose()


# --- with a browser -------------------------------------------------------------------------------------------------


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = int(free.getsockname()[1])
    monkeypatch.setattr(prompting, "PORT", number)
    monkeypatch.setattr(BrowserWindow.__init__, "__defaults__", (prompting.BROWSER_SECONDS, number))
    return number


@pytest.fixture
def addresses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A browser that was opened at these addresses."""
    opened: list[str] = []

    def open_browser(url: str) -> bool:
        opened.append(url)
        return True

    monkeypatch.setattr(webbrowser, "open", open_browser)
    return opened


async def the_address(addresses: list[str], task: asyncio.Task[Any]) -> dict[str, str]:
    async with asyncio.timeout(10):
        while not addresses:
            assert not task.done(), task
            await asyncio.sleep(0.01)
    return {name: values[0] for name, values in parse_qs(urlsplit(addresses[0]).query).items()}


async def test_a_browser_signs_a_person_in(entra: PeopleEntra, tmp_path: Path, port: int, addresses: list[str]) -> None:
    provider, prompts = entra.provider(tmp_path, ENTRABOT_HEADLESS=False), list[SignInPrompt | None]()
    provider.on_prompt(prompts.append)
    provider.begin()
    task = asyncio.create_task(provider.sign_in())
    asked = await the_address(addresses, task)
    assert addresses[0].startswith("https://login.microsoftonline.com/")
    assert asked["redirect_uri"] == f"http://localhost:{port}"
    assert asked["code_challenge_method"] == "S256"
    assert prompts[0]
    assert prompts[0].code == ""
    entra.nonce = asked["nonce"]
    async with httpx.AsyncClient() as browser:
        await browser.post(f"http://127.0.0.1:{port}", data={"code": "c", "state": asked["state"]})
    assert (await task).user_id == ALICE
    assert entra.asked("devicecode") == []
    assert entra.asked("authorization_code")[0]["code_verifier"]


async def test_a_person_who_declines_is_not_asked_for_a_code(
    entra: PeopleEntra, tmp_path: Path, port: int, addresses: list[str]
) -> None:
    provider = entra.provider(tmp_path, ENTRABOT_HEADLESS=False)
    provider.begin()
    task = asyncio.create_task(provider.sign_in())
    asked = await the_address(addresses, task)
    answer = {"error": "access_denied", "error_description": "AADSTS65004: declined", "state": asked["state"]}
    async with httpx.AsyncClient() as browser:
        await browser.post(f"http://127.0.0.1:{port}", data=answer)
    with pytest.raises(AuthError, match="declined") as caught:
        await task
    assert caught.value.code == 65004
    assert entra.asked("devicecode") == []


async def test_without_a_browser_a_code_takes_its_place(
    entra: PeopleEntra, tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    provider = entra.provider(tmp_path, ENTRABOT_HEADLESS=False)
    provider.begin()
    entra.entered = True
    assert (await provider.sign_in()).user_id == ALICE
    assert len(entra.asked("devicecode")) == 1


async def test_a_port_in_use(port: int) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with pytest.raises(NoBrowser, match="cannot be used"):
            await asyncio.to_thread(BrowserWindow().answer, {"auth_uri": "https://x", "state": "s"})


async def test_nobody_answers_the_browser_in_time(port: int, addresses: list[str]) -> None:
    flow = {"auth_uri": "https://login.microsoftonline.com/?response_mode=form_post", "state": "s"}
    with pytest.raises(NoBrowser, match="nobody signed in"):
        await asyncio.to_thread(BrowserWindow(1.0).answer, flow)


async def test_connections_that_say_nothing_or_nonsense_keep_no_browser_out(
    port: int, addresses: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    """Browsers open some in advance, and any page may send something to this port."""
    flow = {"auth_uri": "https://login.microsoftonline.com/?response_mode=form_post", "state": "s"}
    waiting = asyncio.create_task(asyncio.to_thread(BrowserWindow(30.0).answer, flow))
    await the_address(addresses, waiting)
    _, silent = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with httpx.AsyncClient(timeout=20) as browser:
            with pytest.raises(httpx.RemoteProtocolError):
                await browser.post(f"http://127.0.0.1:{port}", content=b"\xff")
            for forged in ({"code": "evil"}, {"code": "evil", "state": "t"}, {"error": "evil", "state": ""}):
                assert (await browser.post(f"http://127.0.0.1:{port}", data=forged)).status_code == 400
            await browser.post(f"http://127.0.0.1:{port}", data={"code": "c", "state": "s"})
    finally:
        silent.close()
    assert (await waiting)["code"] == "c"
    assert capfd.readouterr().err == ""


async def test_a_window_that_was_closed_is_not_opened(port: int, addresses: list[str]) -> None:
    window = BrowserWindow()
    window.close()
    with pytest.raises(NoBrowser, match="given up"):
        await asyncio.to_thread(window.answer, {"auth_uri": "https://x", "state": "s"})
    assert addresses == []


async def test_waiting_for_a_browser_can_be_cancelled(
    entra: PeopleEntra, tmp_path: Path, port: int, addresses: list[str]
) -> None:
    provider = entra.provider(tmp_path, ENTRABOT_HEADLESS=False)
    provider.begin()
    task = asyncio.create_task(provider.sign_in())
    await the_address(addresses, task)
    task.cancel()
    async with asyncio.timeout(2):
        with pytest.raises(asyncio.CancelledError):
            await task
    async with asyncio.timeout(10):
        while True:  # the port is free again
            with socket.socket() as free:
                free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    free.bind(("127.0.0.1", port))
                    return
                except OSError:
                    await asyncio.sleep(0.05)


def test_a_stand_in_sends_nobody_to_microsoft() -> None:
    own = "https://127.0.0.1:8443"
    cloud = resolve_cloud(CloudSettings(ENTRABOT_LOGIN_URL=own, ENTRABOT_GRAPH_URL=own))
    assert check_address(f"{own}/deviceauth", cloud, Hop.DEVICE_CODE)
    for url in ("https://microsoft.com/devicelogin", "https://login.microsoftonline.com/x", "https://127.0.0.1/x", ""):
        with pytest.raises(AuthError, match="another site"):
            check_address(url, cloud, Hop.DEVICE_CODE)


async def test_consent_that_is_missing_says_what_to_do(entra: PeopleEntra, tmp_path: Path) -> None:
    entra.refuse = refusal("invalid_grant", 65001)
    provider = entra.provider(tmp_path)
    provider.begin()
    with pytest.raises(AuthError) as caught:
        await provider.sign_in()
    assert "administrator" in caught.value.remedy
