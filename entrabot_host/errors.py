"""Every error that reaches the model or the operator, as one tree.

::

    EntrabotError
    ├── NotStarted                    a facet was used while plugins are still being assembled
    ├── InvalidArgument               a tool argument failed validation
    ├── SettingsError                 a setting is missing, malformed or contradicts another
    │   └── StorageConfigError
    ├── AuthError                     signing in or getting a token failed; names the hop
    │   ├── NotSignedIn
    │   ├── AttributionError          no agent identity to attribute an action to (fail-closed)
    │   └── TokenAudienceError        a token was about to go to a host it must not go to
    ├── AuthorizationError            a person may not ask for this
    │   ├── RequesterNotSponsorError
    │   ├── NoActiveSponsorChannelError
    │   ├── SponsorChannelMismatchError
    │   └── RequesterNotInChatError
    ├── GraphError                    Microsoft Graph answered with an error; carries status, code, request_id
    │   ├── GraphNotFound             404
    │   ├── GraphForbidden            403
    │   ├── GraphThrottled            429, after all waiting
    │   └── GraphUnavailable          no answer, or 5xx, after all retries; `outcome_unknown` says what is known
    ├── StorageError
    │   └── ConcurrencyError          a conditional write met a newer version
    └── PluginError                   a plugin broke the contract; names the plugin
"""

from __future__ import annotations

from typing import Any, ClassVar


class EntrabotError(Exception):
    """Base of all expected failures.

    ``message`` says what happened, ``remedy`` what the reader can do. ``details`` is added to the error object that
    the model sees, so it must hold JSON values and no secrets. The type shown is the class name.
    """

    default_remedy: ClassVar[str] = ""

    def __init__(self, message: str, *, remedy: str = "", details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy or self.default_remedy
        self.details = details or {}

    def to_dict(self) -> dict[str, Any]:
        """Return the wire form: ``{"type", "message", "remedy", ...details}``."""
        return {**self.details, "type": type(self).__name__, "message": self.message, "remedy": self.remedy}


class NotStarted(EntrabotError):
    """A facet was used during assembly; only tools, tasks and lifespans may use it."""

    default_remedy = "Move the call out of the hook, into the tool, task or lifespan that the hook returns."


class InvalidArgument(EntrabotError):
    """An argument of a tool call is missing, unknown or has a wrong value. The value is never repeated."""


class SettingsError(EntrabotError):
    """A setting is missing, malformed or contradicts another; the message names it."""


class StorageConfigError(SettingsError):
    """The storage settings are incomplete; nothing falls back silently to local files."""


class AuthError(EntrabotError):
    """Signing in or getting a token failed.

    ``hop`` names the step that failed (for instance ``"hop 2: agent identity"``), ``code`` is Entra's AADSTS number.
    """

    def __init__(self, message: str, *, hop: str = "", code: int | None = None, remedy: str = "") -> None:
        details: dict[str, Any] = {}
        if hop:
            details["hop"] = hop
        if code is not None:
            details["code"] = f"AADSTS{code}"
        super().__init__(message, remedy=remedy, details=details)
        self.hop = hop
        self.code = code


class NotSignedIn(AuthError):
    """No identity is signed in, so nothing can be done in Microsoft 365."""


class AttributionError(AuthError):
    """The action cannot be attributed to an agent identity, so it was refused."""


class TokenAudienceError(AuthError):
    """A token was about to be sent to a host outside the chosen cloud. Nothing was sent."""


class AuthorizationError(EntrabotError):
    """Somebody asked for an action on a sponsor's authority that he does not have."""


class RequesterNotSponsorError(AuthorizationError):
    """The requester's address belongs to no sponsor of this agent."""

    default_remedy = "Only a sponsor may ask for this. Do not retry with another address; tell the requester."


class NoActiveSponsorChannelError(AuthorizationError):
    """The sponsor has not spoken to the agent lately enough."""

    default_remedy = "Ask the sponsor to confirm in the chat, then try again after the confirmation arrived."


class SponsorChannelMismatchError(AuthorizationError):
    """The sponsor spoke last in another conversation than the one named."""

    default_remedy = "Ask the sponsor to confirm in this chat."


class RequesterNotInChatError(AuthorizationError):
    """The sponsor is not a member of the chat named."""


class GraphError(EntrabotError):
    """Microsoft Graph refused a request.

    ``status`` is the HTTP status, ``code`` Graph's own code, ``request_id`` what Microsoft support asks for, and
    ``retry_after`` the seconds that Graph asked to wait, None where it did not say.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        code: str = "",
        request_id: str = "",
        remedy: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, remedy=remedy, details={"status": status, "code": code, "request_id": request_id})
        self.status = status
        self.code = code
        self.request_id = request_id
        self.retry_after = retry_after
        if retry_after is not None:
            self.details["retry_after"] = retry_after


class GraphNotFound(GraphError):
    """404: the thing does not exist or cannot be seen by this identity."""


class GraphForbidden(GraphError):
    """403: a permission is missing, or the thing belongs to somebody else."""


class GraphThrottled(GraphError):
    """429 to the end of all waiting; Graph did nothing."""

    default_remedy = "Microsoft Graph is limiting requests. Wait a minute and try again."


class GraphUnavailable(GraphError):
    """Graph could not be reached, or kept failing.

    ``outcome_unknown`` is true when the request may have been carried out all the same (it was sent, no answer came).
    """

    default_remedy = "Check the network and the service's status, then try again."

    def __init__(
        self,
        message: str,
        *,
        outcome_unknown: bool = False,
        status: int = 0,
        code: str = "",
        request_id: str = "",
        remedy: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(
            message, status=status, code=code, request_id=request_id, remedy=remedy, retry_after=retry_after
        )
        self.outcome_unknown = outcome_unknown
        self.details["outcome_unknown"] = outcome_unknown


class StorageError(EntrabotError):
    """Reading or writing stored state failed; what was stored before is unchanged."""


class ConcurrencyError(StorageError):
    """A conditional write found another version than the one named."""


class PluginError(EntrabotError):
    """A plugin broke the contract; the message names the plugin and the rule."""
