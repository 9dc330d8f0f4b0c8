"""The token endpoint: the three hops, and everything it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import jwt
import msal
import pytest
import requests
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509 import load_pem_x509_certificate
from entrabot_sandbox.client import Sandbox

from tests.sandbox.wire import EXCHANGE, GRAPH, Entra, token

STORAGE = "https://storage.azure.com/.default"


def refusal(response: httpx.Response) -> tuple[int, str, int]:
    """Status, OAuth error and AADSTS number, the body's form checked."""
    body = response.json()
    number = body["error_codes"][0]
    assert body["error_description"].startswith(f"AADSTS{number}: ")
    assert f"Trace ID: {body['trace_id']} Correlation ID: {body['correlation_id']}" in body["error_description"]
    assert body["timestamp"].endswith("Z")
    assert body["error_uri"].endswith(f"/error?code={number}")
    return response.status_code, body["error"], number


def claims(access_token: str) -> dict[str, Any]:
    read: dict[str, Any] = jwt.decode(access_token, options={"verify_signature": False})
    return read


class Msal:
    """MSAL, as a server would use it."""

    def __init__(self, sandbox: Sandbox) -> None:
        env = sandbox.environment
        self.env = env
        session = requests.Session()
        session.trust_env = False
        session.verify = env["ENTRABOT_CA_BUNDLE"]
        self.session = session
        self.kw: dict[str, Any] = {
            "authority": f"{env['ENTRABOT_LOGIN_URL']}/{env['ENTRABOT_TENANT_ID']}",
            "http_client": session,
            "instance_discovery": False,
        }
        pem = Path(env["ENTRABOT_BLUEPRINT_CERT_FILE"]).read_text(encoding="ascii")
        cut = pem.index("-----BEGIN CERTIFICATE")
        self.key, self.certificate = pem[:cut], pem[cut:]

    def blueprint(self, **credential: str) -> msal.ConfidentialClientApplication:
        credential = {"private_key": self.key, **(credential or {"public_certificate": self.certificate})}
        return msal.ConfidentialClientApplication(
            self.env["ENTRABOT_BLUEPRINT_APP_ID"], client_credential=credential, **self.kw
        )

    def t1(self, **credential: str) -> dict[str, Any]:
        app = self.blueprint(**credential)
        answer: dict[str, Any] = app.acquire_token_for_client([EXCHANGE], fmi_path=self.env["ENTRABOT_AGENT_ID"])
        return answer

    def agent(self) -> msal.ConfidentialClientApplication:
        credential = {"client_assertion": lambda: self.t1()["access_token"]}
        return msal.ConfidentialClientApplication(
            self.env["ENTRABOT_AGENT_ID"], client_credential=credential, **self.kw
        )


@pytest.fixture
def microsoft(sandbox: Sandbox) -> Msal:
    return Msal(sandbox)


def test_msal_makes_the_three_hops_and_finds_the_result_in_its_cache(microsoft: Msal) -> None:
    app = microsoft.agent()
    t2 = app.acquire_token_for_client([EXCHANGE])
    answer = app.acquire_token_by_user_federated_identity_credential(
        [GRAPH], assertion=t2["access_token"], user_object_id=microsoft.env["ENTRABOT_AGENT_USER_ID"]
    )
    assert answer["token_source"] == "identity_provider"
    account = app.get_accounts()[0]
    assert account["username"] == microsoft.env["ENTRABOT_AGENT_UPN"]
    assert app.acquire_token_silent([GRAPH], account=account)["token_source"] == "cache"
    other = app.acquire_token_silent([STORAGE], account=account)
    assert claims(other["access_token"])["aud"] == "https://storage.azure.com"


