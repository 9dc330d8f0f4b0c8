"""What a blueprint and its agent identities get tokens for: the three hops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from entrabot_sandbox.assertions import (
    agent_subject,
    check_agent_assertion,
    check_certificate_assertion,
    check_user_credential,
)
from entrabot_sandbox.directory import AgentIdentity, Blueprint, Directory, Tenant, User
from entrabot_sandbox.errors import EntraError
from entrabot_sandbox.oauth_forms import Form, missing, required
from entrabot_sandbox.scopes import EXCHANGE
from entrabot_sandbox.tokens import Issuer
from entrabot_sandbox.user_answers import UserAnswers, bearer

JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

Answer = dict[str, Any]
Client = Blueprint | AgentIdentity


class AgentGrants:
    """Client credentials, a user's federated credential, refresh tokens."""

    def __init__(self, issuer: Issuer, directory: Directory, answers: UserAnswers) -> None:
        self._issuer = issuer
        self._directory = directory
        self._answers = answers

    def client(self, tenant: Tenant, form: Form, reference: str) -> Client:
        """The client that a request comes from, its assertion checked. Raises EntraError."""
        client_id = required(form, "client_id")
        client = self._directory.blueprint(tenant, client_id) or self._directory.agent(tenant, client_id)
        if client is None:
            raise unknown_application(client_id, tenant.name)
        assertion = _assertion(form)
        if isinstance(client, Blueprint):
            names = {reference, tenant.id, *tenant.domains}
            endpoints = {f"{self._issuer.base}/{name}/oauth2/v2.0/token" for name in names}
            check_certificate_assertion(assertion, client, endpoints, self._issuer.clock)
        else:
            check_agent_assertion(assertion, client, self._issuer)
        return client

    def token(self, grant_type: str, tenant: Tenant, form: Form, client: Client) -> Answer:
        """Answer a request for a token. Raises EntraError."""
        handlers: dict[str, Callable[[Tenant, Form, Client], Answer]] = {
            "client_credentials": self._client_credentials,
            "user_fic": self._user_credential,
            "refresh_token": self._refresh,
        }
        if grant_type not in handlers:
            raise _unsupported(grant_type)
        return handlers[grant_type](tenant, form, client)

    def _client_credentials(self, tenant: Tenant, form: Form, client: Client) -> Answer:
        requested = self._answers.requested(tenant, required(form, "scope"))
        if not requested.is_default:
            message = "Client credential flows must have a scope value with /.default suffixed to the resource."
            raise EntraError(400, "invalid_scope", 1002012, message)
        expires_in = self._issuer.expires_in()
        if requested.resource == EXCHANGE:
            return bearer(self._exchange_token(tenant, form, client, expires_in), expires_in)
        roles = self._directory.granted(client.app_id, requested.resource).roles
        claims: Answer = {"roles": list(roles)} if roles else {}
        if isinstance(client, AgentIdentity):
            claims |= {"xms_act_fct": "11", "xms_sub_fct": "11", "xms_par_app_azp": client.blueprint.app_id}
        token = self._issuer.app_token(tenant, requested.uri, client.app_id, client.object_id, expires_in, **claims)
        return bearer(token, expires_in)

    def _exchange_token(self, tenant: Tenant, form: Form, client: Client, expires_in: int) -> str:
        subject = client.object_id
        if isinstance(client, Blueprint) and form.get("fmi_path"):
            subject = agent_subject(tenant, client, form["fmi_path"])
        return self._issuer.exchange_token(tenant, client.app_id, subject, client.app_id, expires_in)

    def _user_credential(self, tenant: Tenant, form: Form, client: Client) -> Answer:
        if isinstance(client, Blueprint):
            raise _unsupported("user_fic")
        check_user_credential(required(form, "user_federated_identity_credential"), client, self._issuer)
        user = self._agent_user(tenant, form, client)
        requested = self._answers.requested(tenant, required(form, "scope"))
        return self._answers.answer(requested, client, user, with_client_info=form.get("client_info") == "1")

    def _agent_user(self, tenant: Tenant, form: Form, agent: AgentIdentity) -> User:
        selectors = [form[name] for name in ("user_id", "username") if form.get(name)]
        if len(selectors) != 1:
            raise missing("user_id' or 'username")
        user = self._directory.user(tenant, selectors[0])
        if user is None or user.agent is not agent:
            message = f"The user account {selectors[0]} does not exist in the {tenant.name} directory."
            raise EntraError(400, "invalid_grant", 50034, message)
        return user

    def _refresh(self, tenant: Tenant, form: Form, client: Client) -> Answer:
        if isinstance(client, Blueprint):
            raise _unsupported("refresh_token")
        token, scope = required(form, "refresh_token"), required(form, "scope")
        with_client_info = form.get("client_info") == "1"
        return self._answers.refreshed(token, scope, client, tenant, with_client_info=with_client_info)


def unknown_application(client_id: str, where: str) -> EntraError:
    """AADSTS700016."""
    message = f"Application with identifier '{client_id}' was not found in the directory '{where}'."
    return EntraError(400, "unauthorized_client", 700016, message)


def no_credential() -> EntraError:
    """AADSTS7000218."""
    message = "The request body must contain the following parameter: 'client_assertion' or 'client_secret'."
    return EntraError(401, "invalid_client", 7000218, message)


def _unsupported(grant_type: str) -> EntraError:
    message = f"The grant type '{grant_type}' is not supported for this agent application."
    return EntraError(400, "unauthorized_client", 70003, message)


def _assertion(form: Form) -> str:
    if form.get("client_secret"):
        raise EntraError(401, "invalid_client", 7000215, "Invalid client secret provided.")
    if not form.get("client_assertion"):
        raise no_credential()
    if required(form, "client_assertion_type") != JWT_BEARER:
        raise EntraError(401, "invalid_client", 50027, "The client assertion type is not supported.")
    return form["client_assertion"]
