"""A sign-in service for people, in memory: discovery, device codes, refresh tokens that are good for one use."""

from __future__ import annotations

import base64
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from entrabot_host.auth.delegated import DelegatedProvider
from entrabot_host.auth.delegated_settings import DelegatedSettings
from entrabot_host.auth.entra import Entra
from entrabot_host.auth.token_store import TokenStore
from entrabot_host.security.clouds import CLOUDS

CLIENT = "00000000-0000-0000-0000-00000000c11e"
TENANT = "00000000-0000-0000-0000-00000000aaaa"
ALICE = "00000000-0000-0000-0000-0000000a11ce"
GRAPH = "https://graph.microsoft.com"
CLOUD = CLOUDS["global"]


def part(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def response(status: int, body: Any, **headers: str) -> requests.Response:
    found = requests.Response()
    found.status_code = status
    found._content = json.dumps(body).encode()
    found.headers.update({"Content-Type": "application/json", **headers})
    return found


def refusal(error: str, code: int) -> requests.Response:
    text = f"AADSTS{code}: no. Trace ID: x"
    return response(400, {"error": error, "error_description": text, "error_codes": [code]})


class PeopleEntra:
    """Answers in place of a `requests.Session`. ``requests`` lists what was asked, by the last part of the path."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.refresh_tokens: set[str] = set()
        self.used: set[str] = set()
        self.entered = False
        self.refuse: requests.Response | Exception | None = None
        self.verification_uri = "https://microsoft.com/devicelogin"
        self.user_code = "ABCD-1234"
        self.interval = 1
        self.expires_in = 900
        self.lifetime = 3600
        self.person = {"oid": ALICE, "tid": TENANT, "preferred_username": "alice@contoso.example", "name": "Alice"}
        self._lock = threading.Lock()
        self._device_scope = ""
        self.nonce = ""

    # --- what `requests.Session` has ---

    def get(self, url: str, **_: Any) -> requests.Response:
        host, tenant = urlsplit(url).netloc, url.split("/")[3]
        self._note("discovery", {"tenant": tenant})
        at = f"https://{host}/{tenant}/oauth2/v2.0"
        document = {"authorization_endpoint": f"{at}/authorize", "token_endpoint": f"{at}/token"}
        issuer = f"https://{host}/{TENANT}/v2.0"
        return response(200, {**document, "device_authorization_endpoint": f"{at}/devicecode", "issuer": issuer})

    def post(self, url: str, data: dict[str, Any] | None = None, **_: Any) -> requests.Response:
        asked = dict(data or {})
        if url.endswith("/devicecode"):
            return self._device_code(asked)
        with self._lock:
            return self._token(asked)

    def close(self) -> None:
        pass

    # --- endpoints ---

    def _device_code(self, asked: dict[str, Any]) -> requests.Response:
        self._note("devicecode", asked)
        self._device_scope = asked["scope"]
        if isinstance(self.refuse, requests.Response):
            return self.refuse
        body = {"device_code": "dc", "user_code": self.user_code, "verification_uri": self.verification_uri}
        return response(200, {**body, "interval": self.interval, "expires_in": self.expires_in, "message": "EVIL"})

    def _token(self, asked: dict[str, Any]) -> requests.Response:
        grant = asked["grant_type"].rpartition(":")[2]
        self._note(grant, asked)
        if isinstance(self.refuse, Exception):
            raise self.refuse
        if self.refuse is not None:
            return self.refuse
        if grant == "device_code" and not self.entered:
            return refusal("authorization_pending", 70016)
        if grant == "refresh_token":
            old = asked["refresh_token"]
            if old not in self.refresh_tokens:
                self.used.add(old)
                return refusal("invalid_grant", 70043)
            self.refresh_tokens.discard(old)
        return response(200, self._grant(asked))

    def _grant(self, asked: dict[str, Any]) -> dict[str, Any]:
        refresh = secrets.token_hex(8)
        self.refresh_tokens.add(refresh)
        person = {**self.person, "sub": "s", "aud": CLIENT, "exp": time.time() + 3600, "iss": "i", "iat": time.time()}
        if self.nonce:  # MSAL sends its digest and checks it in the id token
            person["nonce"] = self.nonce
        scopes = [one for one in asked.get("scope", self._device_scope).split() if "/" in one]
        return {
            "token_type": "Bearer",
            "scope": " ".join(scopes),
            "expires_in": self.lifetime,
            "access_token": f"at-{secrets.token_hex(8)}",
            "refresh_token": refresh,
            "id_token": f"{part({'alg': 'none'})}.{part(person)}.",
            "client_info": part({"uid": self.person["oid"], "utid": self.person["tid"]}),
        }

    # --- for tests ---

    def _note(self, what: str, data: dict[str, Any]) -> None:
        self.requests.append((what, data))

    def asked(self, what: str) -> list[dict[str, Any]]:
        return [data for name, data in self.requests if name == what]

    @contextmanager
    def in_place(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Entra, "_connect", lambda entra: self)
            yield

    def provider(self, folder: Path, *, tenant: str = TENANT, **changes: Any) -> DelegatedProvider:
        """A provider of its own, as another process would have it. Headless, unless ``changes`` say otherwise."""
        permissions = changes.pop("permissions", lambda: ["Chat.ReadWrite"])
        settings = DelegatedSettings.model_validate(
            {"ENTRABOT_CLIENT_ID": CLIENT, "ENTRABOT_HEADLESS": True, **changes}
        )
        store = TokenStore(folder, settings.token_cache)
        return DelegatedProvider(settings, CLOUD, store, tenant_id=tenant, permissions=permissions)