def test_msal_selects_the_user_by_name_and_may_say_on_behalf_of(microsoft: Msal) -> None:
    app = microsoft.agent()
    t2 = app.acquire_token_for_client([EXCHANGE])
    answer = app.acquire_token_by_user_federated_identity_credential(
        [GRAPH],
        assertion=t2["access_token"],
        username=microsoft.env["ENTRABOT_AGENT_UPN"],
        data={"requested_token_use": "on_behalf_of"},
    )
    assert claims(answer["access_token"])["oid"] == microsoft.env["ENTRABOT_AGENT_USER_ID"]


def test_msal_signs_with_a_thumbprint_too(microsoft: Msal) -> None:
    certificate = load_pem_x509_certificate(microsoft.certificate.encode())
    assert "access_token" in microsoft.t1(thumbprint=certificate.fingerprint(hashes.SHA1()).hex())


def test_msal_hears_why_a_strange_key_is_refused(microsoft: Msal) -> None:
    key = rsa.generate_private_key(65537, 2048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    answer = microsoft.t1(private_key=pem.decode(), public_certificate=microsoft.certificate)
    assert (answer["error"], answer["error_codes"]) == ("invalid_client", [700027])


def test_msal_finds_no_unknown_tenant(microsoft: Msal) -> None:
    microsoft.kw["authority"] = f"{microsoft.env['ENTRABOT_LOGIN_URL']}/nowhere.example"
    with pytest.raises(ValueError, match="authority"):
        microsoft.blueprint()


async def test_the_users_token_carries_the_documented_claims(entra: Entra, sandbox: Sandbox) -> None:
    t1 = await entra.t1()
    scope = f"{GRAPH} offline_access openid profile"
    response = await entra.hop3(t1, token(await entra.hop2(t1)), scope=scope, client_info="1")
    body = response.json()
    assert body["token_type"] == "Bearer"
    assert 3600 <= body["expires_in"] == body["ext_expires_in"] <= 5400
    assert GRAPH in body["scope"].split()
    assert "https://graph.microsoft.com/Chat.ReadWrite" in body["scope"].split()
    assert {"refresh_token", "id_token", "client_info"} <= set(body)
    read = claims(body["access_token"])
    env = sandbox.environment
    expected = {
        "tid": env["ENTRABOT_TENANT_ID"],
        "iss": f"https://sts.windows.net/{env['ENTRABOT_TENANT_ID']}/",
        "aud": "https://graph.microsoft.com",
        "oid": env["ENTRABOT_AGENT_USER_ID"],
        "idtyp": "user",
        "appid": env["ENTRABOT_AGENT_ID"],
        "xms_par_app_azp": env["ENTRABOT_BLUEPRINT_APP_ID"],
        "xms_idrel": "1",
    }
    assert {name: read[name] for name in expected} == expected
    assert "11" in read["xms_act_fct"].split()
    assert "13" in read["xms_sub_fct"].split()
    assert "Chat.ReadWrite" in read["scp"].split()
    assert "nonce" in jwt.get_unverified_header(body["access_token"])


async def test_nothing_beyond_the_request_is_answered(entra: Entra) -> None:
    t1 = await entra.t1()
    body = (await entra.hop3(t1, token(await entra.hop2(t1)))).json()
    assert not {"refresh_token", "id_token", "client_info"} & set(body)


async def test_two_hops_give_an_applications_own_token(entra: Entra, sandbox: Sandbox) -> None:
    read = claims(await entra.app_token())
    assert (read["idtyp"], read["oid"]) == ("app", sandbox.environment["ENTRABOT_AGENT_OBJECT_ID"])
    assert read["roles"] == ["AgentIdentity.ReadWrite.All"]
    assert "scp" not in read


async def test_a_refresh_token_gives_another_resources_token(entra: Entra) -> None:
    t1 = await entra.t1()
    first = await entra.hop3(t1, token(await entra.hop2(t1)), scope=f"{GRAPH} offline_access")
    form = {"grant_type": "refresh_token", "refresh_token": first.json()["refresh_token"]}
    again = await entra.hop3(t1, "", scope=STORAGE, **form)
    assert claims(token(again))["scp"] == "user_impersonation"
    spoilt = await entra.hop3(t1, "", scope=STORAGE, **form | {"refresh_token": "no such token"})
    assert refusal(spoilt) == (400, "invalid_grant", 700082)


async def test_an_agents_refresh_token_can_be_revoked(entra: Entra, sandbox: Sandbox) -> None:
    t1 = await entra.t1()
    first = await entra.hop3(t1, token(await entra.hop2(t1)), scope=f"{GRAPH} offline_access")
    assert await sandbox.spoil_refresh_tokens("revoked", "alice") == 0
    assert await sandbox.spoil_refresh_tokens("revoked") == 1
    again = await entra.hop3(t1, "", grant_type="refresh_token", refresh_token=first.json()["refresh_token"])
    assert refusal(again) == (400, "invalid_grant", 50173)


@pytest.mark.parametrize("grant_type", ["authorization_code", "urn:ietf:params:oauth:grant-type:device_code"])
async def test_an_agent_identity_has_no_grant_that_a_person_takes_part_in(entra: Entra, grant_type: str) -> None:
    response = await entra.hop2(await entra.t1(), grant_type=grant_type, code="x", device_code="x")
    assert refusal(response) == (400, "unauthorized_client", 70003)


async def test_an_agent_identity_belongs_to_one_tenant(entra: Entra, sandbox: Sandbox) -> None:
    url = f"{sandbox.environment['ENTRABOT_LOGIN_URL']}/organizations/oauth2/v2.0/token"
    response = await entra.post(url, grant_type="client_credentials", client_id=entra.agent, scope=EXCHANGE)
    assert refusal(response) == (400, "invalid_request", 50194)


@pytest.mark.parametrize(("alg", "x5t"), [("PS256", ""), ("PS256", "padded"), ("RS256", ""), ("RS256", "sha1")])
async def test_every_way_of_signing_is_taken(entra: Entra, alg: str, x5t: str) -> None:
    token(await entra.hop1(entra.assertion(alg=alg, x5t=x5t)))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"aud": "https://elsewhere.example/token"}, (401, "invalid_client", 50027)),
        ({"iss": "11111111-1111-1111-1111-111111111111"}, (401, "invalid_client", 50048)),
        ({"sub": "11111111-1111-1111-1111-111111111111"}, (401, "invalid_client", 50048)),
        ({"iss": "other", "sub": "other"}, (401, "invalid_client", 50027)),
        ({"exp": 1_700_000_000}, (401, "invalid_client", 700024)),
        ({"exp": None}, (401, "invalid_client", 50027)),
        ({"nbf": 4_000_000_000, "exp": 4_000_000_600}, (401, "invalid_client", 700024)),
        ({"x5t": "none"}, (401, "invalid_client", 50027)),
        ({"alg": "RS512"}, (401, "invalid_client", 50027)),
    ],
)
async def test_a_bad_assertion_is_refused(
    entra: Entra, changes: dict[str, Any], expected: tuple[int, str, int]
) -> None:
    assert refusal(await entra.hop1(entra.assertion(**changes))) == expected


