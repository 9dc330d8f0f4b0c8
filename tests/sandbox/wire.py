"""What the tests of the sandbox say and expect on the wire."""

from __future__ import annotations

import base64
import functools
import hashlib
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import jwt
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from entrabot_sandbox.client import Sandbox

EXCHANGE = "api://AzureADTokenExchange/.default"
GRAPH = "https://graph.microsoft.com/.default"
JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

Json = dict[str, Any]


class Entra:
    """The token endpoint, spoken to by hand; ``identity`` may be replaced by another blueprint's ids."""

    def __init__(self, sandbox: Sandbox, http: httpx.AsyncClient) -> None:
        env = sandbox.environment
        self.http = http
        self.url = f"{env['ENTRABOT_LOGIN_URL']}/{env['ENTRABOT_TENANT_ID']}/oauth2/v2.0/token"
        self.blueprint = env["ENTRABOT_BLUEPRINT_APP_ID"]
        self.agent = env["ENTRABOT_AGENT_ID"]
        self.user = env["ENTRABOT_AGENT_USER_ID"]
        self.pem = Path(env["ENTRABOT_BLUEPRINT_CERT_FILE"]).read_bytes()

    def assertion(self, *, pem: bytes = b"", key: bytes = b"", alg: str = "PS256", x5t: str = "", **claims: Any) -> str:
        certificate = x509.load_pem_x509_certificate(pem or self.pem)
        der = certificate.public_bytes(serialization.Encoding.DER)
        sha256 = base64.urlsafe_b64encode(hashlib.sha256(der).digest()).decode()
        sha1 = base64.urlsafe_b64encode(hashlib.sha1(der).digest()).decode().rstrip("=")
        headers = {
            "": {"x5t#S256": sha256.rstrip("=")},
            "padded": {"x5t#S256": sha256},
            "sha1": {"x5t": sha1},
            "none": {},
        }[x5t]
        now = time.time()
        standard = {
            "aud": self.url,
            "iss": self.blueprint,
            "sub": self.blueprint,
            "jti": str(uuid4()),
            "iat": now,
            "exp": now + 600,
        }
        payload = {name: value for name, value in {**standard, **claims}.items() if value is not None}
        return jwt.encode(payload, private_key(key or pem or self.pem), alg, headers)

    async def post(self, url: str | None = None, **form: str | None) -> httpx.Response:
        given = {name: value for name, value in form.items() if value is not None}
        return await self.http.post(url or self.url, data=given)

    async def hop1(self, assertion: str | None = None, **changes: str | None) -> httpx.Response:
        form: dict[str, str | None] = {
            "client_id": self.blueprint,
            "grant_type": "client_credentials",
            "scope": EXCHANGE,
            "fmi_path": self.agent,
            "client_assertion_type": JWT_BEARER,
            "client_assertion": assertion or self.assertion(),
        }
        return await self.post(**form | changes)

    async def hop2(self, t1: str, **changes: str | None) -> httpx.Response:
        form: dict[str, str | None] = {
            "client_id": self.agent,
            "grant_type": "client_credentials",
            "scope": EXCHANGE,
            "client_assertion_type": JWT_BEARER,
            "client_assertion": t1,
        }
        return await self.post(**form | changes)

    async def hop3(self, t1: str, t2: str, **changes: str | None) -> httpx.Response:
        form: dict[str, str | None] = {
            "client_id": self.agent,
            "grant_type": "user_fic",
            "scope": GRAPH,
            "client_assertion_type": JWT_BEARER,
            "client_assertion": t1,
            "user_federated_identity_credential": t2,
            "user_id": self.user,
        }
        return await self.post(**form | changes)

    async def t1(self, **changes: str | None) -> str:
        return token(await self.hop1(**changes))

    async def user_token(self, **changes: str | None) -> str:
        t1 = await self.t1()
        return token(await self.hop3(t1, token(await self.hop2(t1)), **changes))

    async def app_token(self) -> str:
        return token(await self.hop2(await self.t1(), scope=GRAPH))


@functools.cache
def private_key(pem: bytes) -> Any:
    """The key of a PEM; its arithmetic isn't checked, which takes longer than all three hops."""
    return serialization.load_pem_private_key(pem, None, unsafe_skip_rsa_key_validation=True)


def token(response: httpx.Response) -> str:
    assert response.status_code == 200, response.text
    return str(response.json()["access_token"])


class Bindings:
    """Members as a client writes them when it creates a chat."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.people = sandbox.people

    def of(self, key: str) -> Json:
        """A person by home object id, with the tenant if it is another one."""
        person = self.people[key]
        extra = {} if person["tenant"] == "contoso" else {"tenantId": person["tenant_id"]}
        return member(person["id"], **extra)


def member(reference: str, roles: tuple[str, ...] = ("owner",), **extra: str) -> Json:
    return {
        "@odata.type": "#microsoft.graph.aadUserConversationMember",
        "roles": list(roles),
        "user@odata.bind": f"https://graph.microsoft.com/v1.0/users('{reference}')",
        **extra,
    }


def error(response: httpx.Response) -> tuple[int, str]:
    """Status and code of a refusal by Graph, its envelope checked."""
    body = response.json()["error"]
    assert body["message"]
    inner = body["innerError"]
    assert inner["request-id"] == response.headers["request-id"]
    assert set(inner) == {"date", "request-id", "client-request-id"}
    assert not inner["date"].endswith("Z")
    return response.status_code, body["code"]
