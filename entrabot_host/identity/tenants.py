"""Which Entra tenant a mail domain belongs to, by OpenID discovery."""

from __future__ import annotations

import asyncio
import re
import time
from typing import TYPE_CHECKING, Any
from uuid import UUID

from entrabot_host.errors import EntrabotError, InvalidArgument

if TYPE_CHECKING:
    import httpx

    from entrabot_host.security.clouds import Cloud

_CONSUMER_TENANT = "9188040d-6c67-4c5b-b112-36a304b66dad"
_DOMAIN = re.compile(r"(?=.{3,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]")
_SECONDS = 15.0
_KNOWN_SECONDS = 3600.0
_KNOWN = 512


class TenantUnknown(EntrabotError):
    """The sign-in service could not be asked which tenant a domain belongs to."""


class TenantFinder:
    """Asks the cloud's sign-in service, without a token; answers are kept for an hour."""

    def __init__(self, cloud: Cloud, ca_bundle: str) -> None:
        self._cloud = cloud
        self._ca_bundle = ca_bundle
        self._http: httpx.AsyncClient | None = None
        self._known: dict[str, tuple[str, float]] = {}

    async def tenant_of(self, domain: str) -> str:
        """Return the tenant's id, empty when the domain belongs to no organisation. Raises `TenantUnknown`."""
        domain = _checked(domain)
        tenant, until = self._known.get(domain, ("", 0.0))
        if time.monotonic() < until:
            return tenant
        tenant = await self._ask(domain)
        if len(self._known) >= _KNOWN:
            self._known.pop(next(iter(self._known)))
        self._known[domain] = (tenant, time.monotonic() + _KNOWN_SECONDS)
        return tenant

    async def _ask(self, domain: str) -> str:
        import httpx

        http = await self._client()
        try:
            async with asyncio.timeout(_SECONDS):
                answer = await http.get(f"{self._cloud.login_url}/{domain}/v2.0/.well-known/openid-configuration")
        except (httpx.HTTPError, TimeoutError) as error:
            raise TenantUnknown(
                f"The sign-in service did not say which tenant a domain belongs to ({type(error).__name__}).",
                remedy="Check the network, or name the tenant in the call.",
            ) from None
        if answer.status_code == 400:
            return ""
        if answer.status_code != 200:
            raise TenantUnknown(
                f"The sign-in service answered {answer.status_code} when asked for a domain's tenant.",
                remedy="Try again in a minute, or name the tenant in the call.",
            )
        return _tenant_in(answer)

    async def _client(self) -> httpx.AsyncClient:
        if self._http is None:
            import httpx

            from entrabot_host.security.tls import ssl_context

            context = await asyncio.to_thread(ssl_context, self._ca_bundle)
            self._http = httpx.AsyncClient(verify=context, timeout=_SECONDS, follow_redirects=False)
        return self._http

    async def aclose(self) -> None:
        """Close connections."""
        if self._http is not None:
            await self._http.aclose()


def _checked(domain: str) -> str:
    domain = domain.strip().rstrip(".").lower()
    try:
        ascii_domain = domain.encode("idna").decode("ascii")
    except UnicodeError:
        ascii_domain = ""
    if not _DOMAIN.fullmatch(ascii_domain):
        raise InvalidArgument("The part after @ is not a domain name.", remedy="Check the address.")
    return ascii_domain


def _tenant_in(answer: Any) -> str:
    """Read the id out of the issuer. Consumer accounts belong to no organisation."""
    try:
        issuer = str(answer.json()["issuer"])
        tenant = str(UUID(issuer.rstrip("/").removesuffix("/v2.0").rsplit("/", 1)[-1]))
    except (ValueError, KeyError, TypeError):
        raise TenantUnknown("The sign-in service's answer about a domain's tenant makes no sense.") from None
    return "" if tenant == _CONSUMER_TENANT else tenant
