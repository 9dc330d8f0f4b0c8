"""The bearer token on a request to Graph, refreshed once when Graph refuses it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, Protocol

from entrabot_host.auth.provider import Token
from entrabot_host.graph.wire import Progress
from entrabot_host.security.clouds import Cloud
from entrabot_host.security.targets import check_target

if TYPE_CHECKING:
    import httpx

_CLAIMS = re.compile(r'\bclaims="([A-Za-z0-9+/_=-]{1,8192})"', re.IGNORECASE)


class TokenSource(Protocol):
    """Where tokens come from: the session. Both raise `AuthError` naming the hop that failed."""

    async def token(self, audience: str, *, rejected: str = "", claims: str = "") -> Token:
        """Return a token of the signed-in identity. rejected, claims: as `AuthProvider.token` says."""
        ...

    async def app_token(self, audience: str, *, rejected: str = "") -> Token:
        """Return an app-only token of the agent identity."""
        ...


def bearer(cloud: Cloud, tokens: TokenSource, *, app_only: bool) -> Any:
    """Return an `httpx.Auth` for one request. Its ``progress`` knows whether the request has left."""
    import httpx

    audience = cloud.graph_audience

    async def mint(rejected: str = "", claims: str = "") -> str:
        if app_only:
            return (await tokens.app_token(audience, rejected=rejected)).secret
        return (await tokens.token(audience, rejected=rejected, claims=claims)).secret

    class Bearer(httpx.Auth):
        def __init__(self) -> None:
            self.progress = Progress()

        async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
            check_target(cloud, audience, str(request.url))
            secret = await mint()
            request.headers["Authorization"] = f"Bearer {secret}"
            response = yield request
            if response.status_code != 401:
                return
            self.progress.sent = False  # refused before anything was done
            secret = await mint(secret, claims_challenge(response.headers.get_list("www-authenticate")))
            request.headers["Authorization"] = f"Bearer {secret}"
            yield request

    return Bearer()


def claims_challenge(challenges: list[str]) -> str:
    """Return the claims that a 401 asks the next token to satisfy, as JSON text; empty when there are none."""
    found = _CLAIMS.search(", ".join(challenges))
    if not found:
        return ""
    text = found.group(1).rstrip("=").replace("+", "-").replace("/", "_")
    try:
        claims = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("utf-8")
        return claims if isinstance(json.loads(claims), dict) else ""
    except (ValueError, RecursionError):
        return ""
