"""Graph's refusals and the network's failures, as typed errors that say what to do. No address is ever in them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any

from entrabot_host.errors import GraphError, GraphForbidden, GraphNotFound, GraphThrottled, GraphUnavailable
from entrabot_host.security.redaction import redact
from entrabot_host.security.text import one_line

_REMEDIES = {
    400: "Correct the request; repeating it unchanged will fail again.",
    401: "A fresh token was refused too. Check that the account is enabled and licensed, then sign in again.",
    403: "A permission, a licence or access to this is missing. Ask the tenant's administrator or its owner.",
    404: "Check the id; it may have been deleted, or this identity may not be allowed to see it.",
    409: "Something with this name or state exists already; read it first, then decide.",
    412: "It was changed in the meantime; read it again, then repeat the change.",
    423: "It is locked by somebody who edits it; try again later.",
    507: "The storage quota is used up; its owner has to make room.",
}
_PERMANENT = frozenset({501, 505, 507})
_MESSAGE_LIMIT = 300


class Reason(Enum):
    """Why there is no answer."""

    CERTIFICATE = "its certificate is not trusted"
    CONNECT = "no connection could be made"
    PROXY = "the proxy refused the connection"
    QUEUED = "too many requests were waiting their turn"
    TIMEOUT = "no answer came in time"
    BROKEN = "the connection broke"
    MALFORMED = "the request or its answer was malformed"
    TOO_LARGE = "the answer is larger than allowed"
    CLOSED = "the client is closed"


class WireFailure(Exception):
    """No answer. ``sent`` is False only when the request certainly never left this machine."""

    def __init__(self, reason: Reason, *, sent: bool) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.sent = sent

    @property
    def worth_repeating(self) -> bool:
        """Whether the same request may fare better in a moment."""
        return self.reason in (Reason.CONNECT, Reason.PROXY, Reason.TIMEOUT, Reason.BROKEN)


def unreachable(failure: WireFailure, *, safe: bool, what: str = "Microsoft Graph") -> GraphError:
    """Return the error for a request that got no answer. safe: repeating it would do no harm."""
    if failure.reason is Reason.TOO_LARGE:
        return GraphError(f"{what} sent more than allowed.", remedy="Ask for less: a smaller page or a smaller file.")
    unknown = failure.sent and not safe
    message = f"{what} could not be reached: {failure.reason.value}."
    if unknown:
        message = (
            f"{what} did not confirm the request: {failure.reason.value}. It may have been carried out all the same."
        )
    return GraphUnavailable(message, outcome_unknown=unknown, remedy=_unreachable_remedy(failure, unknown))


def _unreachable_remedy(failure: WireFailure, unknown: bool) -> str:
    if failure.reason is Reason.CERTIFICATE:
        return "If a proxy inspects traffic, name its certificate authority (a PEM file) in ENTRABOT_CA_BUNDLE."
    if failure.reason is Reason.PROXY:
        return "Check HTTPS_PROXY and NO_PROXY, and that the proxy allows this host."
    return "Check whether it was carried out before repeating it." if unknown else ""


def refusal(status: int, headers: Mapping[str, str], content: bytes, *, safe: bool, wait: float | None) -> GraphError:
    """Return the error for an answer of 400 or above. wait: the seconds that Graph asked to wait, where it did."""
    code, text, request_id = _parse(content)
    request_id = _plain(headers.get("request-id", "")) or request_id
    message = f"Microsoft Graph answered {status}{f' {code}' if code else ''}{f': {text}' if text else ''}"
    return _typed(status, message, code, request_id, safe=safe, wait=wait)


def _typed(status: int, message: str, code: str, request_id: str, *, safe: bool, wait: float | None) -> GraphError:
    known: dict[str, Any] = {"status": status, "code": code, "request_id": request_id, "retry_after": wait}
    if status == 429:
        remedy = f"Microsoft Graph is limiting requests. Wait {wait:.0f} seconds and try again." if wait else ""
        return GraphThrottled(message, remedy=remedy, **known)
    if status >= 500 and status not in _PERMANENT:
        unknown = not safe and status != 503
        return GraphUnavailable(message, outcome_unknown=unknown, remedy=_later(wait, unknown), **known)
    kind = {403: GraphForbidden, 404: GraphNotFound}.get(status, GraphError)
    return kind(message, remedy=_REMEDIES.get(status, ""), **known)


def _later(wait: float | None, unknown: bool) -> str:
    if unknown:
        return "Check whether it was carried out before repeating it."
    return f"The service is overloaded or down. Wait {wait or 60:.0f} seconds and try again."


def _parse(content: bytes) -> tuple[str, str, str]:
    """Return Graph's code, its message made fit to show, and the request id; empty where they are missing."""
    try:
        error = _get(json.loads(content), "error")
    except (ValueError, RecursionError):
        return "", "", ""
    inner = _get(error, "innererror")
    message = _get(error, "message")
    text = one_line(redact(message), _MESSAGE_LIMIT) if isinstance(message, str) else ""
    return _plain(_get(error, "code")), text, _plain(_get(inner, "request-id"))


def _get(data: Any, name: str) -> Any:
    """Services differ in how they spell ``innerError``, so case does not count."""
    if not isinstance(data, Mapping):
        return None
    return next((value for key, value in data.items() if isinstance(key, str) and key.lower() == name), None)


def _plain(value: Any) -> str:
    """A code or an id: nothing but what such a word is made of."""
    return (
        "".join(char for char in value if char.isascii() and (char.isalnum() or char in "-_."))[:80]
        if isinstance(value, str)
        else ""
    )
