"""A person's own sign-in, through MSAL, against a service that uses up each refresh token."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import keyring
import keyring.backend
import keyring.backends.fail
import pytest
import requests

from entrabot_host.auth.delegated import DelegatedProvider
from entrabot_host.auth.delegated_settings import DelegatedSettings, sign_in_tenant
from entrabot_host.auth.prompting import is_headless
from entrabot_host.auth.provider import Attribution, Prompting, SignInPrompt
from entrabot_host.auth.token_store import FOLDER, TokenStore
from entrabot_host.auth.vaults import Kind
from entrabot_host.errors import AuthError, NotSignedIn, SettingsError
from entrabot_host.security.clouds import CLOUDS
from entrabot_host.testing.auth_provider import AuthProviderContract
from tests.host.auth.delegated_entra import ALICE, CLOUD, GRAPH, TENANT, PeopleEntra, refusal, response


@pytest.fixture(autouse=True)
def no_keystore(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a server: the machine that runs the tests may have one."""
    monkeypatch.setattr(keyring, "get_keyring", keyring.backends.fail.Keyring)


@pytest.fixture
def entra() -> Iterator[PeopleEntra]:
    service = PeopleEntra()
    with service.in_place():
        yield service


@pytest.fixture
async def provider(entra: PeopleEntra, tmp_path: Path) -> AsyncIterator[DelegatedProvider]:
    provider = entra.provider(tmp_path)
    yield provider
    await provider.aclose()


async def signed_in(entra: PeopleEntra, folder: Path, **changes: Any) -> DelegatedProvider:
    provider = entra.provider(folder, **changes)
    provider.begin()
    entra.entered = True
    await provider.sign_in()
    return provider


async def asked(entra: PeopleEntra, what: str, task: asyncio.Task[Any], times: int = 1) -> None:
    """Wait until the service was asked for something by a task that goes on."""
    async with asyncio.timeout(10):
        while len(entra.asked(what)) < times:
            assert not task.done(), task
            await asyncio.sleep(0.01)


# --- signing in -----------------------------------------------------------------------------------------------------


async def test_a_code_signs_a_person_in(entra: PeopleEntra, provider: DelegatedProvider) -> None:
    prompts: list[SignInPrompt | None] = []
    provider.on_prompt(prompts.append)
    provider.begin()
    task = asyncio.create_task(provider.sign_in())
    await asked(entra, "device_code", task)
    (prompt,) = prompts
    assert prompt
    assert (prompt.url, prompt.code) == ("https://microsoft.com/devicelogin", "ABCD-1234")
    assert "EVIL" not in prompt.sentence
    assert 800 < prompt.seconds_left <= 900
    entra.entered = True
    principal = await task
    assert prompts[-1] is None
    assert (principal.user_id, principal.tenant_id) == (ALICE, TENANT)
    assert (principal.user_name, principal.display_name) == ("alice@contoso.example", "Alice")
    assert (principal.attribution, principal.agent_id) == (Attribution.DELEGATED_HUMAN, "")
    assert isinstance(provider, Prompting)


async def test_scopes_are_those_of_the_tools(entra: PeopleEntra, tmp_path: Path) -> None:
    await signed_in(entra, tmp_path, permissions=lambda: ["Chat.Read", "Mail.Send"])
    asked = set(entra.asked("devicecode")[0]["scope"].split())
    assert asked == {
        *(f"{GRAPH}/{name}" for name in ("Chat.Read", "Mail.Send", "User.Read")),
        *("openid", "profile", "offline_access"),
    }


async def test_a_restart_signs_in_silently(entra: PeopleEntra, tmp_path: Path) -> None:
    first = await signed_in(entra, tmp_path)
    token = await first.token(GRAPH)
    before = len(entra.requests)
    second = entra.provider(tmp_path)  # `begin` is not called: nobody could be asked
    assert (await second.sign_in()).user_id == ALICE
    assert (await second.token(GRAPH)).secret == token.secret
    assert [what for what, _ in entra.requests[before:]] == ["discovery"]


