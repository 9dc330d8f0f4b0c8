"""Authentication, permissions, people and sponsors."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from email.utils import parsedate_to_datetime
from urllib.parse import quote

import httpx
import pytest
from entrabot_sandbox.client import Sandbox

from tests.sandbox.wire import Entra, error

IDS = "id,displayName,userPrincipalName,mail,otherMails,proxyAddresses,identities,userType"


@pytest.fixture
async def app(sandbox: Sandbox, context: ssl.SSLContext, entra: Entra) -> AsyncIterator[httpx.AsyncClient]:
    """Graph, with the agent identity's own token."""
    headers = {"Authorization": f"Bearer {await entra.app_token()}"}
    base = sandbox.environment["ENTRABOT_GRAPH_URL"] + "/v1.0"
    async with httpx.AsyncClient(base_url=base, headers=headers, verify=context, trust_env=False) as http:
        yield http


def sponsors_path(sandbox: Sandbox) -> str:
    agent = sandbox.environment["ENTRABOT_AGENT_OBJECT_ID"]
    return f"/servicePrincipals/{agent}/microsoft.graph.agentIdentity/sponsors"


async def test_every_call_needs_a_good_token(graph: httpx.AsyncClient, sandbox: Sandbox, entra: Entra) -> None:
    wrong = ["", "Bearer", "Basic x", "Bearer nonsense", f"Bearer {await entra.t1()}"]
    wrong.append(f"Bearer {await entra.user_token(scope='https://storage.azure.com/.default')}")
    good = graph.headers["Authorization"]
    wrong.append(good[:-8] + "AAAAAAAA")
    for authorization in wrong:
        response = await graph.get("/me", headers={"Authorization": authorization})
        assert error(response) == (401, "InvalidAuthenticationToken"), authorization
        assert response.headers["WWW-Authenticate"].startswith("Bearer ")
    assert (await graph.get("/me")).status_code == 200


