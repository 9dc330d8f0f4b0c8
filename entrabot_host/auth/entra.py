"""Single requests to Entra's token endpoint through MSAL. Blocking; call it in a worker thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from entrabot_host.auth.failures import Attempt, refused, unavailable, unreachable
from entrabot_host.auth.provider import Token
from entrabot_host.errors import AuthError, EntrabotError, NotSignedIn, TokenAudienceError
from entrabot_host.security.tls import requests_session
from entrabot_host.security.urls import origin

if TYPE_CHECKING:
    import msal
    import requests

_MAX_WAIT = 300.0

Call = Callable[["msal.ConfidentialClientApplication"], Mapping[str, Any]]
PublicCall = Callable[["msal.PublicClientApplication"], Mapping[str, Any] | None]


@dataclass(frozen=True)
class Answer:
    """A token, and what the id token that came with it says about the user (empty when there was none)."""

    token: Token
    user: Mapping[str, Any] = field(repr=False)


class _Wire:
    """The HTTP client of one request. It remembers the last response, which MSAL hides, and discovery documents.

    It goes to the sign-in service's own origin only, whatever endpoints a discovery document names: what is sent there
    are assertions, and what comes back is believed.
    """

    def __init__(self, session: requests.Session, discovered: dict[str, requests.Response], own_origin: str) -> None:
        self._session = session
        self._own_origin = own_origin
        self._discovered = discovered
        self.last: requests.Response | None = None

    def get(self, url: str, **kwargs: Any) -> requests.Response:
        self._check(url)
        if url in self._discovered:
            return self._discovered[url]
        self.last = self._session.get(url, **kwargs)
        if self.last.status_code == 200:
            self._discovered[url] = self.last
        return self.last

    def post(self, url: str, **kwargs: Any) -> requests.Response:
        self._check(url)
        self.last = self._session.post(url, **kwargs)
        return self.last

    def _check(self, url: str) -> None:
        try:
            own = origin(url) == self._own_origin
        except ValueError:
            own = False
        if not own:
            raise TokenAudienceError(
                "The sign-in service named an endpoint on another host; nothing was sent there.",
                remedy="Check ENTRABOT_LOGIN_URL and ENTRABOT_TENANT_ID.",
            )

    def close(self) -> None:
        """The session outlives the request."""


class Entra:
    """One tenant's sign-in service. May be used from several threads."""

    def __init__(self, login_url: str, tenant_id: str, ca_bundle: str) -> None:
        self._authority = f"{login_url}/{tenant_id}"
        self._ca_bundle = ca_bundle
        self._lock = threading.Lock()
        self._session: requests.Session | None = None
        self._closed = False
        self._discovered: dict[str, requests.Response] = {}
        self._leave_alone_until = 0.0

    def request(self, attempt: Attempt, credential: Mapping[str, Any], call: Call) -> Answer:
        """Make the one request that ``call`` asks of an application with a credential. Raises `AuthError`."""

        def build(wire: _Wire) -> msal.ConfidentialClientApplication:
            import msal

            return msal.ConfidentialClientApplication(
                attempt.client_id,
                client_credential=dict(credential),
                azure_region=msal.ConfidentialClientApplication.DISABLE_MSAL_FORCE_REGION,
                **self._common(wire),
            )

        result = self._run(attempt, build, call)
        if not result:
            raise unreachable(attempt, ValueError("an empty answer"))
        if "access_token" not in result:
            raise refused(attempt, result)
        return _answer(result)

    def public(self, attempt: Attempt, cache: msal.TokenCache, call: PublicCall) -> Mapping[str, Any] | None:
        """Make the one request that ``call`` asks of an application without a credential.

        Returns what MSAL says, an OAuth error document included. Raises `AuthError` where there is no such answer.
        """

        def build(wire: _Wire) -> msal.PublicClientApplication:
            import msal

            return msal.PublicClientApplication(attempt.client_id, token_cache=cache, **self._common(wire))

        result: Mapping[str, Any] | None = self._run(attempt, build, call)
        return result

    def _common(self, wire: _Wire) -> dict[str, Any]:
        return {"authority": self._authority, "http_client": wire, "instance_discovery": False}

    def _run(self, attempt: Attempt, build: Callable[[_Wire], Any], call: Callable[[Any], Any]) -> Any:
        """Make one request with an application of its own.

        One that is kept repeats a refusal from memory for a minute, and returns tokens from its cache that the service
        has refused since.
        """
        from msal.exceptions import MsalError
        from requests import RequestException

        self._check(attempt)
        wire: _Wire | None = None
        try:
            wire = _Wire(self._connect(), self._discovered, origin(self._authority))
            result = call(build(wire))
        except (RequestException, MsalError, EntrabotError, ValueError, KeyError, RuntimeError) as error:
            raise self._failure(attempt, wire, error) from None
        if not result or "error" in result:
            self._check_answered(attempt, wire)
        return result

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            self._closed = True
            if self._session is not None:
                self._session.close()
                self._session = None

    def _check(self, attempt: Attempt) -> None:
        if not self._authority.startswith("https://"):
            raise AuthError(
                f"{attempt.hop} was not tried: the sign-in service's URL is not an https one.",
                hop=attempt.hop,
                remedy="Let ENTRABOT_LOGIN_URL start with https://.",
            )
        if (wait := self._leave_alone_until - time.monotonic()) > 0:
            raise unavailable(attempt, 429, wait)

    def _connect(self) -> requests.Session:
        with self._lock:
            if self._closed:
                raise NotSignedIn("The session is closed.")
            if self._session is None:
                self._session = requests_session(self._ca_bundle)
            return self._session

    def _failure(self, attempt: Attempt, wire: _Wire | None, error: Exception) -> AuthError:
        self._discovered.clear()
        try:
            self._check_answered(attempt, wire)
        except AuthError as busy:
            return busy
        answer = _document(wire.last if wire else None) if isinstance(error, ValueError) else None
        return refused(attempt, answer) if answer else unreachable(attempt, error)

    def _check_answered(self, attempt: Attempt, wire: _Wire | None) -> None:
        """Raise when the service was too busy to say anything, and leave it alone for as long as it wants."""
        response = wire.last if wire else None
        if response is not None and (response.status_code == 429 or response.status_code >= 500):
            wait = _retry_after(response)
            self._leave_alone_until = time.monotonic() + wait
            raise unavailable(attempt, response.status_code, wait)


def token_in(result: Mapping[str, Any]) -> Token:
    """Return the access token of a successful answer."""
    expires_at = time.monotonic() + float(result.get("expires_in") or 0)
    return Token(str(result["access_token"]), expires_at)


def _answer(result: Mapping[str, Any]) -> Answer:
    return Answer(token_in(result), dict(result.get("id_token_claims") or {}))


def _document(response: requests.Response | None) -> Mapping[str, Any] | None:
    """Return the OAuth error document of a response that MSAL made an exception of, discovery's for instance."""
    if response is None or response.status_code < 400:
        return None
    try:
        document = response.json()
    except ValueError:
        return None
    return document if isinstance(document, dict) and "error" in document else None


def _retry_after(response: requests.Response) -> float:
    try:
        return min(max(float(response.headers.get("Retry-After", "0")), 0.0), _MAX_WAIT)
    except ValueError:
        return 0.0
