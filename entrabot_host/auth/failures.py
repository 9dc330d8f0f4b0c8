"""Failures of signing in as `AuthError`: which hop, Entra's code, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from entrabot_host.auth.person_failures import person_remedy
from entrabot_host.errors import AuthError, EntrabotError
from entrabot_host.security.redaction import redact

_AADSTS = re.compile(r"AADSTS(\d+)")
_TRAILER = re.compile(r"\s*(Trace ID|Correlation ID|Timestamp):.*", re.DOTALL)
_MAX_DESCRIPTION = 300

ABOUT_THE_REQUEST = frozenset({50034, 50057, 50076, 50079, 53003, 65001, 70011, 90002, 500011})
"""Refusals that new assertions would not change."""

_CLOCK = (
    "The assertion is outside its time range: this machine's clock is probably wrong. "
    "Synchronise it (NTP) and try again."
)
_TENANT = "Check ENTRABOT_TENANT_ID, and that ENTRABOT_CLOUD names the cloud in which the tenant lives."
_FIC = (
    "The agent identity does not trust this blueprint. Check that ENTRABOT_AGENT_ID names an agent identity that was "
    "created from the blueprint in ENTRABOT_BLUEPRINT_APP_ID, and that ENTRABOT_CLOUD is right."
)
_POLICY = "A Conditional Access policy stands in the way. An administrator has to exempt the agent's user account."


class Hop(StrEnum):
    """The step of the sign-in that failed."""

    BLUEPRINT = "hop 1: blueprint"
    AGENT_IDENTITY = "hop 2: agent identity"
    AGENT_USER = "hop 3: agent user"
    SILENT = "renewing a person's sign-in"
    BROWSER = "a person's sign-in with a browser"
    DEVICE_CODE = "a person's sign-in with a code"

    @property
    def is_a_persons(self) -> bool:
        """Whether a person signs in, not the agent."""
        return self in (Hop.SILENT, Hop.BROWSER, Hop.DEVICE_CODE)


@dataclass(frozen=True)
class Attempt:
    """What was tried: the hop, the app id it ran as, the resource asked for, the certificate's thumbprint."""

    hop: Hop
    client_id: str
    audience: str
    thumbprint: str = ""


def refused(attempt: Attempt, answer: Mapping[str, Any]) -> AuthError:
    """Explain an OAuth error document."""
    code = error_code(answer)
    said = _description(answer) or str(answer.get("error") or "no reason given")
    return AuthError(
        f"Entra refused {attempt.hop} for {attempt.audience}: {said}",
        hop=attempt.hop,
        code=code,
        remedy=_remedy(attempt, code),
    )


def error_code(answer: Mapping[str, Any]) -> int | None:
    """Return the AADSTS number of an OAuth error document."""
    codes = answer.get("error_codes")
    if isinstance(codes, list) and codes and isinstance(codes[0], int):
        return codes[0]
    found = _AADSTS.search(str(answer.get("error_description", "")))
    return int(found[1]) if found else None


def _description(answer: Mapping[str, Any]) -> str:
    text = _TRAILER.sub("", str(answer.get("error_description") or ""))
    return redact(" ".join(text.split()))[:_MAX_DESCRIPTION]


def _remedy(attempt: Attempt, code: int | None) -> str:
    if attempt.hop.is_a_persons:
        return person_remedy(code)
    if code in (700016, 7000112):
        return _unknown_app(attempt)
    if code == 700027:
        return _certificate(attempt)
    if code == 65001:
        return _consent(attempt)
    if code in (500011, 70011):
        return _resource(attempt)
    if code in _BY_CODE:
        return _BY_CODE[code]
    if code is not None:
        return f"Look the code up at https://login.microsoftonline.com/error?code={code}."
    return "Try again; if it persists, ask the tenant's administrator for the sign-in log of the agent."


