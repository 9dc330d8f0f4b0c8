"""The identity facet that plugins see."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from entrabot_host.auth.provider import Principal
from entrabot_host.errors import NotStarted
from entrabot_host.graph.bearer import claims_challenge
from entrabot_host.host import Conversation, Identity, Sponsor
from entrabot_host.identity.authorization import Authorizer
from entrabot_host.identity.session import Session
from entrabot_host.identity.sponsors import SponsorDirectory
from entrabot_host.identity.tenants import TenantFinder
from entrabot_host.security.clouds import Cloud
from entrabot_host.security.targets import check_target, check_work_iq


class IdentityFacet(Identity):
    """`entrabot_host.Identity` out of the session, its sponsors and their authorizations.

    cloud: its rules say where tokens go. started: whether facets may be used yet; until then every call raises
    `NotStarted`.
    """

    def __init__(
        self,
        cloud: Cloud,
        session: Session,
        directory: SponsorDirectory,
        authorizer: Authorizer,
        tenants: TenantFinder,
        *,
        started: Callable[[], bool] = lambda: True,
    ) -> None:
        self._cloud = cloud
        self._session = session
        self._directory = directory
        self._authorizer = authorizer
        self._tenants = tenants
        self._started = started

    async def me(self) -> Principal:
        """Return who is signed in."""
        self._check()
        return await self._session.principal()

    async def token(
        self, audience: str, *, url: str, work_iq: bool = False, rejected: str = "", challenge: str = ""
    ) -> str:
        """Return an access token of ``audience`` for ``url``, if it may go there."""
        self._check()
        (check_work_iq if work_iq else check_target)(self._cloud, audience, url)
        claims = claims_challenge([challenge]) if challenge else ""
        return (await self._session.token(audience, rejected=rejected, claims=claims)).secret

    async def sponsors(self) -> Sequence[Sponsor]:
        """Return the agent's sponsors."""
        self._check()
        return await self._directory.sponsors()

    async def sponsor_of(self, user_id: str, tenant_id: str = "") -> Sponsor | None:
        """Return the sponsor whom this object id proves, or None."""
        self._check()
        return await self._directory.sponsor_of(user_id, tenant_id)

    async def tenant_of(self, domain: str) -> str:
        """Return the id of the tenant that a mail domain belongs to, empty when there is none."""
        self._check()
        return await self._tenants.tenant_of(domain)

    async def learn_home(self, address: str, user_id: str, tenant_id: str) -> None:
        """Pin the home identity of the sponsor at ``address``."""
        self._check()
        await self._directory.learn_home(address, user_id, tenant_id)

    async def authorize(self, requester_email: str, conversation: Conversation, beneficiary: str = "") -> Sponsor:
        """Return the sponsor on whose authority an action may be done now, or raise."""
        self._check()
        return (await self._authorizer.authorize(requester_email, conversation, beneficiary)).sponsor

    def _check(self) -> None:
        if not self._started():
            raise NotStarted("The identity was used before the server started.")