async def test_nobody_is_asked_before_the_client_has_begun(entra: PeopleEntra, provider: DelegatedProvider) -> None:
    prompts: list[SignInPrompt | None] = []
    provider.on_prompt(prompts.append)
    task = asyncio.create_task(provider.sign_in())
    await asyncio.wait({task}, timeout=0.3)
    assert (prompts, entra.requests) == ([], [])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_waiting_for_a_code_ends_at_once_when_cancelled(entra: PeopleEntra, provider: DelegatedProvider) -> None:
    entra.interval = 30
    provider.begin()
    task = asyncio.create_task(provider.sign_in())
    await asked(entra, "devicecode", task)
    await asyncio.sleep(0.05)
    task.cancel()
    async with asyncio.timeout(2):
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_another_process_that_signs_in_ends_the_wait(entra: PeopleEntra, tmp_path: Path) -> None:
    waiting = entra.provider(tmp_path)
    waiting.begin()
    task = asyncio.create_task(waiting.sign_in())
    await asked(entra, "device_code", task)
    other = entra.provider(tmp_path)
    entra.entered = True
    await other.sign_in_anew(device_code=True)
    entra.entered = False  # the code that the first one shows is never entered
    assert (await task).user_id == ALICE


async def test_a_bad_connection_while_waiting_is_no_refusal(entra: PeopleEntra, provider: DelegatedProvider) -> None:
    provider.begin()
    task = asyncio.create_task(provider.sign_in())
    await asked(entra, "devicecode", task)
    entra.refuse = requests.exceptions.ConnectionError("gone")
    await asked(entra, "device_code", task, 2)
    entra.refuse, entra.entered = None, True
    assert (await task).user_id == ALICE


async def test_a_code_that_nobody_enters(entra: PeopleEntra, provider: DelegatedProvider) -> None:
    entra.expires_in = 1
    provider.begin()
    with pytest.raises(AuthError, match="Nobody entered the code"):
        await provider.sign_in()


@pytest.mark.parametrize(
    ("answer", "remedy"),
    [
        (refusal("invalid_request", 90133), "ENTRABOT_TENANT_ID"),
        (refusal("unauthorized_client", 700016), "ENTRABOT_CLIENT_ID"),
        (refusal("invalid_client", 7000218), "public client"),
        (refusal("invalid_scope", 70011), "permission"),
    ],
)
async def test_refusals_say_what_to_do(
    entra: PeopleEntra, provider: DelegatedProvider, answer: requests.Response, remedy: str
) -> None:
    entra.refuse = answer
    provider.begin()
    with pytest.raises(AuthError) as caught:
        await provider.sign_in()
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://microsoft.com/devicelogin", True),
        ("https://www.microsoft.com/devicelogin", True),
        ("https://login.microsoft.com/device", True),
        ("https://login.microsoftonline.com/common/oauth2/deviceauth", True),
        ("https://microsoft.com.evil.example/devicelogin", False),
        ("https://microsoft.com/devicelogin@evil.example", False),
        ("https://microsoft.com/other", False),
        ("http://microsoft.com/devicelogin", False),
        ("https://login.microsoftonline.us/device", False),
    ],
)
async def test_only_the_service_s_own_page_is_shown(
    entra: PeopleEntra, provider: DelegatedProvider, url: str, shown: bool
) -> None:
    prompts: list[SignInPrompt | None] = []
    provider.on_prompt(prompts.append)
    entra.verification_uri, entra.entered = url, True
    provider.begin()
    with nullcontext() if shown else pytest.raises(AuthError, match="another site"):
        await provider.sign_in()
    assert any(prompts) is shown


async def test_a_code_of_an_odd_form_is_not_shown(entra: PeopleEntra, provider: DelegatedProvider) -> None:
    entra.user_code = "ABCD\u202e go to evil.example"
    provider.begin()
    with pytest.raises(AuthError, match="unknown form"):
        await provider.sign_in()


# --- tokens ---------------------------------------------------------------------------------------------------------


