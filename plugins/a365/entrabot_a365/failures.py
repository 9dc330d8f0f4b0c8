"""What the network, the sign-in service and a server's HTTP say, as typed errors, and whether to try again."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any

from entrabot_a365.errors import A365CallError, A365ConsentMissingError, A365Error, A365TokenError
from entrabot_host import AuthError, EntrabotError, NotSignedIn, TokenAudienceError

LONGEST_WAIT = 10.0
LOOK_FIRST = "Look whether it is there before you repeat it: read_word_document shows comments, the OneDrive documents."
_CONSENT_CODES = (65001, 65004, 90094)
_SHOWN = 200
_REMEDIES = {
    404: "Tell the operator that the manifest's address of this server is wrong, or the server was retired.",
    406: "Tell the operator: the server does not accept the way in which it was asked. A newer version may help.",
    429: "The service limits requests. Wait a minute and try again.",
}


class Again(Enum):
    """When a failed request may be sent once more."""

    NEVER = auto()
    IF_IT_ONLY_READS = auto()
    ALWAYS = auto()
    """The server has certainly done nothing."""


class Failure(Exception):
    """Why there is no answer. Internal: callers get ``error``.

    unknown: whether the server may have done what was asked. session_lost: a new session is needed. wait: seconds.
    """

    def __init__(
        self,
        error: EntrabotError,
        again: Again = Again.NEVER,
        *,
        unknown: bool = False,
        session_lost: bool = False,
        wait: float = 0.0,
    ) -> None:
        super().__init__(error.message)
        self.error = error
        self.again = again
        self.unknown = unknown
        self.session_lost = session_lost
        self.wait = wait

    def before_the_call(self) -> Failure:
        """Return it as a failure of what precedes a call and does nothing: connecting, listing tools."""
        again = Again.NEVER if self.again is Again.NEVER else Again.ALWAYS
        return Failure(self.error, again, session_lost=self.session_lost, wait=self.wait)


def from_token(error: AuthError) -> EntrabotError:
    """Return what it means here; that nobody is signed in, or a refused target, stays as it is."""
    if isinstance(error, NotSignedIn | TokenAudienceError | A365Error):
        return error
    if error.code in _CONSENT_CODES:
        return A365ConsentMissingError("The agent has no consent for this Work IQ server.", details=error.details)
    return A365TokenError(
        f"There is no token for this Work IQ server: {error.message}", remedy=error.remedy, details=error.details
    )


def unreachable(error: BaseException, *, sent: bool) -> Failure:
    """Explain a broken or refused connection, without its text: that may hold an address."""
    remedy = "Check the network and the service's status, then try again."
    why = "the connection broke" if sent else "no connection could be made"
    if _is_certificate(error):
        why = "its certificate is not trusted"
        remedy = "If a proxy inspects traffic, the operator names its certificate authority in ENTRABOT_CA_BUNDLE."
    elif "Timeout" in type(error).__name__:
        why = "no answer came in time"
    again = Again.IF_IT_ONLY_READS if sent else Again.ALWAYS
    return Failure(A365CallError(f"The Work IQ server did not answer: {why}.", remedy=remedy), again, unknown=sent)


def by_status(status: int, headers: Mapping[str, str], body: bytes, *, in_session: bool) -> Failure:
    """Explain an HTTP status of 400 or above. in_session: the request belonged to a session, which may be over."""
    said = _said(body)
    message = f"The Work IQ server answered {status}{f': {said}' if said else ''}"
    if status == 401:
        return Failure(
            A365TokenError(
                "The Work IQ server refused a fresh token of the manifest's audience.",
                remedy="Tell the operator to check the server's audience in ToolingManifest.json.",
            )
        )
    if status == 403:
        return Failure(A365ConsentMissingError(message, details={"status": status}))
    if status in (400, 404) and in_session:
        return Failure(A365CallError(message, status=status), Again.ALWAYS, session_lost=True)
    if status == 429 or status == 503:
        return _later(status, message, headers)
    remedy = _REMEDIES.get(status, "" if status < 500 else "The service is disturbed. Try again in some minutes.")
    again = Again.IF_IT_ONLY_READS if status in (500, 502, 504) else Again.NEVER
    remedy = remedy or "Tell the operator; repeating it unchanged will fail again."
    return Failure(A365CallError(message, status=status, remedy=remedy), again, unknown=status >= 500)


def _later(status: int, message: str, headers: Mapping[str, str]) -> Failure:
    wait = _seconds(headers.get("retry-after", ""))
    again = Again.ALWAYS if status == 429 else Again.IF_IT_ONLY_READS
    remedy = f"The service is busy. Wait {wait:.0f} seconds and try again." if wait else _REMEDIES[429]
    error = A365CallError(message, status=status, remedy=remedy)
    return Failure(error, again if wait <= LONGEST_WAIT else Again.NEVER, wait=wait or 1.0)


def _seconds(text: str) -> float:
    return float(text) if re.fullmatch(r"\d{1,6}", text.strip()) else 0.0


def _said(body: bytes) -> str:
    """Return the message of an error document, JSON-RPC's or another; empty when there is none."""
    try:
        error = json.loads(body)["error"]
        text: Any = error["message"] if isinstance(error, dict) else error
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""
    return one_line(text) if isinstance(text, str) else ""


def one_line(text: str) -> str:
    """Return the beginning of a server's words, on one line."""
    line = " ".join(text[: _SHOWN * 4].split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


def _is_certificate(error: BaseException | None) -> bool:
    for _ in range(8):
        if error is None:
            return False
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False
