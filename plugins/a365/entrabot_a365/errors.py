"""What may go wrong with Agent 365, typed as the tools report it."""

from __future__ import annotations

from entrabot_host import EntrabotError


class A365Error(EntrabotError):
    """Something about Agent 365 Work IQ."""


class A365ManifestNotFoundError(A365Error):
    """There is no tooling manifest, so no Work IQ server is known."""

    default_remedy = (
        "Tell the operator: write ToolingManifest.json with the Agent 365 CLI (a365 develop add-mcp-servers) and name "
        "it in ENTRABOT_A365_TOOLING_MANIFEST."
    )


class A365ManifestInvalidError(A365Error):
    """The tooling manifest cannot be read or makes no sense."""

    default_remedy = "Tell the operator to have the Agent 365 CLI write ToolingManifest.json anew."


class A365ServerNotConfiguredError(A365Error):
    """The manifest names no server that could do this."""


class A365TokenError(A365Error):
    """There is no token for a Work IQ server, or the server refuses it."""

    default_remedy = "Try again in a minute; whoami says more about the sign-in."


class A365ConsentMissingError(A365Error):
    """Consent, a licence or a policy stands between the agent and a Work IQ server."""

    default_remedy = (
        "Tell the operator: an administrator has to grant the agent the Work IQ server's permission; its user also "
        "needs a Microsoft 365 Copilot licence. A new grant takes up to two minutes to count."
    )


class A365CallError(A365Error):
    """A call of a Work IQ server failed.

    status: the HTTP status, 0 when there was none. outcome_unknown: whether what was to be made may exist all the same.
    """

    default_remedy = "Try again in a minute; if it persists, tell the operator."

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        outcome_unknown: bool = False,
        correlation_id: str = "",
        remedy: str = "",
    ) -> None:
        details = {"outcome_unknown": outcome_unknown}
        more = {"status": status, "correlation_id": correlation_id}
        super().__init__(message, remedy=remedy, details=details | {key: value for key, value in more.items() if value})
        self.status = status
        self.outcome_unknown = outcome_unknown


class A365ResultTooLargeError(A365Error):
    """What the server sent is larger than a model should be shown."""
