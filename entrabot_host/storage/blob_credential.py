"""What it takes to reach Azure Blob Storage as the agent: trust, and the agent's own storage token."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from entrabot_host.auth.provider import Token
from entrabot_host.errors import AuthError, StorageConfigError, StorageError
from entrabot_host.security.clouds import Cloud
from entrabot_host.security.targets import STORAGE_AUDIENCE, check_target
from entrabot_host.security.urls import origin

if TYPE_CHECKING:
    from azure.core.credentials import AccessToken

_TOKEN_SECONDS = 60
"""For how long the SDK is told that a token lives: it then asks before every request, and the session caches."""


class TokenSource(Protocol):
    """`entrabot_host.identity.session.Session.token`."""

    def __call__(self, audience: str, *, rejected: str = "", claims: str = "") -> Awaitable[Token]:
        """Return a token for ``audience``. Raises `AuthError`."""
        ...


@dataclass(frozen=True)
class BlobAccess:
    """Which cloud, whose certificates, whose token. ca_bundle: a PEM file that is trusted too, empty for none."""

    cloud: Cloud
    ca_bundle: str
    token: TokenSource


AccessSource = Callable[[], BlobAccess]
"""Raises `SettingsError` when the cloud's settings make no sense."""


def checked_endpoint(endpoint: str, cloud: Cloud) -> str:
    """Return the endpoint without a slash at its end.

    Raises `StorageConfigError`, which never shows a malformed endpoint (it may hold a secret), or
    `TokenAudienceError` when the storage token may not go there.
    """
    try:
        origin(endpoint)
        problem = "has a query (it must hold no signature)" if "?" in endpoint or "#" in endpoint else ""
    except ValueError as error:
        problem = f"is {error}"
    if problem:
        raise StorageConfigError(
            f"ENTRABOT_BLOB_ENDPOINT {problem}.",
            remedy=f"Set it to the account's Blob endpoint, https://<account>.{cloud.storage_suffix}.",
        )
    check_target(cloud, STORAGE_AUDIENCE, endpoint)
    return endpoint.rstrip("/")


class SessionCredential:
    """An async token credential of the Azure SDK over the session's token.

    Whatever audience is asked for (a server may name one in a challenge), it is the storage token that is given.
    """

    def __init__(self, token: TokenSource) -> None:
        self._token = token
        self._given = ""
        self._rejected = ""

    def reject(self) -> None:
        """The service refused the token that was given last: get another one for the next request."""
        self._rejected = self._given

    async def get_token(self, *scopes: str, claims: str | None = None, **more: Any) -> AccessToken:
        """Return the storage token. Raises `StorageError` with the reason why there is none."""
        from azure.core.credentials import AccessToken

        try:
            token = await self._token(STORAGE_AUDIENCE, rejected=self._rejected, claims=claims or "")
        except AuthError as error:
            raise StorageError(
                f"Azure Blob Storage cannot be used: there is no token for it. {error.message}", remedy=error.remedy
            ) from None
        self._given, self._rejected = token.secret, ""
        return AccessToken(token.secret, int(time.time() + min(token.seconds_left, _TOKEN_SECONDS)))

    async def close(self) -> None:
        """Nothing to close: the session has its own owner."""

    async def __aenter__(self) -> SessionCredential:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        await self.close()