async def test_an_assertion_that_is_no_jwt_is_refused(entra: Entra) -> None:
    assert refusal(await entra.hop1("nonsense")) == (401, "invalid_client", 50027)


async def test_another_blueprints_certificate_is_refused(entra: Entra, sandbox: Sandbox) -> None:
    other = await sandbox.add_blueprint("Other")
    pem = Path(other["cert_file"]).read_bytes()
    assert refusal(await entra.hop1(entra.assertion(pem=pem))) == (401, "invalid_client", 700027)
    assert refusal(await entra.hop1(entra.assertion(key=pem))) == (401, "invalid_client", 700027)


@pytest.mark.parametrize("fmi_path", [None, "11111111-1111-1111-1111-111111111111"])
async def test_a_missing_or_wrong_path_fails_at_the_second_hop(entra: Entra, fmi_path: str | None) -> None:
    t1 = token(await entra.hop1(fmi_path=fmi_path))
    assert refusal(await entra.hop2(t1)) == (401, "invalid_client", 700213)


async def test_a_graph_token_is_no_first_hop(entra: Entra) -> None:
    t1 = token(await entra.hop1(scope=GRAPH))
    assert refusal(await entra.hop2(t1)) == (401, "invalid_client", 700211)


async def test_the_first_token_of_another_blueprint_is_refused(entra: Entra, sandbox: Sandbox) -> None:
    other = await sandbox.add_blueprint("Other")
    pem, app_id = Path(other["cert_file"]).read_bytes(), other["app_id"]
    foreign = token(await entra.hop1(entra.assertion(pem=pem, iss=app_id, sub=app_id), client_id=app_id))
    assert refusal(await entra.hop2(foreign)) == (401, "invalid_client", 700213)
    t1 = await entra.t1()
    assert refusal(await entra.hop3(foreign, token(await entra.hop2(t1)))) == (401, "invalid_client", 700213)


