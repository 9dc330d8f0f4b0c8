"""A provider that cannot be used, and says why."""

from __future__ import annotations

from entrabot_host.auth.provider import Principal, Token
from entrabot_host.errors import EntrabotError, NotSignedIn


class UnusableProvider:
    """Stands in for a provider whose settings are wrong, so that the reason reaches whoever asks."""

    def __init__(self, name: str, priority: int, cause: EntrabotError) -> None:
        self.name = name
        self.priority = priority
        self._cause = cause

    def unavailable(self) -> str | None:
        """The reason."""
        return self._cause.message

    async def sign_in(self) -> Principal:
        """Raise the reason."""
        raise self._refusal()

    async def token(self, audience: str, *, rejected: str = "", claims: str = "") -> Token:
        """Raise the reason."""
        raise self._refusal()

    async def app_token(self, audience: str, *, rejected: str = "") -> Token:
        """Raise the reason."""
        raise self._refusal()

    async def aclose(self) -> None:
        """Nothing to let go of."""

    def _refusal(self) -> NotSignedIn:
        return NotSignedIn(self._cause.message, remedy=self._cause.remedy)
