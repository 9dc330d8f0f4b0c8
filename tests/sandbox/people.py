"""People who sign in to an application themselves: MSAL as that application, and its requests written by hand."""

from __future__ import annotations

import base64
import hashlib
import secrets
import ssl
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import jwt
import msal
import requests
from entrabot_sandbox.client import Sandbox

Json = dict[str, Any]

REDIRECT = "http://localhost:8400"
DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
SCOPES = ["https://graph.microsoft.com/Chat.ReadWrite", "https://graph.microsoft.com/User.Read"]


def application(sandbox: Sandbox, tenant: str = "") -> msal.PublicClientApplication:
    """MSAL, with a cache of its own."""
    session = requests.Session()
    session.trust_env = False
    session.verify = sandbox.environment["ENTRABOT_CA_BUNDLE"]
    authority = f"{sandbox.environment['ENTRABOT_LOGIN_URL']}/{tenant}" if tenant else sandbox.delegated["authority"]
    return msal.PublicClientApplication(
        sandbox.delegated["client_id"], authority=authority, http_client=session, instance_discovery=False
    )


async def signed_in(sandbox: Sandbox, app: msal.PublicClientApplication, person: str = "alice") -> Json:
    """Somebody signs in to MSAL, on the page; returns MSAL's result."""
    flow = app.initiate_auth_code_flow(SCOPES, redirect_uri=REDIRECT, response_mode="form_post")
    answer = await sandbox.sign_in(flow["auth_uri"], person)
    return dict(app.acquire_token_by_auth_code_flow(flow, answer["form"]))


def claims_of(token: str) -> Json:
    """What a token says, unchecked."""
    return dict(jwt.decode(token, options={"verify_signature": False}))


class Program:
    """An application that writes its requests itself. ``http`` is its way to the token endpoint, and a browser's."""

    def __init__(self, sandbox: Sandbox, http: httpx.AsyncClient) -> None:
        self.sandbox = sandbox
        self.http = http
        self.base = sandbox.environment["ENTRABOT_LOGIN_URL"]
        self.client_id = sandbox.delegated["client_id"]
        self.tenant = sandbox.environment["ENTRABOT_TENANT_ID"]
        self.verifier = secrets.token_urlsafe(48)

    @classmethod
    def connection(cls, sandbox: Sandbox) -> httpx.AsyncClient:
        """A connection that keeps cookies, as a browser does."""
        context = ssl.create_default_context(cafile=sandbox.environment["ENTRABOT_CA_BUNDLE"])
        return httpx.AsyncClient(verify=context, trust_env=False)

    def authorize(self, tenant: str = "", **changes: str | None) -> str:
        """The address of the authorization page; None takes a parameter out."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        given: dict[str, str | None] = {
            "client_id": self.client_id,
            "response_type": "code",
            "redirect_uri": REDIRECT,
            "scope": " ".join([*SCOPES, "openid", "profile", "offline_access"]),
            "state": "the state",
            "nonce": "the nonce",
            "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        query = urlencode({name: value for name, value in (given | changes).items() if value is not None})
        return f"{self.base}/{tenant or self.tenant}/oauth2/v2.0/authorize?{query}"

    async def code(self, person: str = "alice", **changes: Any) -> str:
        """A code that somebody's sign-in brought."""
        answer = await self.sandbox.sign_in(self.authorize(**changes), person)
        return query_of(answer["url"])["code"]

    async def redeem(self, code: str, tenant: str = "", **changes: str | None) -> httpx.Response:
        """Exchange a code."""
        form: dict[str, str | None] = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": REDIRECT,
            "code_verifier": self.verifier,
        }
        return await self.token(tenant, **form | changes)

    async def refresh(self, refresh_token: str, scope: str, tenant: str = "") -> httpx.Response:
        """Exchange a refresh token."""
        form = {"grant_type": "refresh_token", "refresh_token": refresh_token, "scope": f"{scope} offline_access"}
        return await self.token(tenant, **form)

    async def begin_device(self, tenant: str = "", **changes: str | None) -> httpx.Response:
        """Ask for a device code."""
        form: dict[str, str | None] = {"client_id": self.client_id, "scope": f"{SCOPES[0]} offline_access"}
        given = {name: value for name, value in (form | changes).items() if value is not None}
        return await self.http.post(f"{self.base}/{tenant or self.tenant}/oauth2/v2.0/devicecode", data=given)

    async def poll(self, device_code: str) -> httpx.Response:
        """Ask whether a device code was entered."""
        return await self.token(grant_type=DEVICE_CODE, device_code=device_code)

    async def token(self, tenant: str = "", **form: str | None) -> httpx.Response:
        """Ask for a token."""
        given = {"client_id": self.client_id, **form}
        data = {name: value for name, value in given.items() if value is not None}
        return await self.http.post(f"{self.base}/{tenant or self.tenant}/oauth2/v2.0/token", data=data)


def query_of(address: str) -> dict[str, str]:
    """The answer in a redirect's query."""
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