async def test_tokens_do_not_stand_in_for_each_other(entra: Entra) -> None:
    t1 = await entra.t1()
    t2 = token(await entra.hop2(t1))
    assert refusal(await entra.hop2(t2)) == (401, "invalid_client", 700213)
    assert refusal(await entra.hop3(t2, t2)) == (401, "invalid_client", 700213)
    assert refusal(await entra.hop3(t1, t1)) == (401, "invalid_client", 700213)
    assert refusal(await entra.hop3(t1, "nonsense")) == (400, "invalid_grant", 50027)


async def test_expired_hops_are_refused(entra: Entra, sandbox: Sandbox) -> None:
    t1 = await entra.t1()
    t2 = token(await entra.hop2(t1))
    await sandbox.set_clock(6000)
    assert refusal(await entra.hop2(t1)) == (401, "invalid_client", 700024)
    fresh = token(await entra.hop1(entra.assertion(exp=4_000_000_000)))
    assert refusal(await entra.hop3(fresh, t2)) == (400, "invalid_grant", 500133)


async def test_another_agents_user_is_refused(entra: Entra, sandbox: Sandbox) -> None:
    other = await sandbox.add_blueprint("Other")
    t1 = await entra.t1()
    t2 = token(await entra.hop2(t1))
    for user in (other["agent_user_id"], sandbox.people["alice"]["id"], "nobody@contoso.example"):
        assert refusal(await entra.hop3(t1, t2, user_id=user)) == (400, "invalid_grant", 50034)
    assert refusal(await entra.hop3(t1, t2, user_id=None)) == (400, "invalid_request", 900144)


async def test_consent_is_per_resource(entra: Entra, sandbox: Sandbox) -> None:
    await sandbox.grant("storage", scopes=None)
    t1 = await entra.t1()
    t2 = token(await entra.hop2(t1))
    assert refusal(await entra.hop3(t1, t2, scope=STORAGE)) == (400, "invalid_grant", 65001)
    wanted = "https://graph.microsoft.com/Team.Create"
    assert refusal(await entra.hop3(t1, t2, scope=wanted)) == (400, "invalid_grant", 65001)
    token(await entra.hop3(t1, t2))
    await sandbox.grant("graph", scopes=["Chat.Read"], roles=[])
    assert claims(token(await entra.hop3(t1, t2)))["scp"] == "Chat.Read"
    assert "roles" not in claims(token(await entra.hop2(t1, scope=GRAPH)))


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("https://unknown.example/.default", (400, "invalid_resource", 500011)),
        (f"{GRAPH} {STORAGE}", (400, "invalid_scope", 70011)),
        (f"{GRAPH} https://graph.microsoft.com/Chat.Read", (400, "invalid_scope", 70011)),
        ("openid", (400, "invalid_scope", 70011)),
        (None, (400, "invalid_request", 900144)),
    ],
)
async def test_a_bad_scope_is_refused(entra: Entra, scope: str | None, expected: tuple[int, str, int]) -> None:
    t1 = await entra.t1()
    t2 = token(await entra.hop2(t1))
    assert refusal(await entra.hop3(t1, t2, scope=scope)) == expected