_BY_CODE: dict[int | None, str] = {
    90002: _TENANT,
    700211: _FIC,
    700213: _FIC,
    700024: _CLOCK,
    500133: _CLOCK,
    50027: "The assertion is malformed: check that the certificate file belongs to ENTRABOT_BLUEPRINT_APP_ID.",
    50048: "The assertion was made for another app: check ENTRABOT_BLUEPRINT_APP_ID and ENTRABOT_AGENT_ID.",
    50034: "The agent's user account does not exist in the tenant: check ENTRABOT_AGENT_USER_ID.",
    50057: "The agent's user account is disabled. An administrator has to enable it.",
    50173: "The grant was revoked. Start the server again to sign in anew.",
    50076: _POLICY,
    50079: _POLICY,
    53003: _POLICY,
    7000215: "The blueprint is expected to use a certificate, not a secret: check ENTRABOT_BLUEPRINT_APP_ID.",
    7000222: "The blueprint's credential has expired. Register a new certificate.",
}


def _unknown_app(attempt: Attempt) -> str:
    variable = "ENTRABOT_BLUEPRINT_APP_ID" if attempt.hop is Hop.BLUEPRINT else "ENTRABOT_AGENT_ID"
    return (
        f"The app {attempt.client_id} is unknown or disabled in this tenant: "
        f"check {variable} (an app id, not an object id) and ENTRABOT_TENANT_ID."
    )


def _certificate(attempt: Attempt) -> str:
    if attempt.hop is not Hop.BLUEPRINT:
        return _FIC
    which = f" (SHA-256 thumbprint {attempt.thumbprint})" if attempt.thumbprint else ""
    return (
        f"The certificate{which} is not registered with the blueprint {attempt.client_id}. Register it there, or let "
        "ENTRABOT_BLUEPRINT_CERT_FILE name the one that is."
    )


def _consent(attempt: Attempt) -> str:
    return (
        f"Consent is missing: an administrator has to grant the agent identity {attempt.client_id} the permissions it "
        f"needs on {attempt.audience}. A new grant takes up to two minutes to count."
    )


def _resource(attempt: Attempt) -> str:
    return (
        f"The tenant knows no resource {attempt.audience}, or refuses its scope: check ENTRABOT_CLOUD, and that the "
        "service is enabled in the tenant."
    )


def unreachable(attempt: Attempt, error: Exception) -> AuthError:
    """Explain why there is no answer of Entra at all. ``error`` is what requests or MSAL raised."""
    said, remedy = _network(error)
    return AuthError(f"{attempt.hop} could not be tried: {said}.", hop=attempt.hop, remedy=remedy)


def _network(error: Exception) -> tuple[str, str]:
    from requests import exceptions as http

    if isinstance(error, http.SSLError):
        return (
            "the sign-in service's TLS certificate is not trusted",
            "If a proxy or a stand-in signs it, let ENTRABOT_CA_BUNDLE name a PEM file with its certificate authority.",
        )
    if isinstance(error, http.ProxyError):
        return "the proxy does not let the request through", "Check HTTPS_PROXY and NO_PROXY."
    if isinstance(error, TimeoutError | http.Timeout):
        return "the sign-in service did not answer in time", "Check the network and HTTPS_PROXY, then try again."
    if isinstance(error, http.TooManyRedirects):
        return (
            "the sign-in service answered with a redirect, which is not followed",
            "Check ENTRABOT_LOGIN_URL, and whether a proxy's sign-in page stands in between.",
        )
    if isinstance(error, http.RequestException):
        return "the sign-in service cannot be reached", "Check the network, ENTRABOT_LOGIN_URL and HTTPS_PROXY."
    if isinstance(error, EntrabotError):
        return error.message.rstrip("."), error.remedy
    return (
        "the sign-in service gave an answer that makes no sense",
        "Check ENTRABOT_TENANT_ID, ENTRABOT_LOGIN_URL and HTTPS_PROXY, then try again.",
    )


def unavailable(attempt: Attempt, status: int, wait: float) -> AuthError:
    """Explain a 429 or 5xx. wait: seconds for which Entra wants to be left alone, 0 when it did not say."""
    when = f"in {round(wait)} seconds" if wait else "in a minute"
    return AuthError(
        f"{attempt.hop} was not carried out: the sign-in service answered with status {status}.",
        hop=attempt.hop,
        remedy=f"The service is busy or disturbed. Try again {when}.",
    )