async def test_other_audiences_come_through_the_refresh_token(entra: PeopleEntra, tmp_path: Path) -> None:
    provider = await signed_in(entra, tmp_path)
    await provider.token("https://storage.azure.com")
    assert "https://storage.azure.com/.default" in entra.asked("refresh_token")[-1]["scope"]
    assert len(entra.refresh_tokens) == 1


async def test_a_token_that_was_rejected_is_renewed_unless_another_process_has(
    entra: PeopleEntra, tmp_path: Path
) -> None:
    first, second = await signed_in(entra, tmp_path), entra.provider(tmp_path)
    await second.sign_in()
    old = await first.token(GRAPH)
    new = await first.token(GRAPH, rejected=old.secret)
    assert new.secret != old.secret
    renewals = len(entra.asked("refresh_token"))
    assert (await second.token(GRAPH, rejected=old.secret)).secret == new.secret
    assert len(entra.asked("refresh_token")) == renewals


async def test_claims_reach_entra(entra: PeopleEntra, tmp_path: Path) -> None:
    provider = await signed_in(entra, tmp_path)
    await provider.token(GRAPH, claims='{"access_token":{}}')
    assert json.loads(entra.asked("refresh_token")[-1]["claims"]) == {"access_token": {}}


async def test_a_sign_in_that_was_revoked_needs_a_person_and_says_so(entra: PeopleEntra, tmp_path: Path) -> None:
    provider = await signed_in(entra, tmp_path)
    entra.refresh_tokens.clear()
    with pytest.raises(NotSignedIn) as caught:
        await provider.token("https://storage.azure.com")
    assert "entrabot login" in caught.value.remedy
    assert caught.value.code == 70043


async def test_a_service_that_does_not_answer_asks_nobody(entra: PeopleEntra, tmp_path: Path) -> None:
    entra.lifetime = 60  # too short to be used from the cache
    await signed_in(entra, tmp_path)
    provider, prompts = entra.provider(tmp_path), list[SignInPrompt | None]()
    provider.on_prompt(prompts.append)
    provider.begin()
    for trouble in (requests.exceptions.ConnectionError("gone"), response(503, {}), response(429, {})):
        entra.refuse = trouble
        with pytest.raises(AuthError) as caught:
            await provider.sign_in()
        assert not isinstance(caught.value, NotSignedIn)
    assert prompts == []


async def test_a_revoked_sign_in_is_asked_for_anew_at_start(entra: PeopleEntra, tmp_path: Path) -> None:
    entra.lifetime = 60
    await signed_in(entra, tmp_path)
    entra.refresh_tokens.clear()
    provider, prompts = entra.provider(tmp_path), list[SignInPrompt | None]()
    provider.on_prompt(prompts.append)
    provider.begin()
    assert (await provider.sign_in()).user_id == ALICE
    assert any(prompts)


async def test_a_session_stays_with_its_person(entra: PeopleEntra, tmp_path: Path) -> None:
    provider = await signed_in(entra, tmp_path)
    entra.person = {**entra.person, "oid": TENANT, "preferred_username": "bob@contoso.example"}
    other = entra.provider(tmp_path)
    assert (await other.sign_in_anew(device_code=True)).user_name == "bob@contoso.example"
    with pytest.raises(NotSignedIn, match=r"alice@contoso\.example is no longer signed in"):
        await provider.token("https://storage.azure.com")


async def test_signing_out(entra: PeopleEntra, tmp_path: Path) -> None:
    provider = await signed_in(entra, tmp_path)
    account = await provider.account()
    assert account
    assert account.expires_in > 3000
    out = await entra.provider(tmp_path).sign_out()
    assert out
    assert out.user_name == "alice@contoso.example"
    assert await provider.account() is None
    assert "at-" not in (tmp_path / FOLDER / "tokens.json").read_text(encoding="utf-8")


async def test_there_is_no_app_only_token(provider: DelegatedProvider) -> None:
    with pytest.raises(AuthError, match="app-only"):
        await provider.app_token(GRAPH)