async def test_client_credentials_need_the_default_scope(entra: Entra) -> None:
    response = await entra.hop2(await entra.t1(), scope="https://graph.microsoft.com/Chat.Read")
    assert refusal(response) == (400, "invalid_scope", 1002012)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"client_id": "11111111-1111-1111-1111-111111111111"}, (400, "unauthorized_client", 700016)),
        ({"client_id": None}, (400, "invalid_request", 900144)),
        ({"client_assertion": None}, (401, "invalid_client", 7000218)),
        ({"client_assertion": None, "client_secret": "x"}, (401, "invalid_client", 7000215)),
        ({"grant_type": None}, (400, "invalid_request", 900144)),
        ({"grant_type": "password"}, (400, "unsupported_grant_type", 70003)),
    ],
)
async def test_a_malformed_request_is_refused(
    entra: Entra, changes: dict[str, str | None], expected: tuple[int, str, int]
) -> None:
    assert refusal(await entra.hop1(**changes)) == expected


async def test_an_unknown_tenant_is_refused_everywhere(entra: Entra, sandbox: Sandbox) -> None:
    base = sandbox.environment["ENTRABOT_LOGIN_URL"]
    response = await entra.post(f"{base}/nowhere.example/oauth2/v2.0/token", grant_type="client_credentials")
    assert refusal(response) == (400, "invalid_request", 90002)
    response = await entra.http.get(f"{base}/nowhere.example/v2.0/.well-known/openid-configuration")
    assert refusal(response) == (400, "invalid_tenant", 90002)


async def test_the_clients_own_correlation_id_comes_back(entra: Entra) -> None:
    own = "12121212-3434-5656-7878-909090909090"
    response = await entra.http.post(entra.url, data={}, headers={"client-request-id": own})
    assert response.json()["correlation_id"] == own


async def test_a_domain_leads_to_its_tenants_guid(entra: Entra, sandbox: Sandbox) -> None:
    base = sandbox.environment["ENTRABOT_LOGIN_URL"]
    partner = sandbox.people["carol"]["tenant_id"]
    await sandbox.add_domain("fabrikam", "fabrikam-mail.example")
    for name in (partner, "fabrikam.example", "FABRIKAM-MAIL.example", "fabrikam.onmicrosoft.example"):
        document = (await entra.http.get(f"{base}/{name}/v2.0/.well-known/openid-configuration")).json()
        assert document["issuer"] == f"{base}/{partner}/v2.0"
        assert document["token_endpoint"] == f"{base}/{partner}/oauth2/v2.0/token"
    older = (await entra.http.get(f"{base}/fabrikam.example/.well-known/openid-configuration")).json()
    assert older["issuer"] == f"https://sts.windows.net/{partner}/"
    anyone = (await entra.http.get(f"{base}/common/v2.0/.well-known/openid-configuration")).json()
    assert anyone["issuer"] == f"{base}/{{tenantid}}/v2.0"


async def test_the_published_key_verifies_tokens(entra: Entra, sandbox: Sandbox) -> None:
    base, tenant = sandbox.environment["ENTRABOT_LOGIN_URL"], sandbox.environment["ENTRABOT_TENANT_ID"]
    keys = (await entra.http.get(f"{base}/{tenant}/discovery/v2.0/keys")).json()
    t1 = await entra.t1()
    key = jwt.PyJWKSet.from_dict(keys)[jwt.get_unverified_header(t1)["kid"]]
    jwt.decode(t1, key, ["RS256"], audience=entra.blueprint)
