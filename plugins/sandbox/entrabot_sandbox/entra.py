"""Microsoft Entra's token endpoint and discovery documents."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl
from uuid import uuid4

from entrabot_sandbox import scopes
from entrabot_sandbox.assertions import (
    agent_subject,
    check_agent_assertion,
    check_certificate_assertion,
    check_user_credential,
)
from entrabot_sandbox.directory import AgentIdentity, Blueprint, Directory, Tenant, User
from entrabot_sandbox.errors import EntraError
from entrabot_sandbox.reply import Reply
from entrabot_sandbox.scopes import EXCHANGE, Requested
from entrabot_sandbox.tokens import Issuer, client_info

JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
ANY_TENANT = ("common", "organizations", "consumers")

Form = dict[str, str]


@dataclass
class Entra:
    """The sign-in service over one directory."""

    issuer: Issuer
    directory: Directory
    refresh_tokens: dict[str, tuple[str, str]] = field(default_factory=dict, repr=False)

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
            return Reply(200, _NO_STORE, json=self._token(reference, _form(content_type, body)))
        except EntraError as error:
            return self.refusal(error, correlation_id)

    def _token(self, reference: str, form: Form) -> dict[str, Any]:
        tenant = self._tenant(reference)
        handlers: dict[str, Callable[[Tenant, Form, Blueprint | AgentIdentity], dict[str, Any]]] = {
            "client_credentials": self._client_credentials,
            "user_fic": self._user_credential,
            "refresh_token": self._refresh,
        }
        grant_type = _required(form, "grant_type")
        if grant_type not in handlers:
            message = f"The app requested an unsupported grant type '{grant_type}'."
            raise EntraError(400, "unsupported_grant_type", 70003, message)
        client = self._client(tenant, form, reference)
        return handlers[grant_type](tenant, form, client)

    def _tenant(self, reference: str) -> Tenant:
        if reference.lower() in ANY_TENANT:
            message = f"The application is not multi-tenant. Usage of the /{reference} endpoint is not supported."
            raise EntraError(400, "invalid_request", 50194, message)
        tenant = self.directory.tenant(reference)
        if tenant is None:
            raise _tenant_not_found(reference, "invalid_request")
        return tenant

    def _client(self, tenant: Tenant, form: Form, reference: str) -> Blueprint | AgentIdentity:
        client_id = _required(form, "client_id")
        blueprint = self.directory.blueprint(tenant, client_id)
        client = blueprint or self.directory.agent(tenant, client_id)
        if client is None:
            message = f"Application with identifier '{client_id}' was not found in the directory '{tenant.name}'."
            raise EntraError(400, "unauthorized_client", 700016, message)
        assertion = _assertion(form)
        if isinstance(client, Blueprint):
            names = {reference, tenant.id, *tenant.domains}
            endpoints = {f"{self.issuer.base}/{name}/oauth2/v2.0/token" for name in names}
            check_certificate_assertion(assertion, client, endpoints, self.issuer.clock)
        else:
            check_agent_assertion(assertion, client, self.issuer)
        return client

    def _client_credentials(self, tenant: Tenant, form: Form, client: Blueprint | AgentIdentity) -> dict[str, Any]:
        requested = self._requested(tenant, form)
        if not requested.is_default:
            message = "Client credential flows must have a scope value with /.default suffixed to the resource."
            raise EntraError(400, "invalid_scope", 1002012, message)
        expires_in = self.issuer.expires_in()
        if requested.resource == EXCHANGE:
            return _answer(self._exchange_token(tenant, form, client, expires_in), expires_in)
        roles = self.directory.granted(client.app_id, requested.resource).roles
        claims: dict[str, Any] = {"roles": list(roles)} if roles else {}
        if isinstance(client, AgentIdentity):
            claims |= {"xms_act_fct": "11", "xms_sub_fct": "11", "xms_par_app_azp": client.blueprint.app_id}
        token = self.issuer.app_token(tenant, requested.uri, client.app_id, client.object_id, expires_in, **claims)
        return _answer(token, expires_in)

    def _exchange_token(self, tenant: Tenant, form: Form, client: Blueprint | AgentIdentity, expires_in: int) -> str:
        subject = client.object_id
        if isinstance(client, Blueprint) and form.get("fmi_path"):
            subject = agent_subject(tenant, client, form["fmi_path"])
        return self.issuer.exchange_token(tenant, client.app_id, subject, client.app_id, expires_in)

    def _user_credential(self, tenant: Tenant, form: Form, client: Blueprint | AgentIdentity) -> dict[str, Any]:
        if isinstance(client, Blueprint):
            message = "The grant type 'user_fic' is not supported for an agent identity blueprint."
            raise EntraError(400, "unauthorized_client", 70003, message)
        check_user_credential(_required(form, "user_federated_identity_credential"), client, self.issuer)
        user = self._agent_user(tenant, form, client)
        return self._user_answer(self._requested(tenant, form), form, client, user)

    def _agent_user(self, tenant: Tenant, form: Form, agent: AgentIdentity) -> User:
        selectors = [form[name] for name in ("user_id", "username") if form.get(name)]
        if len(selectors) != 1:
            raise _missing("user_id' or 'username")
        user = self.directory.user(tenant, selectors[0])
        if user is None or user.agent is not agent:
            message = f"The user account {selectors[0]} does not exist in the {tenant.name} directory."
            raise EntraError(400, "invalid_grant", 50034, message)
        return user

    def _refresh(self, tenant: Tenant, form: Form, client: Blueprint | AgentIdentity) -> dict[str, Any]:
        app_id, user_id = self.refresh_tokens.get(_required(form, "refresh_token"), ("", ""))
        user = self.directory.user(tenant, user_id)
        if app_id != client.app_id or user is None or isinstance(client, Blueprint):
            raise EntraError(400, "invalid_grant", 700082, "The refresh token has expired due to inactivity.")
        return self._user_answer(self._requested(tenant, form), form, client, user)

    def _user_answer(self, requested: Requested, form: Form, agent: AgentIdentity, user: User) -> dict[str, Any]:
        granted = self._consented(requested, agent)
        expires_in = self.issuer.expires_in()
        answer = _answer(self.issuer.user_token(requested.uri, agent, user, granted, expires_in), expires_in)
        names = [*granted, ".default"] if requested.is_default else granted
        words = [f"{requested.uri}/{name}" for name in names] + sorted(requested.openid - {"offline_access"})
        answer["scope"] = " ".join(words)
        if "offline_access" in requested.openid:
            answer["refresh_token"] = secrets.token_urlsafe(64)
            self.refresh_tokens[answer["refresh_token"]] = (agent.app_id, user.id)
        if "openid" in requested.openid:
            answer["id_token"] = self.issuer.id_token(agent, user, expires_in)
        if form.get("client_info") == "1":
            answer["client_info"] = client_info(user)
        return answer

    def _consented(self, requested: Requested, agent: AgentIdentity) -> list[str]:
        granted = self.directory.granted(agent.app_id, requested.resource).scopes
        missing = [name for name in requested.names if name != ".default" and name not in (granted or ())]
        if not granted or missing:
            message = (
                f"The user or administrator has not consented to use the application with ID '{agent.app_id}' "
                f"named '{agent.name}'. Send an interactive authorization request for this user and resource."
            )
            raise EntraError(400, "invalid_grant", 65001, message)
        return list(granted)

    def _requested(self, tenant: Tenant, form: Form) -> Requested:
        return scopes.parse(_required(form, "scope"), self.issuer.base, tenant.name)

    # Refusals

    def refusal(self, error: EntraError, correlation_id: str) -> Reply:
        """The body of a refusal, with its ids and its time."""
        trace_id, correlation_id = str(uuid4()), correlation_id or str(uuid4())
        timestamp = self.issuer.clock.now().strftime("%Y-%m-%d %H:%M:%SZ")
        description = (
            f"AADSTS{error.number}: {error.message} Trace ID: {trace_id} "
            f"Correlation ID: {correlation_id} Timestamp: {timestamp}"
        )
        body = {
            "error": error.error,
            "error_description": description,
            "error_codes": [error.number],
            "timestamp": timestamp,
            "trace_id": trace_id,
            "correlation_id": correlation_id,
            "error_uri": f"{self.issuer.base}/error?code={error.number}",
        }
        return Reply(error.status, _NO_STORE, json=body)


_NO_STORE = {"Cache-Control": "no-store, no-cache", "Pragma": "no-cache"}


def _form(content_type: str, body: bytes) -> Form:
    if content_type.partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        raise _missing("grant_type")
    try:
        return dict(parse_qsl(body.decode("ascii"), keep_blank_values=True))
    except ValueError as error:
        raise _missing("grant_type") from error


def _required(form: Form, name: str) -> str:
    if not form.get(name):
        raise _missing(name)
    return form[name]


def _missing(name: str) -> EntraError:
    message = f"The request body must contain the following parameter: '{name}'."
    return EntraError(400, "invalid_request", 900144, message)


def _assertion(form: Form) -> str:
    if form.get("client_secret"):
        raise EntraError(401, "invalid_client", 7000215, "Invalid client secret provided.")
    if not form.get("client_assertion"):
        message = "The request body must contain the following parameter: 'client_assertion' or 'client_secret'."
        raise EntraError(401, "invalid_client", 7000218, message)
    if _required(form, "client_assertion_type") != JWT_BEARER:
        raise EntraError(401, "invalid_client", 50027, "The client assertion type is not supported.")
    return form["client_assertion"]


def _answer(token: str, expires_in: int) -> dict[str, Any]:
    return {
        "token_type": "Bearer",
        "expires_in": expires_in,
        "ext_expires_in": expires_in,
        "access_token": token,
    }


def _tenant_not_found(reference: str, error: str) -> EntraError:
    message = (
        f"Tenant '{reference}' not found. Check to make sure you have the correct tenant ID and are signing into the "
        "correct cloud. Check with your subscription administrator, this may happen if there are no active "
        "subscriptions for the tenant."
    )
    return EntraError(400, error, 90002, message)
