"""The agent user: an Entra user account that only its agent identity can act as, reached in three hops."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from entrabot_host.auth.cache import TokenCache
from entrabot_host.auth.certificate import load_certificate
from entrabot_host.auth.entra import Answer, Call, Entra
from entrabot_host.auth.failures import ABOUT_THE_REQUEST, Attempt, Hop, unreachable
from entrabot_host.auth.provider import Attribution, AuthProvider, Principal, Token
from entrabot_host.errors import AuthError
from entrabot_host.identity.settings import CERT_FILE, CERT_THUMBPRINT, AgentUserSettings

if TYPE_CHECKING:
    import msal

    from entrabot_host.security.clouds import Cloud

NAME = "agent-user"
TIMEOUT_SECONDS = 30.0


class AgentUserProvider(AuthProvider):
    """Signs in as the agent user.

    Hop 1: the blueprint's certificate gets a token for the agent identity. Hop 2: with that, the agent identity gets
    its own. Hop 3: with both, a token of the agent user for one resource. App-only tokens end with hop 2.
    """

    name = NAME
    priority = 100

    def __init__(
        self, settings: AgentUserSettings, cloud: Cloud, ca_bundle: str = "", *, timeout: float = TIMEOUT_SECONDS
    ) -> None:
        self._settings = settings
        self._cloud = cloud
        self._timeout = timeout
        self._entra = Entra(cloud.login_url, settings.tenant_id, ca_bundle)
        self._cache = TokenCache()
        self._user: Mapping[str, Any] = {}

    def unavailable(self) -> str | None:
        """Name the settings that are missing."""
        settings = self._settings
        if settings.skip_provisioning:
            return "ENTRABOT_SKIP_PROVISIONING is set"
        needed = {
            "ENTRABOT_TENANT_ID": settings.tenant_id,
            "ENTRABOT_BLUEPRINT_APP_ID": settings.blueprint_app_id,
            "ENTRABOT_AGENT_ID": settings.agent_id,
            "ENTRABOT_AGENT_USER_ID": settings.agent_user_id,
            f"{CERT_FILE} (or {CERT_THUMBPRINT} for a key in the keystore)": (
                settings.cert_file or settings.cert_thumbprint or settings.cert_sha1
            ),
        }
        missing = [name for name, value in needed.items() if not value]
        return f"not set: {', '.join(missing)}" if missing else None

    async def sign_in(self) -> Principal:
        """Run the three hops for Graph. Raises `AuthError` naming the hop."""
        await self.token(self._cloud.graph_audience)
        settings, user = self._settings, self._user
        if (signed_in := str(user.get("oid") or settings.agent_user_id)) != settings.agent_user_id:
            raise AuthError(
                f"Entra signed in the user {signed_in}, not the one that ENTRABOT_AGENT_USER_ID names.",
                hop=Hop.AGENT_USER,
                remedy="Check ENTRABOT_AGENT_USER_ID.",
            )
        return Principal(
            user_id=settings.agent_user_id,
            user_name=str(user.get("preferred_username") or settings.agent_upn),
            tenant_id=settings.tenant_id,
            agent_id=settings.agent_id,
            attribution=Attribution.AGENT,
            provider=self.name,
            display_name=str(user.get("name") or ""),
        )

    async def token(self, audience: str, *, rejected: str = "", claims: str = "") -> Token:
        """Return a token of the agent user for ``audience``."""
        mint = partial(self._mint_user, audience, claims)
        return await self._cache.get((Hop.AGENT_USER, audience), mint, rejected=rejected, claims=claims)

    async def app_token(self, audience: str, *, rejected: str = "") -> Token:
        """Return an app-only token of the agent identity for ``audience``."""
        mint = partial(self._mint_app, audience)
        return await self._cache.get((Hop.AGENT_IDENTITY, audience), mint, rejected=rejected)

    async def aclose(self) -> None:
        """Stop what is under way and close the connections."""
        await self._cache.aclose()
        self._entra.close()

    async def _mint_user(self, audience: str, claims: str) -> Token:
        async def hop_3() -> Token:
            blueprint, agent = await self._blueprint(), await self._agent()
            call = _hop_3(audience, agent.secret, self._settings.agent_user_id, claims)
            answer = await self._request(Hop.AGENT_USER, audience, blueprint, call)
            self._user = answer.user or self._user
            return answer.token

        return await self._with_fresh_assertions(hop_3)

    async def _mint_app(self, audience: str) -> Token:
        async def hop_2() -> Token:
            call = _for_client(audience)
            return (await self._request(Hop.AGENT_IDENTITY, audience, await self._blueprint(), call)).token

        return await self._with_fresh_assertions(hop_2)

    async def _with_fresh_assertions(self, step: Callable[[], Awaitable[Token]]) -> Token:
        """Run a step once more with new assertions when it was refused with kept ones: they may have been revoked."""
        exchange = self._cloud.exchange_audience
        assertions = [(Hop.BLUEPRINT, exchange), (Hop.AGENT_IDENTITY, exchange)]
        kept = any(self._cache.fresh(key) for key in assertions)
        try:
            return await step()
        except AuthError as error:
            if error.code is None or error.code in ABOUT_THE_REQUEST:
                raise
            for key in assertions:
                self._cache.drop(key)
            if not kept:
                raise
        return await step()

    async def _blueprint(self) -> Token:
        exchange = self._cloud.exchange_audience

        async def hop_1() -> Token:
            return (await self._in_thread(Hop.BLUEPRINT, exchange, self._hop_1)).token

        return await self._cache.get((Hop.BLUEPRINT, exchange), hop_1)

    async def _agent(self) -> Token:
        exchange = self._cloud.exchange_audience

        async def hop_2() -> Token:
            call = _for_client(exchange)
            return (await self._request(Hop.AGENT_IDENTITY, exchange, await self._blueprint(), call)).token

        return await self._cache.get((Hop.AGENT_IDENTITY, exchange), hop_2)

    def _hop_1(self) -> Answer:
        settings, exchange = self._settings, self._cloud.exchange_audience
        certificate = load_certificate(settings)
        attempt = Attempt(Hop.BLUEPRINT, settings.blueprint_app_id, exchange, certificate.thumbprint)
        return self._entra.request(attempt, certificate.credential(), _for_client(exchange, settings.agent_id))

    async def _request(self, hop: Hop, audience: str, blueprint: Token, call: Call) -> Answer:
        attempt = Attempt(hop, self._settings.agent_id, audience)
        credential = {"client_assertion": lambda: blueprint.secret}
        return await self._in_thread(hop, audience, partial(self._entra.request, attempt, credential, call))

    async def _in_thread(self, hop: Hop, audience: str, blocking: Callable[[], Answer]) -> Answer:
        try:
            with anyio.fail_after(self._timeout):
                return await anyio.to_thread.run_sync(blocking, abandon_on_cancel=True)
        except TimeoutError as error:
            raise unreachable(Attempt(hop, self._settings.agent_id, audience), error) from None


def _for_client(audience: str, fmi_path: str | None = None) -> Call:
    def call(application: msal.ConfidentialClientApplication) -> Mapping[str, Any]:
        result: Mapping[str, Any] = application.acquire_token_for_client([f"{audience}/.default"], fmi_path=fmi_path)
        return result

    return call


def _hop_3(audience: str, assertion: str, user_id: str, claims: str) -> Call:
    def call(application: msal.ConfidentialClientApplication) -> Mapping[str, Any]:
        result: Mapping[str, Any] = application.acquire_token_by_user_federated_identity_credential(
            [f"{audience}/.default"],
            assertion=assertion,
            user_object_id=user_id,
            claims_challenge=claims or None,
            data={"requested_token_use": "on_behalf_of"},
        )
        return result

    return call
