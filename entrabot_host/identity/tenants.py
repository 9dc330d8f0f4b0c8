"""Which Entra tenant a mail domain belongs to, by OpenID discovery."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING
from uuid import UUID

from entrabot_host.errors import EntrabotError, InvalidArgument
from entrabot_host.graph.failures import WireFailure
from entrabot_host.graph.wire import Outgoing, Wire

if TYPE_CHECKING:
    from entrabot_host.security.clouds import Cloud

_CONSUMER_TENANT = "9188040d-6c67-4c5b-b112-36a304b66dad"
_DOMAIN = re.compile(r"(?=.{3,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]")
_SECONDS = 15.0
_MAX_BYTES = 1024 * 1024
_KNOWN_SECONDS = 3600.0
_KNOWN = 512


class TenantUnknown(EntrabotError):
    """The sign-in service could not be asked which tenant a domain belongs to."""


class TenantFinder:
    """Asks the cloud's sign-in service, without a token; answers are kept for an hour."""

    def __init__(self, cloud: Cloud, ca_bundle: str) -> None:
        self._cloud = cloud
        self._wire = Wire(ca_bundle, "entrabot")
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
        url = f"{self._cloud.login_url}/{domain}/v2.0/.well-known/openid-configuration"
        try:
            answer = await self._wire.exchange(Outgoing("GET", url), seconds=_SECONDS, max_bytes=_MAX_BYTES)
        except WireFailure as failure:
            raise TenantUnknown(
                f"The sign-in service did not say which tenant a domain belongs to ({failure.reason.value}).",
                remedy="Check the network, or name the tenant in the call.",
            ) from None
        if answer.status == 400:
            return ""
        if answer.status != 200:
            raise TenantUnknown(
                f"The sign-in service answered {answer.status} when asked for a domain's tenant.",
                remedy="Try again in a minute, or name the tenant in the call.",
            )
        return _tenant_in(answer.content)

    async def aclose(self) -> None:
        """Close connections."""
        await self._wire.aclose()


def _checked(domain: str) -> str:
    domain = domain.strip().rstrip(".").lower()
    try:
        ascii_domain = domain.encode("idna").decode("ascii")
    except UnicodeError:
        ascii_domain = ""
    if not _DOMAIN.fullmatch(ascii_domain):
        raise InvalidArgument("The part after @ is not a domain name.", remedy="Check the address.")
    return ascii_domain


def _tenant_in(content: bytes) -> str:
    """Read the id out of the issuer. Consumer accounts belong to no organisation."""
    try:
        issuer = str(json.loads(content)["issuer"])
        tenant = str(UUID(issuer.rstrip("/").removesuffix("/v2.0").rsplit("/", 1)[-1]))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise TenantUnknown("The sign-in service's answer about a domain's tenant makes no sense.") from None
    return "" if tenant == _CONSUMER_TENANT else tenant