async def test_many_rotations_by_several_providers(entra: PeopleEntra, tmp_path: Path) -> None:
    """Each refresh token is good for one use; nobody may use one twice."""
    await signed_in(entra, tmp_path)
    crowd = [entra.provider(tmp_path) for _ in range(4)]
    for one in crowd:
        await one.sign_in()
    audiences = ["https://storage.azure.com", "api://one", "api://two"]
    for _ in range(5):
        tokens = [one.token(audience, claims="{}") for one in crowd for audience in audiences]
        await asyncio.gather(*tokens)
    assert entra.used == set()
    assert len(entra.refresh_tokens) == 1


class TestContract(AuthProviderContract):
    unknown_audience = "https://nowhere.example"

    @pytest.fixture
    async def provider(self, tmp_path: Path) -> AsyncIterator[DelegatedProvider]:  # type: ignore[override]
        entra = PeopleEntra()
        with entra.in_place():
            provider = await signed_in(entra, tmp_path)
            grant = entra._token

            def known(asked: dict[str, Any]) -> requests.Response:
                return refusal("invalid_resource", 500011) if "nowhere" in asked["scope"] else grant(asked)

            entra._token = known  # type: ignore[method-assign]
            yield provider


# --- where tokens are kept ------------------------------------------------------------------------------------------


async def test_without_a_keystore_a_file_is_used_and_that_is_said(
    entra: PeopleEntra, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    provider = await signed_in(entra, tmp_path)
    path = tmp_path / FOLDER / "tokens.json"
    assert (provider.store.kind, provider.store.location) == (Kind.FILE, str(path))
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert "not encrypted" in provider.store.problem
    assert provider.store.problem in caplog.text
    assert next(iter(entra.refresh_tokens)) not in caplog.text


async def test_keystore_only_fails_closed(entra: PeopleEntra, tmp_path: Path) -> None:
    provider = entra.provider(tmp_path, ENTRABOT_TOKEN_CACHE="keystore")
    provider.begin()
    with pytest.raises(AuthError, match="wants the keystore") as caught:
        await provider.sign_in()
    assert "ENTRABOT_TOKEN_CACHE" in caught.value.remedy
    assert not (tmp_path / FOLDER / "tokens.json").exists()


async def test_memory_only_writes_nothing(entra: PeopleEntra, tmp_path: Path) -> None:
    provider = await signed_in(entra, tmp_path, ENTRABOT_TOKEN_CACHE="memory")
    assert (await provider.token("https://storage.azure.com")).secret
    assert provider.store.kind is Kind.MEMORY
    assert list(tmp_path.iterdir()) == []


class Keystore(keyring.backend.KeyringBackend):
    priority = 5
    viable = False  # keyring itself is not to find it

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}
        self.broken = False

    def get_password(self, service: str, username: str) -> str | None:
        if self.broken:
            raise OSError("no bus")
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.kept[service, username]


@pytest.fixture
def keystore(monkeypatch: pytest.MonkeyPatch) -> Keystore:
    store = Keystore()
    monkeypatch.setattr(keyring, "get_keyring", lambda: store)
    return store


