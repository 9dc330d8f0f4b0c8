"""Microsoft Entra's discovery documents, token endpoint and device-code endpoint."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from entrabot_sandbox.authorization import AuthorizationRequest, Target, read_request, read_target
from entrabot_sandbox.directory import Directory, PublicClient, Tenant
from entrabot_sandbox.errors import EntraError
from entrabot_sandbox.grants_agent import AgentGrants, unknown_application
from entrabot_sandbox.grants_person import DEVICE_CODE, PersonGrants
from entrabot_sandbox.oauth_forms import Form, read_form, required
from entrabot_sandbox.reply import Reply
from entrabot_sandbox.tokens import Issuer
from entrabot_sandbox.user_answers import UserAnswers

ANY_TENANT = ("common", "organizations", "consumers")
_PEOPLES_TENANTS = ("common", "organizations")
_GRANTS = ("client_credentials", "user_fic", "refresh_token", "authorization_code", DEVICE_CODE)


class Entra:
    """The sign-in service over one directory. ``people`` has what concerns people's own sign-in."""

    def __init__(self, issuer: Issuer, directory: Directory) -> None:
        self.issuer = issuer
        self.directory = directory
        answers = UserAnswers(issuer, directory)
        self.answers = answers
        self.refresh_tokens = answers.refresh_tokens
        self.people = PersonGrants(directory, answers)
        self._agents = AgentGrants(issuer, directory, answers)

    # Discovery

    def discovery(self, reference: str, version: str = "v2.0") -> Reply:
        """The OpenID configuration of a tenant named by GUID or verified domain."""
        if reference.lower() in ANY_TENANT:
            return Reply(200, json=self._document(reference.lower(), "{tenantid}", version))
        tenant = self.directory.tenant(reference)
        if tenant is None:
            return self.refusal(_tenant_not_found(reference, "invalid_tenant"), "")
        return Reply(200, json=self._document(tenant.id, tenant.id, version))

    def _document(self, segment: str, issuer: str, version: str) -> dict[str, Any]:
        root = f"{self.issuer.base}/{segment}"
        host = self.issuer.base.removeprefix("https://")
        v2 = version == "v2.0"
        endpoints = f"{root}/oauth2/v2.0" if v2 else f"{root}/oauth2"
        return {
            "token_endpoint": f"{endpoints}/token",
            "token_endpoint_auth_methods_supported": ["private_key_jwt"],
            "jwks_uri": f"{root}/discovery/v2.0/keys" if v2 else f"{root}/discovery/keys",
            "response_modes_supported": ["query", "fragment", "form_post"],
            "subject_types_supported": ["pairwise"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "response_types_supported": ["code", "id_token", "code id_token", "id_token token"],
            "scopes_supported": ["openid", "profile", "email", "offline_access"],
            "issuer": f"{self.issuer.base}/{issuer}/v2.0" if v2 else f"https://sts.windows.net/{issuer}/",
            "authorization_endpoint": f"{endpoints}/authorize",
            "device_authorization_endpoint": f"{endpoints}/devicecode",
            "tenant_region_scope": None if "{" in issuer else "EU",
            "cloud_instance_name": host,
            "cloud_graph_host_name": "graph.windows.net",
            "msgraph_host": host,
        }

    # Tokens

    def token(self, reference: str, content_type: str, body: bytes, correlation_id: str) -> Reply:
        """Answer ``POST /{tenant}/oauth2/v2.0/token``."""
        try:
            return Reply(200, NO_STORE, json=self._token(reference, read_form(content_type, body)))
        except EntraError as error:
            return self.refusal(error, correlation_id)

    def _token(self, reference: str, form: Form) -> dict[str, Any]:
        tenant = self._tenant(reference)
        grant_type = required(form, "grant_type")
        if grant_type not in _GRANTS:
            message = f"The app requested an unsupported grant type '{grant_type}'."
            raise EntraError(400, "unsupported_grant_type", 70003, message)
        public = self.directory.client(required(form, "client_id"))
        if public is not None:
            return self.people.token(grant_type, tenant, form, public)
        if tenant is None:
            raise _single_tenant(reference)
        return self._agents.token(grant_type, tenant, form, self._agents.client(tenant, form, reference))

    def device_code(self, reference: str, content_type: str, body: bytes, correlation_id: str) -> Reply:
        """Answer ``POST /{tenant}/oauth2/v2.0/devicecode``."""
        try:
            form = read_form(content_type, body, "client_id")
            if reference.lower() in ("common", "consumers"):
                message = f"Device Code flow is not supported under /common or /consumers endpoint: '{reference}'."
                raise EntraError(400, "invalid_request", 90133, message)
            tenant = self._tenant(reference)
            client = self._public(tenant, reference, required(form, "client_id"))
            return Reply(200, NO_STORE, json=self.people.begin_device_code(tenant, form, client))
        except EntraError as error:
            return self.refusal(error, correlation_id)

    # Authorization

    def target(self, reference: str, query: Form) -> Target:
        """Where the answer to an authorization request goes. Raises EntraError, to be told to the person alone."""
        tenant = self._tenant(reference)
        client = self._public(tenant, reference, required(query, "client_id"))
        return read_target(tenant, client, query)

    def request(self, target: Target, query: Form) -> AuthorizationRequest:
        """What a client asks for. Raises EntraError, to be told to the client."""
        return read_request(target, query, self.answers)

    def _public(self, tenant: Tenant | None, reference: str, client_id: str) -> PublicClient:
        client = self.directory.client(client_id)
        if client is None:
            raise unknown_application(client_id, tenant.name if tenant else reference)
        return client

    def _tenant(self, reference: str) -> Tenant | None:
        """The tenant that an address names, None for any organisation. Raises EntraError."""
        if reference.lower() in _PEOPLES_TENANTS:
            return None
        if reference.lower() in ANY_TENANT:
            raise _single_tenant(reference)
        tenant = self.directory.tenant(reference)
        if tenant is None:
            raise _tenant_not_found(reference, "invalid_request")
        return tenant

    # Refusals

    def describe(self, error: EntraError, correlation_id: str = "") -> dict[str, Any]:
        """What a refusal says, with its ids and its time."""
        trace_id, correlation_id = str(uuid4()), correlation_id or str(uuid4())
        timestamp = self.issuer.clock.now().strftime("%Y-%m-%d %H:%M:%SZ")
        description = (
            f"AADSTS{error.number}: {error.message} Trace ID: {trace_id} "
            f"Correlation ID: {correlation_id} Timestamp: {timestamp}"
        )
        return {
            "error": error.error,
            "error_description": description,
            "error_codes": [error.number],
            "timestamp": timestamp,
            "trace_id": trace_id,
            "correlation_id": correlation_id,
            "error_uri": f"{self.issuer.base}/error?code={error.number}",
            **error.extra,
        }

    def refusal(self, error: EntraError, correlation_id: str) -> Reply:
        """A refusal as an answer to a program."""
        return Reply(error.status, NO_STORE, json=self.describe(error, correlation_id))


NO_STORE = {"Cache-Control": "no-store, no-cache", "Pragma": "no-cache"}


def _single_tenant(reference: str) -> EntraError:
    message = f"The application is not multi-tenant. Usage of the /{reference} endpoint is not supported."
    return EntraError(400, "invalid_request", 50194, message)


def _tenant_not_found(reference: str, error: str) -> EntraError:
    message = (
        f"Tenant '{reference}' not found. Check to make sure you have the correct tenant ID and are signing into the "
        "correct cloud. Check with your subscription administrator, this may happen if there are no active "
        "subscriptions for the tenant."
    )
    return EntraError(400, error, 90002, message)
