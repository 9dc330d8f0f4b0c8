"""Refresh tokens: what is known of each, and what they are refused for."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

from entrabot_sandbox.clock import Clock
from entrabot_sandbox.directory import User
from entrabot_sandbox.errors import EntraError

KEEP, REVOKE = "keep", "revoke"
EXPIRED, REVOKED, INTERACTION_REQUIRED = "expired", "revoked", "interaction_required"
SPOILT = (EXPIRED, REVOKED, INTERACTION_REQUIRED)

_USED = "used"
_LIFETIME = 90 * 86400
_MOST = 10_000


@dataclass
class RefreshToken:
    """For whom a refresh token was issued, to which application, when; ``state`` is empty while it is good."""

    app_id: str
    user: User
    issued: float
    state: str = ""


class RefreshTokens:
    """All of them. ``rotation``: whether a token that was used is refused from then on (Entra's are not)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tokens: dict[str, RefreshToken] = {}
        self.rotation = KEEP

    def issue(self, app_id: str, user: User) -> str:
        """A new token. The oldest of very many is forgotten."""
        if len(self._tokens) >= _MOST:
            del self._tokens[next(iter(self._tokens))]
        token = secrets.token_urlsafe(64)
        self._tokens[token] = RefreshToken(app_id, user, self._clock.time())
        return token

    def find(self, token: str, app_id: str) -> RefreshToken:
        """A token that is good. Raises EntraError with what it is refused for."""
        found = self._tokens.get(token)
        if found is None or found.app_id != app_id or found.issued + _LIFETIME <= self._clock.time():
            raise _expired()
        if found.state:
            raise _REFUSALS[found.state]()
        return found

    def use(self, token: RefreshToken) -> None:
        """Note that a token was exchanged for new ones."""
        if self.rotation == REVOKE:
            token.state = _USED

    def spoil(self, state: str, person: User | None) -> int:
        """Make the tokens of a person, or everybody's, expired, revoked or wanting a sign-in. Returns how many."""
        found = [one for one in self._tokens.values() if person is None or (one.user.home or one.user) is person]
        for token in found:
            token.state = state
        return len(found)

    def clear(self) -> None:
        """Forget all."""
        self._tokens.clear()


def _expired() -> EntraError:
    message = "The refresh token has expired due to inactivity."
    return EntraError(400, "invalid_grant", 700082, message)


def _revoked() -> EntraError:
    message = (
        "The provided grant has expired due to it being revoked, a fresh auth token is needed. The user might have "
        "changed or reset their password."
    )
    return EntraError(400, "invalid_grant", 50173, message)


def _interaction() -> EntraError:
    message = (
        "Due to a configuration change made by your administrator, or because you moved to a new location, you must "
        "use multi-factor authentication to access the resource."
    )
    claims = json.dumps({"access_token": {"capolids": {"essential": True, "values": [str(uuid4())]}}})
    extra = {"suberror": "basic_action", "claims": claims}
    return EntraError(400, "interaction_required", 50076, message, extra)


def _used() -> EntraError:
    return EntraError(400, "invalid_grant", 70000, "Authentication failed. The refresh token is not valid.")


_REFUSALS: dict[str, Callable[[], EntraError]] = {
    EXPIRED: _expired,
    REVOKED: _revoked,
    INTERACTION_REQUIRED: _interaction,
    _USED: _used,
}