async def test_tokens_expire_by_the_services_clock(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    await sandbox.set_clock(3500)
    early = await graph.get("/me")
    assert early.status_code == 200
    await sandbox.set_clock(5401)
    late = await graph.get("/me")
    assert error(late) == (401, "InvalidAuthenticationToken")
    passed = parsedate_to_datetime(late.headers["Date"]) - parsedate_to_datetime(early.headers["Date"])
    assert 1900 <= passed.total_seconds() <= 1910


async def test_all_tokens_can_be_made_to_expire(graph: httpx.AsyncClient, sandbox: Sandbox, entra: Entra) -> None:
    t1 = await entra.t1()
    await sandbox.expire_tokens()
    response = await graph.get("/me")
    assert error(response) == (401, "InvalidAuthenticationToken")
    assert response.json()["error"]["message"] == "Access token has expired or is not yet valid."
    assert (await entra.hop2(t1)).status_code == 200
    await sandbox.expire_tokens(all=True)
    assert (await entra.hop2(t1)).json()["error_codes"] == [700024]
    renewed = {"Authorization": f"Bearer {await entra.user_token()}"}
    assert (await graph.get("/me", headers=renewed)).status_code == 200


async def test_the_token_lifetime_can_be_set(entra: Entra, sandbox: Sandbox) -> None:
    await sandbox.settings(token_lifetime=600)
    assert (await entra.hop1()).json()["expires_in"] == 600


async def test_answers_carry_their_ids(graph: httpx.AsyncClient) -> None:
    own = "12121212-3434-5656-7878-909090909090"
    for path in ("/me", "/chats/19:none@thread.v2"):
        response = await graph.get(path, headers={"client-request-id": own})
        assert response.headers["client-request-id"] == own
        assert response.headers["request-id"] not in ("", own)
    assert response.json()["error"]["innerError"]["client-request-id"] == own


async def test_paths_that_lead_nowhere(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    assert error(await graph.get("/nothing")) == (400, "BadRequest")
    assert error(await graph.get("/me/events")) == (501, "NotImplemented")
    chat = (await sandbox.say("alice", "hello"))["chatId"]
    assert error(await graph.patch(f"/chats/{chat}", json={"topic": "x"})) == (501, "NotImplemented")
    assert error(await graph.delete("/me")) == (405, "MethodNotAllowed")
    beta = str(graph.base_url).replace("v1.0", "beta")
    assert error(await graph.get(f"{beta}me")) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("scope", "allowed"),
    [
        ("Chat.ReadBasic", {"list", "get", "members"}),
        ("Chat.Read", {"list", "get", "members", "read"}),
        ("ChatMessage.Send", {"send"}),
        ("Chat.Create", {"create"}),
        ("ChatMember.Read", {"members"}),
        ("ChatMember.ReadWrite", {"members", "add"}),
        ("Chat.ReadWrite", {"list", "get", "members", "read", "send", "create", "add", "edit", "delete"}),
        ("User.Read", set()),
    ],
)
async def test_each_call_needs_its_scope(
    graph: httpx.AsyncClient, sandbox: Sandbox, entra: Entra, scope: str, allowed: set[str]
) -> None:
    chat = (await sandbox.create_chat("alice", ["agent"], topic="x"))["id"]
    sent = await graph.post(f"/chats/{chat}/messages", json={"body": {"content": "x"}})
    message = f"chats/{chat}/messages/{sent.json()['id']}"
    await sandbox.grant(scopes=[scope])
    headers = {"Authorization": f"Bearer {await entra.user_token()}"}
    calls = {
        "list": ("GET", "/me/chats", None),
        "get": ("GET", f"/chats/{chat}", None),
        "members": ("GET", f"/chats/{chat}/members", None),
        "read": ("GET", f"/chats/{chat}/messages", None),
        "send": ("POST", f"/chats/{chat}/messages", {"body": {"content": "x"}}),
        "create": ("POST", "/chats", {}),
        "add": ("POST", f"/chats/{chat}/members", {}),
        "edit": ("PATCH", f"/{message}", {"body": {"content": "y"}}),
        "delete": ("POST", f"/me/{message}/softDelete", None),
    }
    passed = set()
    for name, (method, path, body) in calls.items():
        response = await graph.request(method, path, json=body, headers=headers)
        if response.status_code != 403:
            passed.add(name)
        else:
            assert error(response) == (403, "Forbidden")
    assert passed == allowed


async def test_the_agent_is_itself(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    me = (await graph.get("/me")).json()
    agent = sandbox.people["agent"]
    assert (me["id"], me["userPrincipalName"], me["mail"]) == (agent["id"], agent["upn"], agent["mail"])
    assert set(me) >= {"businessPhones", "givenName", "jobTitle", "surname", "preferredLanguage"}
    chosen = (await graph.get("/me", params={"$select": "displayName,otherMails"})).json()
    assert {name: value for name, value in chosen.items() if "@" not in name} == {
        "displayName": "Sati Agent",
        "otherMails": [],
    }
    assert error(await graph.get("/me", params={"$select": "id,shoeSize"})) == (400, "BadRequest")
    assert error(await graph.get("/me", params={"$expand": "manager"})) == (400, "BadRequest")


async def test_people_are_found_by_id_and_name(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    alice = sandbox.people["alice"]
    for reference in (alice["id"], alice["upn"].upper()):
        assert (await graph.get(f"/users/{reference}")).json()["id"] == alice["id"]
    for reference in ("nobody@contoso.example", sandbox.people["carol"]["id"], "carol@fabrikam.example"):
        assert error(await graph.get(f"/users/{reference}")) == (404, "Request_ResourceNotFound")


async def test_a_guest_shows_where_he_is_from(graph: httpx.AsyncClient, sandbox: Sandbox) -> None:
    carol = sandbox.people["carol"]
    assert carol["guest_upn"] == "carol_fabrikam.example#EXT#@contoso.onmicrosoft.example"
    for reference in (carol["guest_id"], quote(carol["guest_upn"], safe="")):
        guest = (await graph.get(f"/users/{reference}", params={"$select": IDS})).json()
        assert (guest["id"], guest["userType"], guest["mail"]) == (carol["guest_id"], "Guest", None)
        assert guest["otherMails"] == ["carol@fabrikam.example"]
        assert guest["proxyAddresses"] == ["SMTP:carol@fabrikam.example"]
        assert guest["identities"][0] == {
            "signInType": "federated",
            "issuer": "ExternalAzureAD",
            "issuerAssignedId": "carol@fabrikam.example",
        }


async def test_less_permission_shows_less(graph: httpx.AsyncClient, sandbox: Sandbox, entra: Entra) -> None:
    alice, agent = sandbox.people["alice"]["id"], sandbox.people["agent"]["id"]
    await sandbox.grant(scopes=["User.Read"])
    headers = {"Authorization": f"Bearer {await entra.user_token()}"}
    assert (await graph.get("/me", headers=headers)).status_code == 200
    assert (await graph.get(f"/users/{agent}", headers=headers)).status_code == 200
    assert error(await graph.get(f"/users/{alice}", headers=headers)) == (403, "Authorization_RequestDenied")
    await sandbox.grant(scopes=["User.ReadBasic.All"])
    headers = {"Authorization": f"Bearer {await entra.user_token()}"}
    shown = (await graph.get(f"/users/{alice}", params={"$select": IDS}, headers=headers)).json()
    assert (shown["mail"], shown["proxyAddresses"], shown["userType"]) == ("alice@contoso.example", [], None)


async def test_sponsors_are_ids_and_nothing_more(app: httpx.AsyncClient, sandbox: Sandbox) -> None:
    rows = (await app.get(sponsors_path(sandbox), params={"$select": "id,displayName,mail"})).json()["value"]
    people = sandbox.people
    assert [row["id"] for row in rows] == [people["alice"]["id"], people["carol"]["guest_id"]]
    for row in rows:
        assert row["@odata.type"] == "#microsoft.graph.user"
        assert not any(value for name, value in row.items() if name not in ("id", "@odata.type"))


async def test_a_sponsor_may_be_a_group(app: httpx.AsyncClient, sandbox: Sandbox) -> None:
    group = await sandbox.add_group("Robot wranglers")
    await sandbox.set_sponsors([group["id"], "bob", "mallory"])
    first = (await app.get(sponsors_path(sandbox), params={"$top": "2"})).json()
    assert [row["@odata.type"] for row in first["value"]] == ["#microsoft.graph.group", "#microsoft.graph.user"]
    assert first["value"][0]["id"] == group["id"]
    rest = (await app.get(first["@odata.nextLink"])).json()
    assert "@odata.nextLink" not in rest
    state = await sandbox.state()
    assert rest["value"][0]["id"] == state["people"]["mallory"]["guest_id"]
    assert state["people"]["bob"]["sponsor"] is True
    assert state["people"]["alice"]["sponsor"] is False


async def test_sponsors_are_not_for_users(graph: httpx.AsyncClient, app: httpx.AsyncClient, sandbox: Sandbox) -> None:
    assert error(await graph.get(sponsors_path(sandbox))) == (403, "Authorization_RequestDenied")
    other = sponsors_path(sandbox).replace(
        sandbox.environment["ENTRABOT_AGENT_OBJECT_ID"], sandbox.environment["ENTRABOT_AGENT_ID"]
    )
    assert error(await app.get(other)) == (404, "Request_ResourceNotFound")


async def test_sponsors_need_the_role(app: httpx.AsyncClient, sandbox: Sandbox, entra: Entra) -> None:
    await sandbox.grant(roles=[])
    headers = {"Authorization": f"Bearer {await entra.app_token()}"}
    assert error(await app.get(sponsors_path(sandbox), headers=headers)) == (403, "Authorization_RequestDenied")


async def test_an_application_has_no_chats(app: httpx.AsyncClient, sandbox: Sandbox) -> None:
    chat = (await sandbox.say("alice", "hello"))["chatId"]
    assert error(await app.get("/me")) == (400, "BadRequest")
    assert error(await app.get("/me/chats")) == (400, "BadRequest")
    assert error(await app.get(f"/chats/{chat}/messages")) == (403, "Forbidden")
    assert error(await app.post(f"/chats/{chat}/messages", json={"body": {"content": "x"}})) == (403, "Forbidden")
