"""The three hops through MSAL, over TLS, against a tenant that verifies each of them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import anyio
import jwt
import pytest

from entrabot_host.auth.agent_user import AgentUserProvider
from entrabot_host.auth.failures import Hop
from entrabot_host.auth.provider import Attribution, Token
from entrabot_host.errors import AuthError
from entrabot_host.security.clouds import CLOUDS, Cloud
from tests.host.auth.tenant import GRAPH, STORAGE, TOKEN_PATH, Tenant

from .certificates import cert_pem, certificate, key_pem, private_file, rsa_key


def claims(token: Token) -> dict[str, object]:
    return dict(jwt.decode(token.secret, options={"verify_signature": False}))


async def failure(provider: AgentUserProvider, audience: str = GRAPH) -> AuthError:
    with pytest.raises(AuthError) as caught:
        await provider.token(audience)
    assert caught.value.remedy
    return caught.value


# --- success --------------------------------------------------------------------------------------------------------


async def test_signs_in_as_the_agent_user(tenant: Tenant) -> None:
    async with tenant.provider() as provider:
        assert provider.unavailable() is None
        principal = await provider.sign_in()
    environment = tenant.sandbox.environment
    assert principal.user_id == environment["ENTRABOT_AGENT_USER_ID"]
    assert principal.user_name == environment["ENTRABOT_AGENT_UPN"]
    assert principal.tenant_id == environment["ENTRABOT_TENANT_ID"]
    assert principal.agent_id == environment["ENTRABOT_AGENT_ID"]
    assert principal.attribution is Attribution.AGENT
    assert principal.display_name == "Sati Agent"
    assert await tenant.token_requests() == 3


async def test_user_name_is_learnt_when_it_is_not_set(tenant: Tenant) -> None:
    async with tenant.provider(ENTRABOT_AGENT_UPN="") as provider:
        assert (await provider.sign_in()).user_name == tenant.sandbox.environment["ENTRABOT_AGENT_UPN"]


async def test_tokens_of_user_and_app(tenant: Tenant) -> None:
    async with tenant.provider() as provider:
        user, app = claims(await provider.token(GRAPH)), claims(await provider.app_token(GRAPH))
        storage = claims(await provider.token(STORAGE))
    assert (user["aud"], user["idtyp"], user["oid"]) == (GRAPH, "user", tenant.id_of("agent"))
    assert (app["aud"], app["idtyp"]) == (GRAPH, "app")
    assert storage["aud"] == STORAGE
    assert await tenant.token_requests() == 5  # the blueprint once, the agent identity once; one for each resource


async def test_tokens_are_kept(tenant: Tenant) -> None:
    async with tenant.provider() as provider:
        first = await provider.token(GRAPH)
        before = await tenant.token_requests()
        assert await provider.token(GRAPH) is first
        assert first.seconds_left > 3000
        assert first.secret not in repr(first)
    assert await tenant.token_requests() == before


async def test_concurrent_callers_make_one_request_for_each_hop(tenant: Tenant) -> None:
    async with tenant.provider() as provider:
        calls = [provider.token(GRAPH) for _ in range(8)] + [provider.token(STORAGE) for _ in range(8)]
        apps = [provider.app_token(GRAPH) for _ in range(8)]
        tokens = await asyncio.gather(*calls, *apps)
    assert len({token.secret for token in tokens}) == 3
    assert await tenant.token_requests() == 5


async def test_a_cancelled_caller_leaves_the_request_to_the_others(tenant: Tenant) -> None:
    await tenant.sandbox.fault("latency", seconds=0.3, path=f"/*{TOKEN_PATH}", count=1)
    async with tenant.provider() as provider:
        first, second = (asyncio.create_task(provider.token(GRAPH)) for _ in range(2))
        await anyio.lowlevel.checkpoint()
        first.cancel()
        assert (await second).secret
        with pytest.raises(asyncio.CancelledError):
            await first
    assert await tenant.token_requests() == 3


async def test_a_refused_token_is_replaced(tenant: Tenant) -> None:
    async with tenant.provider() as provider:
        first, app = await provider.token(GRAPH), await provider.app_token(GRAPH)
        await tenant.sandbox.clear_requests()
        second = await provider.token(GRAPH, rejected=first.secret)
        assert second.secret != first.secret
        assert await tenant.token_requests() == 1
        assert (await provider.token(GRAPH, rejected=first.secret)) is second
        assert await tenant.token_requests() == 1
        assert (await provider.app_token(GRAPH, rejected=app.secret)).secret != app.secret


async def test_claims_reach_entra_and_bring_a_new_token(tenant: Tenant) -> None:
    async with tenant.provider() as provider:
        first = await provider.token(GRAPH)
        challenge = '{"access_token":{"nbf":{"essential":true,"value":"1700000000"}}}'
        second = await provider.token(GRAPH, rejected=first.secret, claims=challenge)
        assert second.secret != first.secret
        assert await provider.token(GRAPH) is second


async def test_assertions_that_were_revoked_are_made_anew(tenant: Tenant) -> None:
    async with tenant.provider() as provider:
        first = await provider.token(GRAPH)
        await tenant.sandbox.expire_tokens(all=True)
        await tenant.sandbox.clear_requests()
        second = await provider.token(GRAPH, rejected=first.secret)
        assert second.secret != first.secret
        assert (await provider.app_token(GRAPH)).secret


async def test_short_lives_are_respected(tenant: Tenant) -> None:
    await tenant.sandbox.settings(token_lifetime=600)
    async with tenant.provider() as provider:
        assert 500 < (await provider.token(GRAPH)).seconds_left <= 600


# --- Entra refuses --------------------------------------------------------------------------------------------------


async def test_certificate_that_is_not_registered(tenant: Tenant, tmp_path: Path) -> None:
    stranger = certificate(rsa_key())
    file = private_file(tmp_path / "other.pem", key_pem(rsa_key()) + cert_pem(stranger))
    async with tenant.provider(ENTRABOT_BLUEPRINT_CERT_FILE=str(file)) as provider:
        error = await failure(provider)
    assert (error.hop, error.code) == (Hop.BLUEPRINT, 700027)
    assert "not registered" in error.remedy
    assert tenant.settings().blueprint_app_id in error.remedy


async def test_blueprint_unknown_in_the_tenant(tenant: Tenant) -> None:
    async with tenant.provider(ENTRABOT_BLUEPRINT_APP_ID=str(uuid4())) as provider:
        error = await failure(provider)
    assert (error.hop, error.code) == (Hop.BLUEPRINT, 700016)
    assert "ENTRABOT_BLUEPRINT_APP_ID" in error.remedy


async def test_tenant_unknown(tenant: Tenant) -> None:
    async with tenant.provider(ENTRABOT_TENANT_ID=str(uuid4())) as provider:
        error = await failure(provider)
    assert (error.hop, error.code) == (Hop.BLUEPRINT, 90002)
    assert "ENTRABOT_TENANT_ID" in error.remedy


async def test_agent_identity_unknown(tenant: Tenant) -> None:
    async with tenant.provider(ENTRABOT_AGENT_ID=str(uuid4())) as provider:
        error = await failure(provider)
    assert error.hop in (Hop.BLUEPRINT, Hop.AGENT_IDENTITY)
    assert error.code in (700016, 700211, 700213)
    assert "ENTRABOT_AGENT_ID" in error.remedy


async def test_agent_identity_of_another_blueprint(tenant: Tenant) -> None:
    other = await tenant.sandbox.add_blueprint("Other")
    async with tenant.provider(ENTRABOT_AGENT_ID=other["agent_id"]) as provider:
        error = await failure(provider)
    assert error.hop == Hop.AGENT_IDENTITY
    assert error.code in (700211, 700213)
    assert "ENTRABOT_BLUEPRINT_APP_ID" in error.remedy


async def test_user_of_another_agent(tenant: Tenant) -> None:
    async with tenant.provider(ENTRABOT_AGENT_USER_ID=tenant.id_of("alice")) as provider:
        error = await failure(provider)
    assert (error.hop, error.code) == (Hop.AGENT_USER, 50034)
    assert "ENTRABOT_AGENT_USER_ID" in error.remedy


async def test_consent_missing_then_given_works_at_once(tenant: Tenant) -> None:
    await tenant.sandbox.grant("graph", scopes=None)
    async with tenant.provider() as provider:
        error = await failure(provider)
        assert (error.hop, error.code) == (Hop.AGENT_USER, 65001)
        assert GRAPH in error.remedy
        before = await tenant.token_requests()
        await tenant.sandbox.grant("graph", scopes=["User.Read"])
        assert (await provider.token(GRAPH)).secret
        assert await tenant.token_requests() == before + 1  # the assertions were kept, the refusal was not


async def test_consent_missing_for_one_resource_leaves_the_others(tenant: Tenant) -> None:
    await tenant.sandbox.grant("storage", scopes=None)
    async with tenant.provider() as provider:
        assert (await failure(provider, STORAGE)).code == 65001
        assert (await provider.token(GRAPH)).secret


async def test_resource_unknown(tenant: Tenant) -> None:
    async with tenant.provider() as provider:
        error = await failure(provider, "https://unknown.example")
    assert (error.hop, error.code) == (Hop.AGENT_USER, 500011)
    assert "https://unknown.example" in error.remedy


async def test_a_clock_that_is_wrong(tenant: Tenant) -> None:
    await tenant.sandbox.set_clock(86_400)
    async with tenant.provider() as provider:
        error = await failure(provider)
    assert error.hop == Hop.BLUEPRINT
    assert error.code in (700024, 500133)
    assert "clock" in error.remedy


async def test_entra_that_is_busy_is_left_alone_for_as_long_as_it_says(tenant: Tenant) -> None:
    await tenant.sandbox.fault("status", path=f"/*{TOKEN_PATH}", status=429, retry_after=60, count=1)
    async with tenant.provider() as provider:
        error = await failure(provider)
        assert (error.hop, error.code) == (Hop.BLUEPRINT, None)
        before = await tenant.token_requests()
        assert "seconds" in (await failure(provider)).remedy
        assert await tenant.token_requests() == before


async def test_entra_that_fails_is_asked_again(tenant: Tenant) -> None:
    await tenant.sandbox.fault("status", path=f"/*{TOKEN_PATH}", status=503, count=1)
    async with tenant.provider() as provider:
        assert "503" in (await failure(provider)).message
        assert (await provider.token(GRAPH)).secret


async def test_discovery_that_fails_is_asked_again(tenant: Tenant) -> None:
    await tenant.sandbox.fault("status", path="/**/openid-configuration", status=500, count=1)
    async with tenant.provider() as provider:
        assert (await failure(provider)).hop == Hop.BLUEPRINT
        assert (await provider.token(GRAPH)).secret


# --- no answer ------------------------------------------------------------------------------------------------------


async def test_a_connection_that_breaks(tenant: Tenant) -> None:
    await tenant.sandbox.fault("drop_before", path=f"/*{TOKEN_PATH}", count=5)
    async with tenant.provider() as provider:
        error = await failure(provider)
        assert (error.hop, error.code) == (Hop.BLUEPRINT, None)
        assert "cannot be reached" in error.message
        await tenant.sandbox.clear_faults()
        assert (await provider.token(GRAPH)).secret


async def test_an_answer_that_does_not_come_in_time(tenant: Tenant) -> None:
    await tenant.sandbox.fault("latency", seconds=5, path=f"/*{TOKEN_PATH}", after=1)
    async with tenant.provider(timeout=1.0) as provider:
        error = await failure(provider)
    assert error.hop == Hop.AGENT_IDENTITY
    assert "in time" in error.message


async def test_nobody_listens(tenant: Tenant) -> None:
    with closed_port() as port:
        provider = AgentUserProvider(tenant.settings(), at(f"https://127.0.0.1:{port}"), tenant.ca_bundle)
        error = await failure(provider)
        await provider.aclose()
    assert "cannot be reached" in error.message


async def test_certificate_authority_that_is_not_trusted(tenant: Tenant) -> None:
    provider = AgentUserProvider(tenant.settings(), tenant.cloud(), "")
    error = await failure(provider)
    await provider.aclose()
    assert error.hop == Hop.BLUEPRINT
    assert "ENTRABOT_CA_BUNDLE" in error.remedy


async def test_ca_bundle_that_cannot_be_read(tenant: Tenant, tmp_path: Path) -> None:
    provider = AgentUserProvider(tenant.settings(), tenant.cloud(), str(tmp_path / "none.pem"))
    error = await failure(provider)
    await provider.aclose()
    assert error.hop == Hop.BLUEPRINT
    assert "ENTRABOT_CA_BUNDLE" in error.message


async def test_authority_that_is_not_https(tenant: Tenant) -> None:
    provider = AgentUserProvider(tenant.settings(), at("http://127.0.0.1:1"), "")
    error = await failure(provider)
    await provider.aclose()
    assert "https" in error.message


def at(login_url: str) -> Cloud:
    from dataclasses import replace

    return replace(CLOUDS["global"], login_url=login_url)


@contextmanager
def closed_port() -> Iterator[int]:
    """A port at which nobody listens, and which nobody else gets meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


