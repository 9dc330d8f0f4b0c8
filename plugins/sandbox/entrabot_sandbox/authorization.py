"""Authorization requests, the codes that answer them, and the addresses that the answers go to."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from urllib.parse import urlencode
from uuid import uuid4

from entrabot_sandbox.clock import Clock
from entrabot_sandbox.directory import PublicClient, Tenant, User
from entrabot_sandbox.errors import EntraError
from entrabot_sandbox.oauth_forms import Form
from entrabot_sandbox.scopes import Requested
from entrabot_sandbox.tokens import client_info
from entrabot_sandbox.user_answers import UserAnswers

QUERY, FRAGMENT, FORM_POST = "query", "fragment", "form_post"
LIFETIME = 600

_LOCALHOST = re.compile(r"http://localhost(:[0-9]{1,5})?/?", re.IGNORECASE)
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
_PROMPTS = ("login", "none", "select_account", "consent")
_MOST = 1000


@dataclass(frozen=True)
class Target:
    """Where an answer may go: a client's own address. ``tenant`` None: any organisation."""

    tenant: Tenant | None
    client: PublicClient
    redirect_uri: str
    mode: str
    state: str | None

    @property
    def origin(self) -> str:
        """Scheme, host and port of the address."""
        return self.redirect_uri.rstrip("/")

    def address(self, answer: Form) -> str:
        """The address with an answer in it; with ``form_post``, the address alone."""
        if self.mode == FORM_POST:
            return self.redirect_uri
        return f"{self.origin}/{'#' if self.mode == FRAGMENT else '?'}{urlencode(answer)}"

    def with_state(self, answer: Form) -> Form:
        """An answer with the client's own state."""
        return answer if self.state is None else {**answer, "state": self.state}


@dataclass(frozen=True)
class AuthorizationRequest:
    """What a client asks for."""

    target: Target
    requested: Requested
    challenge: str
    nonce: str
    login_hint: str
    with_client_info: bool

    @property
    def tenant(self) -> Tenant | None:
        """The tenant that people sign in to."""
        return self.target.tenant

    @property
    def client(self) -> PublicClient:
        """The application that asks."""
        return self.target.client


def read_target(tenant: Tenant | None, client: PublicClient, query: Form) -> Target:
    """Where answers to a request go. Raises EntraError (50011) when the client has no such address."""
    redirect_uri = query.get("redirect_uri", "")
    port = redirect_uri.rstrip("/").rpartition(":")[2]
    if not _LOCALHOST.fullmatch(redirect_uri) or (port.isdigit() and not 0 < int(port) < 65536):
        message = (
            f"The redirect URI '{redirect_uri}' specified in the request does not match the redirect URIs configured "
            f"for the application '{client.app_id}'."
        )
        raise EntraError(400, "invalid_request", 50011, message)
    mode = query.get("response_mode", QUERY)
    known = mode if mode in (QUERY, FRAGMENT, FORM_POST) else QUERY
    return Target(tenant, client, redirect_uri, known, query.get("state"))


def read_request(target: Target, query: Form, answers: UserAnswers) -> AuthorizationRequest:
    """The rest of a request. Raises EntraError, to be told at the target."""
    if query.get("response_mode", QUERY) not in (QUERY, FRAGMENT, FORM_POST):
        raise _invalid(70007, "'response_mode' has an unsupported value.")
    if query.get("response_type") != "code":
        message = f"response_type '{query.get('response_type', '')}' is not enabled for the application."
        raise EntraError(400, "unsupported_response_type", 700054, message)
    if not query.get("scope"):
        raise _invalid(900144, "The request must contain the following parameter: 'scope'.")
    if query.get("prompt", "login") not in _PROMPTS:
        raise _invalid(90023, "'prompt' has an unsupported value.")
    if query.get("code_challenge_method") != "S256" or not _CHALLENGE.fullmatch(query.get("code_challenge", "")):
        raise _invalid(501491, "The request must have a Code_Challenge of the method S256.")
    requested = answers.requested(target.tenant, query["scope"])
    if query.get("prompt") == "none":
        message = "Session information is not sufficient for single-sign-on."
        raise EntraError(400, "login_required", 50058, message)
    return AuthorizationRequest(
        target,
        requested,
        query["code_challenge"],
        query.get("nonce", ""),
        query.get("login_hint", ""),
        query.get("client_info") == "1",
    )


def _invalid(number: int, message: str) -> EntraError:
    return EntraError(400, "invalid_request", number, message)


@dataclass
class Code:
    """An authorization code: what was asked, who accepted."""

    request: AuthorizationRequest
    user: User
    issued: float
    used: bool = False


class Codes:
    """All codes given out."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._codes: dict[str, Code] = {}

    def issue(self, request: AuthorizationRequest, user: User) -> Form:
        """The answer to a request that somebody accepted."""
        if len(self._codes) >= _MOST:
            del self._codes[next(iter(self._codes))]
        code = "1." + secrets.token_urlsafe(96)
        self._codes[code] = Code(request, user, self._clock.time())
        answer = {"code": code}
        if request.with_client_info:
            answer["client_info"] = client_info(user)
        return {**request.target.with_state(answer), "session_state": str(uuid4())}

    def redeem(self, form: Form, tenant: Tenant | None, client: PublicClient) -> Code:
        """The code that a token request presents, once. Raises EntraError."""
        code = self._codes.get(form.get("code", ""))
        if code is None or code.request.target.client is not client:
            raise _grant(9002313, "Invalid request. Request is malformed or invalid: unknown authorization code.")
        if code.request.target.tenant is not tenant:
            raise _grant(700005, "Provided Authorization Code is intended to use against other tenant.")
        if code.used:
            message = "OAuth2 Authorization code was already redeemed, please retry with a new valid code."
            raise _grant(54005, message)
        if code.issued + LIFETIME <= self._clock.time():
            raise _grant(70008, "The provided authorization code has expired due to inactivity.")
        if form.get("redirect_uri") != code.request.target.redirect_uri:
            message = "The reply address does not match the one provided when requesting the Authorization code."
            raise _grant(500112, message)
        self._check_verifier(form.get("code_verifier", ""), code.request.challenge)
        code.used = True
        return code

    def _check_verifier(self, verifier: str, challenge: str) -> None:
        digest = hashlib.sha256(verifier.encode()).digest()
        made = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if not hmac.compare_digest(made, challenge):
            message = "The Code_Verifier does not match the code_challenge supplied in the authorization request."
            raise _grant(501481, message)


def _grant(number: int, message: str) -> EntraError:
    return EntraError(400, "invalid_grant", number, message)