async def test_a_keystore_is_preferred_and_takes_over_the_file(
    entra: PeopleEntra, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await signed_in(entra, tmp_path)
    store = Keystore()
    monkeypatch.setattr(keyring, "get_keyring", lambda: store)
    provider = entra.provider(tmp_path)
    assert (await provider.sign_in()).user_id == ALICE
    assert provider.store.kind is Kind.KEYSTORE
    assert provider.store.problem == ""
    assert not (tmp_path / FOLDER / "tokens.json").exists()
    assert len(store.kept) == 1


async def test_a_keystore_that_does_not_answer(entra: PeopleEntra, tmp_path: Path, keystore: Keystore) -> None:
    keystore.broken = True
    provider = await signed_in(entra, tmp_path)
    assert provider.store.kind is Kind.FILE
    assert "did not answer" in provider.store.problem


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
async def test_a_file_that_others_may_read_is_not_believed(
    entra: PeopleEntra, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await signed_in(entra, tmp_path)
    path = tmp_path / FOLDER / "tokens.json"
    path.chmod(0o644)
    provider = entra.provider(tmp_path)
    assert await provider.account() is None
    assert "open to other users" in caplog.text
    provider.begin()
    await provider.sign_in()
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "damage",
    [
        "{",
        "[]",
        '{"Account": 3}',
        '{"Account": {"x": 3}}',
        '{"AccessToken": {"x": {"expires_on": "soon"}}}',
        '{"AccessToken": {"x": {"target": ["y"]}}}',
        "\x00",
    ],
)
async def test_a_damaged_file_takes_a_new_sign_in(entra: PeopleEntra, tmp_path: Path, damage: str) -> None:
    await signed_in(entra, tmp_path)
    (tmp_path / FOLDER / "tokens.json").write_text(damage, encoding="utf-8")
    provider = entra.provider(tmp_path)
    assert await provider.account() is None
    provider.begin()
    assert (await provider.sign_in()).user_id == ALICE


async def test_what_cannot_be_written_is_kept_and_said(
    entra: PeopleEntra, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    provider = await signed_in(entra, tmp_path)
    with monkeypatch.context() as patch:

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        patch.setattr("entrabot_host.storage.files._write_all", full)
        await provider.token("api://one")
    assert "could not be kept" in caplog.text
    await provider.token("api://two")  # with the refresh token that could not be written
    assert await entra.provider(tmp_path).token("api://three")
    assert entra.used == set()


async def test_a_holder_that_hangs_does_not_hang_others(entra: PeopleEntra, tmp_path: Path) -> None:
    await signed_in(entra, tmp_path)
    holder, other = TokenStore(tmp_path, "auto"), TokenStore(tmp_path, "auto", lock_seconds=0.2)

    def look() -> None:
        with holder.opened(), pytest.raises(AuthError, match="Another process"):
            other.text()

    await asyncio.to_thread(look)


# --- settings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("authority", "tenant", "expected"),
    [
        ("", "", "organizations"),
        ("", TENANT, TENANT),
        ("https://login.microsoftonline.com/common", "", "organizations"),
        ("https://login.microsoftonline.com/common/", TENANT, TENANT),
        ("https://login.microsoftonline.com/Contoso.example", TENANT, "contoso.example"),
        ("https://login.windows.net/organizations", TENANT, "organizations"),
    ],
)
def test_authority(authority: str, tenant: str, expected: str) -> None:
    assert sign_in_tenant(DelegatedSettings(ENTRABOT_AUTHORITY=authority), CLOUD, tenant) == expected


@pytest.mark.parametrize(
    "authority",
    [
        "https://login.microsoftonline.com/consumers",
        "https://login.microsoftonline.com",
        "https://login.microsoftonline.com/a/b",
        "https://login.microsoftonline.us/common",
        "https://evil.example/common",
        "http://login.microsoftonline.com/common",
        "common",
    ],
)
def test_an_authority_elsewhere_is_refused(authority: str) -> None:
    with pytest.raises(SettingsError, match="ENTRABOT_AUTHORITY"):
        sign_in_tenant(DelegatedSettings(ENTRABOT_AUTHORITY=authority), CLOUDS["global"], "")


def test_no_app_no_provider(entra: PeopleEntra, tmp_path: Path) -> None:
    assert entra.provider(tmp_path, ENTRABOT_CLIENT_ID="").unavailable() == "not set: ENTRABOT_CLIENT_ID"


@pytest.mark.parametrize(
    ("choice", "environment", "platform", "expected"),
    [
        (None, {}, "linux", True),
        (None, {"DISPLAY": ":0"}, "linux", False),
        (None, {"WAYLAND_DISPLAY": "w"}, "linux", False),
        (None, {"DISPLAY": ":0", "SSH_CONNECTION": "x"}, "linux", True),
        (None, {"BROWSER": "firefox"}, "linux", False),
        (None, {"BROWSER": "firefox", "SSH_TTY": "x"}, "linux", True),
        (None, {}, "darwin", False),
        (True, {"DISPLAY": ":0"}, "linux", True),
        (False, {"SSH_TTY": "x"}, "linux", False),
    ],
)
def test_headless(choice: bool | None, environment: dict[str, str], platform: str, expected: bool) -> None:
    assert is_headless(choice, environment, platform) is expected
