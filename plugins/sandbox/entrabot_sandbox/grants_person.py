"""What people's own sign-in gets tokens for: authorization codes, device codes, refresh tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from entrabot_sandbox.authorization import AuthorizationRequest, Codes
from entrabot_sandbox.device_codes import DeviceCode, DeviceCodes
from entrabot_sandbox.directory import Directory, PublicClient, Tenant, User
from entrabot_sandbox.errors import EntraError
from entrabot_sandbox.grants_agent import no_credential
from entrabot_sandbox.oauth_forms import Form, required
from entrabot_sandbox.scopes import Requested
from entrabot_sandbox.user_answers import UserAnswers, no_consent

DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"

Answer = dict[str, Any]


class PersonGrants:
    """The grants of public clients, and what people decide about them.

    ``user_consent``: whether people may consent to what their tenant has not.
    """

    def __init__(self, directory: Directory, answers: UserAnswers) -> None:
        self._directory = directory
        self._answers = answers
        self.codes = Codes(answers.issuer.clock)
        self.device_codes = DeviceCodes(answers.issuer.clock, answers.issuer.base)
        self.user_consent = True

    def token(self, grant_type: str, tenant: Tenant | None, form: Form, client: PublicClient) -> Answer:
        """Answer a request for a token. Raises EntraError."""
        handlers: dict[str, Callable[[Tenant | None, Form, PublicClient], Answer]] = {
            "authorization_code": self._authorization_code,
            DEVICE_CODE: self._device_code,
            "refresh_token": self._refresh,
        }
        if grant_type not in handlers:
            raise no_credential()
        if form.get("client_secret") or form.get("client_assertion"):
            message = "Client is public so neither 'client_assertion' nor 'client_secret' should be presented."
            raise EntraError(401, "invalid_client", 700025, message)
        return handlers[grant_type](tenant, form, client)

    def begin_device_code(self, tenant: Tenant | None, form: Form, client: PublicClient) -> Answer:
        """Give out a device code. Raises EntraError."""
        return self.device_codes.issue(tenant, client, self._answers.requested(tenant, required(form, "scope")))

    def accept(self, asked: AuthorizationRequest | DeviceCode, user: User) -> None:
        """Note that somebody accepts a sign-in. Raises EntraError (65001) when that takes an administrator."""
        if not self._may_consent(asked.requested, asked.client, user):
            raise EntraError(400, "consent_required", 65001, no_consent(asked.client).message)
        self._answers.consent(asked.requested, asked.client, user)
        if isinstance(asked, DeviceCode):
            asked.user = user

    def _may_consent(self, requested: Requested, client: PublicClient, user: User) -> bool:
        return self.user_consent or not self._answers.lacking(requested, client, user)

    def _authorization_code(self, tenant: Tenant | None, form: Form, client: PublicClient) -> Answer:
        required(form, "code")
        code = self.codes.redeem(form, tenant, client)
        requested = self._answers.requested(tenant, form["scope"]) if form.get("scope") else code.request.requested
        return self._answer(requested, form, client, code.user, code.request.nonce)

    def _device_code(self, tenant: Tenant | None, form: Form, client: PublicClient) -> Answer:
        code, user = self.device_codes.redeem(required(form, "device_code"), client)
        return self._answer(code.requested, form, client, user)

    def _answer(self, requested: Requested, form: Form, client: PublicClient, user: User, nonce: str = "") -> Answer:
        wants = form.get("client_info") == "1"
        return self._answers.answer(requested, client, user, with_client_info=wants, nonce=nonce)

    def _refresh(self, tenant: Tenant | None, form: Form, client: PublicClient) -> Answer:
        token, scope = required(form, "refresh_token"), required(form, "scope")
        wants = form.get("client_info") == "1"
        return self._answers.refreshed(token, scope, client, tenant, with_client_info=wants)
