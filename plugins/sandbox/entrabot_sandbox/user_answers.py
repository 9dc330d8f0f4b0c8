"""What the token endpoint answers when a client acts for a user, and what was consented to."""

from __future__ import annotations

from typing import Any

from entrabot_sandbox import scopes
from entrabot_sandbox.directory import AgentIdentity, Directory, PublicClient, Tenant, User
from entrabot_sandbox.errors import EntraError
from entrabot_sandbox.refresh_tokens import RefreshTokens
from entrabot_sandbox.scopes import Requested
from entrabot_sandbox.tokens import Issuer, client_info

ActingClient = AgentIdentity | PublicClient


class UserAnswers:
    """Makes the answers. ``refresh_tokens`` holds those that go out with them."""

    def __init__(self, issuer: Issuer, directory: Directory) -> None:
        self.issuer = issuer
        self.directory = directory
        self.refresh_tokens = RefreshTokens(issuer.clock)

    def requested(self, tenant: Tenant | None, scope: str) -> Requested:
        """A scope, read. Raises EntraError."""
        return scopes.parse(scope, self.issuer.base, tenant.name if tenant else "organizations")

    def answer(
        self, requested: Requested, client: ActingClient, user: User, *, with_client_info: bool, nonce: str = ""
    ) -> dict[str, Any]:
        """Tokens for a user. Raises EntraError (65001) without consent."""
        granted = self._consented(requested, client, user)
        expires_in = self.issuer.expires_in()
        token = self.issuer.user_token(requested.uri, client, user, granted, expires_in)
        answer = bearer(token, expires_in)
        names = [*granted, ".default"] if requested.is_default else granted
        words = [f"{requested.uri}/{name}" for name in names] + sorted(requested.openid - {"offline_access"})
        answer["scope"] = " ".join(words)
        if "offline_access" in requested.openid:
            answer["refresh_token"] = self.refresh_tokens.issue(client.app_id, user)
        if "openid" in requested.openid:
            answer["id_token"] = self.issuer.id_token(client.app_id, user, expires_in, requested.openid, nonce)
        if with_client_info:
            answer["client_info"] = client_info(user)
        return answer

    def refreshed(
        self, token: str, scope: str, client: ActingClient, tenant: Tenant | None, *, with_client_info: bool
    ) -> dict[str, Any]:
        """Tokens for a refresh token, of whatever resource. Raises EntraError."""
        found = self.refresh_tokens.find(token, client.app_id)
        user = self.in_tenant(found.user, tenant)
        answer = self.answer(self.requested(tenant, scope), client, user, with_client_info=with_client_info)
        self.refresh_tokens.use(found)
        return answer

    def in_tenant(self, user: User, tenant: Tenant | None) -> User:
        """The object that stands for somebody in a tenant (None: any). Raises EntraError (50020) without one."""
        person = user.home or user
        if tenant is None or user.tenant is tenant:
            return user
        found = person if person.tenant is tenant else self.directory.guest(person, tenant)
        if found is None:
            message = (
                f"User account '{person.upn}' from identity provider '{person.tenant.name}' does not exist in tenant "
                f"'{tenant.name}' and cannot access the application in that tenant."
            )
            raise EntraError(400, "invalid_grant", 50020, message)
        return found

    def lacking(self, requested: Requested, client: PublicClient, user: User) -> list[str]:
        """What of a request neither the tenant nor the user has consented to."""
        granted = self._granted(requested.resource, client, user)
        if requested.is_default:
            return [] if granted else list(client.registered.get(requested.resource, ()))
        return [name for name in requested.names if name not in granted]

    def consent(self, requested: Requested, client: PublicClient, user: User) -> None:
        """Note the user's own consent to what was lacking."""
        key = (client.app_id, user.id, requested.resource)
        self.directory.consents.setdefault(key, []).extend(self.lacking(requested, client, user))

    def _granted(self, resource: str, client: ActingClient, user: User) -> list[str]:
        of_tenant = self.directory.granted(client.app_id, resource).scopes if user.tenant is client.tenant else None
        own = self.directory.consents.get((client.app_id, user.id, resource), [])
        return list(dict.fromkeys([*(of_tenant or ()), *own]))

    def _consented(self, requested: Requested, client: ActingClient, user: User) -> list[str]:
        granted = self._granted(requested.resource, client, user)
        missing = [name for name in requested.names if name != ".default" and name not in granted]
        if not granted or missing:
            raise no_consent(client)
        return granted


def no_consent(client: ActingClient) -> EntraError:
    """AADSTS65001, as the token endpoint says it."""
    message = (
        f"The user or administrator has not consented to use the application with ID '{client.app_id}' "
        f"named '{client.name}'. Send an interactive authorization request for this user and resource."
    )
    return EntraError(400, "invalid_grant", 65001, message, {"suberror": "consent_required"})


def bearer(token: str, expires_in: int) -> dict[str, Any]:
    """An answer with an access token and nothing else."""
    return {"token_type": "Bearer", "expires_in": expires_in, "ext_expires_in": expires_in, "access_token": token}