# --- settings -------------------------------------------------------------------------------------------------------


async def test_what_is_missing_is_named(tenant: Tenant) -> None:
    names = ("ENTRABOT_TENANT_ID", "ENTRABOT_BLUEPRINT_APP_ID", "ENTRABOT_AGENT_ID", "ENTRABOT_AGENT_USER_ID")
    for name in (*names, "ENTRABOT_BLUEPRINT_CERT_FILE"):
        async with tenant.provider(**{name: ""}) as provider:
            reason = provider.unavailable() or ""
            assert name in reason
            assert not any(other in reason for other in names if other != name)


async def test_skipping_is_said(tenant: Tenant) -> None:
    async with tenant.provider(ENTRABOT_SKIP_PROVISIONING="yes") as provider:
        assert "ENTRABOT_SKIP_PROVISIONING" in (provider.unavailable() or "")


async def test_no_secret_in_what_is_logged_or_said(tenant: Tenant, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG", logger="entrabot_host"):
        async with tenant.provider() as provider:
            token = await provider.token(GRAPH)
            await tenant.sandbox.grant("graph", scopes=None)
            error = await failure_after(provider, token)
    said = caplog.text + str(error.to_dict()) + repr(error)
    assert token.secret not in said
    assert "eyJ" not in said


async def failure_after(provider: AgentUserProvider, token: Token) -> AuthError:
    with pytest.raises(AuthError) as caught:
        await provider.token(GRAPH, rejected=token.secret)
    return caught.value


async def test_closing_while_a_request_is_under_way(tenant: Tenant) -> None:
    await tenant.sandbox.fault("latency", seconds=2, path=f"/*{TOKEN_PATH}", count=1)
    provider = AgentUserProvider(tenant.settings(), tenant.cloud(), tenant.ca_bundle)
    caller = asyncio.create_task(provider.token(GRAPH))
    await anyio.lowlevel.checkpoint()
    await provider.aclose()
    with pytest.raises(AuthError, match="closed"):
        await caller


async def test_key_in_the_keystore(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    import keyring

    file = Path(tenant.sandbox.environment["ENTRABOT_BLUEPRINT_CERT_FILE"])
    pem = file.read_text(encoding="utf-8")
    from entrabot_host.auth.certificate import load_certificate

    thumbprint = load_certificate(tenant.settings()).thumbprint
    key = pem[pem.index("-----BEGIN PRIVATE KEY") : pem.index("-----END PRIVATE KEY-----") + 26]
    monkeypatch.setattr(keyring, "get_password", lambda service, name: key)
    changes = {"ENTRABOT_BLUEPRINT_CERT_FILE": "", "ENTRABOT_BLUEPRINT_CERT_THUMBPRINT": thumbprint}
    async with tenant.provider(**changes) as provider:
        assert provider.unavailable() is None
        assert (await provider.sign_in()).attribution is Attribution.AGENT
