"""People's own sign-in: by MSAL, and by hand where it is refused."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from typing import Any

import httpx
import jwt
import pytest
from entrabot_sandbox.client import Sandbox, SandboxError

from tests.sandbox.people import REDIRECT, SCOPES, Program, application, claims_of, query_of, signed_in
from tests.sandbox.wire import member

GRAPH = "https://graph.microsoft.com"
STORAGE = "https://storage.azure.com/.default"


@pytest.fixture
async def program(sandbox: Sandbox) -> AsyncIterator[Program]:
    async with Program.connection(sandbox) as http:
        yield Program(sandbox, http)


def refusal(response: httpx.Response) -> tuple[int, str, int]:
    body = response.json()
    assert body["error_description"].startswith(f"AADSTS{body['error_codes'][0]}: ")
    return response.status_code, body["error"], body["error_codes"][0]


def told(address: str) -> tuple[str, str]:
    """Error and AADSTS number in a redirect."""
    assert address.startswith(f"{REDIRECT}/?")
    answer = query_of(address)
    assert answer["state"] == "the state"
    return answer["error"], answer["error_description"].partition(":")[0]


# MSAL


async def test_msal_signs_somebody_in_on_the_page(sandbox: Sandbox) -> None:
    app = application(sandbox)
    result = await signed_in(sandbox, app)
    alice = sandbox.people["alice"]
    assert result["id_token_claims"]["preferred_username"] == alice["upn"]
    account = app.get_accounts()[0]
    assert account["home_account_id"] == f"{alice['id']}.{alice['tenant_id']}"
    assert app.acquire_token_silent(SCOPES, account=account)["token_source"] == "cache"
    said = claims_of(result["access_token"])
    expected = {"oid": alice["id"], "tid": alice["tenant_id"], "idtyp": "user", "appid": app.client_id, "aud": GRAPH}
    assert {name: said[name] for name in expected} == expected
    assert {"Chat.ReadWrite", "User.Read"} <= set(said["scp"].split())
    assert not any(name.startswith("xms_") for name in said)


async def test_msal_refreshes_and_reaches_other_resources(sandbox: Sandbox) -> None:
    app = application(sandbox)
    first = await signed_in(sandbox, app)
    account = app.get_accounts()[0]
    again = app.acquire_token_silent(SCOPES, account=account, force_refresh=True)
    assert again["access_token"] != first["access_token"]
    assert (
        claims_of(app.acquire_token_silent([STORAGE], account=account)["access_token"])["scp"] == "user_impersonation"
    )
    word = next(server for server in (await sandbox.call("GET", "/work-iq"))["servers"] if server["resource"] == "word")
    token = app.acquire_token_silent([f"{word['audience']}/.default"], account=account)["access_token"]
    assert (claims_of(token)["aud"], claims_of(token)["oid"]) == (word["audience"], sandbox.people["alice"]["id"])


async def test_msal_signs_somebody_in_with_a_device_code(sandbox: Sandbox) -> None:
    await sandbox.settings(device_interval=1)
    app = application(sandbox)
    flow = app.initiate_device_flow(SCOPES)
    assert flow["user_code"] in flow["message"]
    assert flow["verification_uri"] in flow["message"]
    await sandbox.enter_code(flow["user_code"].lower(), "bob")
    result = app.acquire_token_by_device_flow(flow)
    assert result["id_token_claims"]["oid"] == sandbox.people["bob"]["id"]
    assert app.acquire_token_silent(SCOPES, account=app.get_accounts()[0])["token_source"] == "cache"


async def test_msal_hears_that_somebody_cancelled(sandbox: Sandbox) -> None:
    app = application(sandbox)
    flow = app.initiate_auth_code_flow(SCOPES, redirect_uri=REDIRECT, response_mode="form_post")
    answer = await sandbox.sign_in(flow["auth_uri"], "alice", cancel=True)
    assert app.acquire_token_by_auth_code_flow(flow, answer["form"])["error"] == "access_denied"


async def test_the_published_key_verifies_the_id_token(sandbox: Sandbox, program: Program) -> None:
    body = (await program.redeem(await program.code())).json()
    document = (
        await program.http.get(f"{sandbox.delegated['authority']}/v2.0/.well-known/openid-configuration")
    ).json()
    keys = jwt.PyJWKSet.from_dict((await program.http.get(document["jwks_uri"])).json())
    key = keys[jwt.get_unverified_header(body["id_token"])["kid"]]
    said = jwt.decode(body["id_token"], key, ["RS256"], audience=program.client_id, issuer=document["issuer"])
    assert (said["nonce"], said["ver"], said["name"]) == ("the nonce", "2.0", "Alice Example")
    again = (await program.redeem(await program.code(), client_info="1")).json()
    assert claims_of(again["id_token"])["sub"] == said["sub"] != claims_of(again["access_token"])["sub"]
    assert "client_info" in again
    assert "client_info" not in body


async def test_a_guest_signs_in_as_the_object_in_the_tenant(sandbox: Sandbox) -> None:
    app, carol = application(sandbox), sandbox.people["carol"]
    result = await signed_in(sandbox, app, "carol")
    assert result["id_token_claims"]["oid"] == carol["guest_id"]
    assert result["id_token_claims"]["preferred_username"] == carol["upn"]
    assert app.get_accounts()[0]["home_account_id"] == f"{carol['id']}.{carol['tenant_id']}"


@pytest.mark.parametrize("anyone", ["organizations", "common"])
async def test_without_a_tenant_people_sign_in_at_home(sandbox: Sandbox, anyone: str) -> None:
    app, carol = application(sandbox, anyone), sandbox.people["carol"]
    result = await signed_in(sandbox, app, "carol")
    assert (result["id_token_claims"]["oid"], result["id_token_claims"]["tid"]) == (carol["id"], carol["tenant_id"])
    account = app.get_accounts()[0]
    assert "access_token" in app.acquire_token_silent(SCOPES, account=account, force_refresh=True)


# Graph, for a person


async def test_graph_serves_the_person_who_signed_in(sandbox: Sandbox, context: ssl.SSLContext) -> None:
    people = sandbox.people
    token = (await signed_in(sandbox, application(sandbox)))["access_token"]
    said = await sandbox.say("bob", "Hello Alice", chat=(await sandbox.create_chat("bob", ["alice"]))["id"])
    headers, base = {"Authorization": f"Bearer {token}"}, sandbox.environment["ENTRABOT_GRAPH_URL"] + "/v1.0"
    async with httpx.AsyncClient(base_url=base, headers=headers, verify=context, trust_env=False) as graph:
        assert (await graph.get("/me")).json()["id"] == people["alice"]["id"]
        assert (await graph.get(f"/users/{people['bob']['id']}")).json()["displayName"] == "Bob Example"
        chats = (await graph.get("/me/chats")).json()["value"]
        assert [chat["id"] for chat in chats] == [said["chatId"]]
        sent = await graph.post(f"/chats/{said['chatId']}/messages", json={"body": {"content": "Hello Bob"}})
        assert sent.json()["from"]["user"]["id"] == people["alice"]["id"]
        members = [member(people[key]["id"]) for key in ("alice", "agent")]
        made = await graph.post("/chats", json={"chatType": "oneOnOne", "members": members})
        assert made.status_code == 201
        letter = {"subject": "Lunch", "toRecipients": [{"emailAddress": {"address": people["bob"]["mail"]}}]}
        assert (await graph.post("/me/sendMail", json={"message": letter})).status_code == 202
        kept = (await graph.get("/me/mailFolders/sentitems/messages")).json()["value"]
        assert [mail["from"]["emailAddress"]["address"] for mail in kept] == [people["alice"]["mail"]]
        put = await graph.put("/me/drive/root:/a.txt:/content", content=b"abc", headers={"Content-Type": "text/plain"})
        assert put.json()["createdBy"]["user"]["id"] == people["alice"]["id"]
        sponsors = f"/servicePrincipals/{sandbox.environment['ENTRABOT_AGENT_OBJECT_ID']}"
        denied = await graph.get(f"{sponsors}/microsoft.graph.agentIdentity/sponsors")
        assert denied.status_code == 403
    seen = await sandbox.messages(said["chatId"], sender="alice")
    assert [message["body"]["content"] for message in seen] == ["Hello Bob"]


# Codes


async def test_a_code_is_good_once(program: Program) -> None:
    code = await program.code()
    assert (await program.redeem(code)).status_code == 200
    assert refusal(await program.redeem(code)) == (400, "invalid_grant", 54005)


async def test_a_code_is_good_for_ten_minutes(sandbox: Sandbox, program: Program) -> None:
    code = await program.code()
    await sandbox.set_clock(601)
    assert refusal(await program.redeem(code)) == (400, "invalid_grant", 70008)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"code_verifier": "x" * 43}, (400, "invalid_grant", 501481)),
        ({"code_verifier": None}, (400, "invalid_grant", 501481)),
        ({"redirect_uri": "http://localhost:8401"}, (400, "invalid_grant", 500112)),
        ({"code": "1.unknown"}, (400, "invalid_grant", 9002313)),
        ({"code": None}, (400, "invalid_request", 900144)),
        ({"tenant": "organizations"}, (400, "invalid_grant", 700005)),
        ({"client_secret": "secret"}, (401, "invalid_client", 700025)),
        ({"client_id": "11111111-1111-1111-1111-111111111111"}, (400, "unauthorized_client", 700016)),
        ({"grant_type": "client_credentials"}, (401, "invalid_client", 7000218)),
    ],
)
async def test_a_code_that_does_not_fit_is_refused(
    program: Program, changes: dict[str, Any], expected: tuple[int, str, int]
) -> None:
    assert refusal(await program.redeem(**{"code": await program.code(), **changes})) == expected


async def test_a_refused_attempt_does_not_use_the_code_up(program: Program) -> None:
    code = await program.code()
    assert (await program.redeem(code, code_verifier="x" * 43)).status_code == 400
    assert (await program.redeem(code)).status_code == 200


# Authorization requests


@pytest.mark.parametrize(
    "redirect", ["http://localhost", "http://localhost/", "http://localhost:65535", "http://LOCALHOST:1/"]
)
async def test_any_port_of_localhost_is_registered(sandbox: Sandbox, program: Program, redirect: str) -> None:
    answer = await sandbox.sign_in(program.authorize(redirect_uri=redirect), "alice")
    assert answer["url"].startswith(f"{redirect.rstrip('/')}/?")
    code = query_of(answer["url"])["code"]
    assert (await program.redeem(code, redirect_uri=redirect)).status_code == 200


@pytest.mark.parametrize(
    ("changes", "number"),
    [
        ({"redirect_uri": "https://localhost:8400"}, 50011),
        ({"redirect_uri": "http://127.0.0.1:8400"}, 50011),
        ({"redirect_uri": "http://localhost:8400/other"}, 50011),
        ({"redirect_uri": "http://localhost@evil.example"}, 50011),
        ({"redirect_uri": "http://localhost.evil.example"}, 50011),
        ({"redirect_uri": "http://localhost:65536"}, 50011),
        ({"redirect_uri": "http://localhost:8400/\n"}, 50011),
        ({"redirect_uri": "javascript:alert(1)"}, 50011),
        ({"redirect_uri": None}, 50011),
        ({"client_id": "11111111-1111-1111-1111-111111111111"}, 700016),
        ({"client_id": None}, 900144),
        ({"tenant": "nowhere.example"}, 90002),
        ({"tenant": "consumers"}, 50194),
    ],
)
async def test_an_answer_goes_nowhere_but_to_a_known_address(
    program: Program, changes: dict[str, Any], number: int
) -> None:
    response = await program.http.get(program.authorize(**changes))
    assert response.status_code == 400
    assert f"AADSTS{number}: " in response.text
    assert "<form" not in response.text
    assert "set-cookie" not in response.headers


async def test_a_parameter_twice_is_refused(program: Program) -> None:
    response = await program.http.get(program.authorize() + "&redirect_uri=http://localhost:9")
    assert (response.status_code, "AADSTS9000411: " in response.text) == (400, True)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"response_type": "token"}, ("unsupported_response_type", "AADSTS700054")),
        ({"response_mode": "web_message"}, ("invalid_request", "AADSTS70007")),
        ({"scope": None}, ("invalid_request", "AADSTS900144")),
        ({"scope": "https://unknown.example/.default"}, ("invalid_resource", "AADSTS500011")),
        ({"code_challenge": None}, ("invalid_request", "AADSTS501491")),
        ({"code_challenge_method": "plain"}, ("invalid_request", "AADSTS501491")),
        ({"prompt": "often"}, ("invalid_request", "AADSTS90023")),
        ({"prompt": "none"}, ("login_required", "AADSTS50058")),
    ],
)
async def test_other_mistakes_are_told_to_the_program(
    program: Program, changes: dict[str, Any], expected: tuple[str, str]
) -> None:
    response = await program.http.get(program.authorize(**changes))
    assert response.status_code == 302
    assert told(response.headers["location"]) == expected


async def test_cancelling_and_missing_consent_are_told_to_the_program(sandbox: Sandbox, program: Program) -> None:
    cancelled = await sandbox.sign_in(program.authorize(), "alice", cancel=True)
    assert told(cancelled["url"]) == ("access_denied", "AADSTS65004")
    await sandbox.settings(user_consent=False)
    assert "code=" in (await sandbox.sign_in(program.authorize(), "alice"))["url"]
    more = await sandbox.sign_in(program.authorize(scope=f"{GRAPH}/Team.Create"), "alice")
    assert told(more["url"]) == ("consent_required", "AADSTS65001")


@pytest.mark.parametrize("mode", ["query", "fragment", "form_post"])
async def test_the_answer_comes_in_the_way_that_was_asked_for(sandbox: Sandbox, program: Program, mode: str) -> None:
    answer = await sandbox.sign_in(program.authorize(response_mode=mode, client_info="1"), "alice")
    address, separator, _ = answer["url"].partition("#" if mode == "fragment" else "?")
    assert address.rstrip("/") == REDIRECT
    fields = answer["form"] if mode == "form_post" else query_of(f"x?{answer['url'].partition(separator)[2]}")
    assert set(fields) == {"code", "state", "client_info", "session_state"}
    assert fields["state"] == "the state"


# Consent


async def test_accepting_consents_to_what_was_asked_beyond(sandbox: Sandbox, program: Program) -> None:
    await sandbox.grant("graph", app="delegated", scopes=["User.Read"])
    body = (await program.redeem(await program.code(scope=f"{SCOPES[0]} offline_access"))).json()
    assert claims_of(body["access_token"])["scp"].split() == ["User.Read", "Chat.ReadWrite"]
    other = await program.redeem(await program.code("bob", scope=f"{GRAPH}/User.Read offline_access"))
    refused = await program.refresh(other.json()["refresh_token"], SCOPES[0])
    assert refusal(refused) == (400, "invalid_grant", 65001)
    assert refused.json()["suberror"] == "consent_required"
    await sandbox.grant("graph", app="delegated", scopes=None)
    assert refusal(await program.refresh(body["refresh_token"], SCOPES[0])) == (400, "invalid_grant", 65001)


async def test_the_default_scope_asks_for_what_the_application_declares(sandbox: Sandbox, program: Program) -> None:
    await sandbox.grant("storage", app="delegated", scopes=None)
    first = (await program.redeem(await program.code())).json()
    assert refusal(await program.refresh(first["refresh_token"], STORAGE)) == (400, "invalid_grant", 65001)
    body = (await program.redeem(await program.code(scope=STORAGE))).json()
    assert body["scope"].split() == ["https://storage.azure.com/user_impersonation", STORAGE]
    assert (await program.refresh(first["refresh_token"], STORAGE)).status_code == 200


async def test_the_agents_own_grants_are_other_grants(sandbox: Sandbox, program: Program) -> None:
    await sandbox.grant("graph", scopes=None)
    assert (await program.redeem(await program.code())).status_code == 200


# Refresh tokens


async def test_a_used_refresh_token_stays_good_unless_it_is_to_be_revoked(sandbox: Sandbox, program: Program) -> None:
    token = (await program.redeem(await program.code())).json()["refresh_token"]
    answers = [await program.refresh(token, SCOPES[0]) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert len({token, *(answer.json()["refresh_token"] for answer in answers)}) == 3
    await sandbox.settings(refresh_rotation="revoke")
    assert refusal(await program.refresh(token, f"{GRAPH}/Team.Create")) == (400, "invalid_grant", 65001)
    fresh = (await program.refresh(token, SCOPES[0])).json()["refresh_token"]
    assert refusal(await program.refresh(token, SCOPES[0])) == (400, "invalid_grant", 70000)
    assert (await program.refresh(fresh, SCOPES[0])).status_code == 200


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("expired", (400, "invalid_grant", 700082)),
        ("revoked", (400, "invalid_grant", 50173)),
        ("interaction_required", (400, "interaction_required", 50076)),
    ],
)
async def test_a_spoilt_refresh_token_is_refused(
    sandbox: Sandbox, program: Program, state: str, expected: tuple[int, str, int]
) -> None:
    alices = (await program.redeem(await program.code())).json()["refresh_token"]
    bobs = (await program.redeem(await program.code("bob"))).json()["refresh_token"]
    assert await sandbox.spoil_refresh_tokens(state, "alice") == 1
    refused = await program.refresh(alices, SCOPES[0])
    assert refusal(refused) == expected
    assert ("claims" in refused.json()) == (state == "interaction_required")
    assert (await program.refresh(bobs, SCOPES[0])).status_code == 200
    anew = (await program.redeem(await program.code())).json()["refresh_token"]
    assert (await program.refresh(anew, SCOPES[0])).status_code == 200


async def test_a_refresh_token_lives_ninety_days_and_serves_its_own_application(
    sandbox: Sandbox, program: Program
) -> None:
    token = (await program.redeem(await program.code())).json()["refresh_token"]
    assert refusal(await program.refresh(token, SCOPES[0], "fabrikam.example")) == (400, "invalid_grant", 50020)
    assert (await program.refresh(token, SCOPES[0], "organizations")).status_code == 200
    await sandbox.set_clock(90 * 86400 + 1)
    assert refusal(await program.refresh(token, SCOPES[0])) == (400, "invalid_grant", 700082)


async def test_expiring_everything_expires_refresh_tokens(sandbox: Sandbox, program: Program) -> None:
    token = (await program.redeem(await program.code())).json()["refresh_token"]
    await sandbox.expire_tokens(all=True)
    assert refusal(await program.refresh(token, SCOPES[0])) == (400, "invalid_grant", 700082)


# Device codes


async def test_a_device_waits_until_somebody_decides(sandbox: Sandbox, program: Program) -> None:
    await sandbox.settings(device_interval=5)
    begun = (await program.begin_device()).json()
    assert (begun["expires_in"], begun["interval"]) == (900, 5)
    assert refusal(await program.poll(begun["device_code"]))[1:] == ("authorization_pending", 70016)
    assert refusal(await program.poll(begun["device_code"]))[1] == "slow_down"
    await sandbox.set_clock(6)
    assert refusal(await program.poll(begun["device_code"]))[1] == "authorization_pending"
    await sandbox.enter_code(begun["user_code"], "alice")
    body = (await program.poll(begun["device_code"])).json()
    assert claims_of(body["access_token"])["oid"] == sandbox.people["alice"]["id"]
    assert "refresh_token" in body
    assert refusal(await program.poll(begun["device_code"]))[1:] == ("bad_verification_code", 70018)


async def test_a_device_hears_of_refusal_and_of_lateness(sandbox: Sandbox, program: Program) -> None:
    declined, late = [(await program.begin_device()).json() for _ in range(2)]
    await sandbox.enter_code(declined["user_code"], "alice", decline=True)
    assert refusal(await program.poll(declined["device_code"]))[1:] == ("authorization_declined", 65004)
    await sandbox.set_clock(901)
    assert refusal(await program.poll(late["device_code"]))[1:] == ("expired_token", 70020)
    with pytest.raises(SandboxError, match="no such code"):
        await sandbox.enter_code(late["user_code"], "alice")
    assert refusal(await program.poll("unknown"))[1:] == ("bad_verification_code", 70018)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"tenant": "common"}, (400, "invalid_request", 90133)),
        ({"tenant": "nowhere.example"}, (400, "invalid_request", 90002)),
        ({"client_id": "11111111-1111-1111-1111-111111111111"}, (400, "unauthorized_client", 700016)),
        ({"scope": None}, (400, "invalid_request", 900144)),
        ({"scope": "openid"}, (400, "invalid_scope", 70011)),
    ],
)
async def test_a_bad_request_for_a_device_code_is_refused(
    program: Program, changes: dict[str, Any], expected: tuple[int, str, int]
) -> None:
    assert refusal(await program.begin_device(**changes)) == expected


async def test_nobody_signs_in_where_they_do_not_belong(sandbox: Sandbox, program: Program) -> None:
    code = (await program.begin_device()).json()["user_code"]
    with pytest.raises(SandboxError, match="no sign-in of its own"):
        await sandbox.enter_code(code, "agent")
    with pytest.raises(SandboxError, match="does not exist in tenant"):
        await sandbox.enter_code(code, "mallory")
    anywhere = (await program.begin_device("organizations")).json()["user_code"]
    await sandbox.enter_code(anywhere, "mallory")


# The control API


async def test_the_control_api_says_what_it_does_not_understand(sandbox: Sandbox) -> None:
    for method, path, body in (
        ("POST", "/device", {"user_code": "AAAAAAAAA", "as": "alice"}),
        ("POST", "/refresh-tokens", {"state": "tired"}),
        ("PUT", "/settings", {"refresh_rotation": "sometimes"}),
        ("PUT", "/settings", {"device_interval": "5"}),
        ("PUT", "/grants", {"resource": "graph", "app": "other", "scopes": []}),
    ):
        with pytest.raises(SandboxError):
            await sandbox.call(method, path, body)


async def test_no_secret_is_recorded(sandbox: Sandbox, program: Program) -> None:
    code = await program.code()
    token = (await program.redeem(code)).json()["refresh_token"]
    await program.refresh(token, SCOPES[0])
    begun = (await program.begin_device()).json()
    await program.poll(begun["device_code"])
    recorded = str(await sandbox.requests())
    assert "/oauth2/v2.0/authorize" in recorded
    for secret in (code, token, program.verifier, begun["device_code"], begun["user_code"]):
        assert secret not in recorded
