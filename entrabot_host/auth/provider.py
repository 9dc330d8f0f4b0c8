"""The contract of an auth provider: who the session is, and tokens for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable


class Attribution(StrEnum):
    """In whose name actions appear in Microsoft 365."""

    AGENT = "agent"
    DELEGATED_HUMAN = "delegated-human"
    NONE = "none"


@dataclass(frozen=True)
class Principal:
    """Who a session is.

    user_id: object id in the home tenant. user_name: the UPN. agent_id: the agent identity's app id, empty for a
    person. provider: the name of the provider that signed it in.
    """

    user_id: str
    user_name: str
    tenant_id: str
    agent_id: str
    attribution: Attribution
    provider: str
    display_name: str = ""


@dataclass(frozen=True)
class Token:
    """An access token. Its text is kept out of ``repr``. ``expires_at`` is on the monotonic clock, in seconds."""

    secret: str = field(repr=False)
    expires_at: float

    @property
    def seconds_left(self) -> float:
        """Seconds until it expires; negative afterwards."""
        return self.expires_at - time.monotonic()


@runtime_checkable
class AuthProvider(Protocol):
    """Signs a session in and mints its tokens.

    The provider with the highest ``priority`` whose ``unavailable`` is None is tried first; when it fails, the next.
    Methods other than `unavailable` may be called concurrently and must make concurrent requests for one audience a
    single one on the wire. They raise `AuthError` naming the hop that failed.
    """

    @property
    def name(self) -> str:
        """``"agent-user"``."""
        ...

    @property
    def priority(self) -> int:
        """Higher is tried earlier."""
        ...

    def unavailable(self) -> str | None:
        """Why this provider cannot be used with the present settings, or None. No I/O."""
        ...

    async def sign_in(self) -> Principal:
        """Prove that the identity works by getting a token for Graph."""
        ...

    async def token(self, audience: str, *, rejected: str = "", claims: str = "") -> Token:
        """Return a token for ``audience`` (a resource URI without ``/.default``).

        rejected: the token text that the service has just refused; it is not handed out again. claims: the claims
        challenge of a 401, passed on to Entra.
        """
        ...

    async def app_token(self, audience: str, *, rejected: str = "") -> Token:
        """Return an app-only token of the agent identity. Raises `AuthError` where there is none."""
        ...

    async def aclose(self) -> None:
        """Let go of connections. No network."""
        ...


@dataclass(frozen=True)
class SignInPrompt:
    """What a person is asked to do so that a sign-in goes on. ``deadline`` is on the monotonic clock.

    sentence: all of it, for people. url, code: where a code is to be entered, and which; empty for a browser window.
    """

    sentence: str
    deadline: float
    url: str = ""
    code: str = ""

    @property
    def seconds_left(self) -> float:
        """Seconds until it is too late."""
        return max(0.0, self.deadline - time.monotonic())


@runtime_checkable
class Prompting(Protocol):
    """What an `AuthProvider` has besides if signing in may need a person."""

    @property
    def patience(self) -> float:
        """Seconds that `AuthProvider.sign_in` may take, the person's part included."""
        ...

    def on_prompt(self, listener: Callable[[SignInPrompt | None], None]) -> None:
        """Call ``listener``, on the event loop, when a person is asked for something; with None when that is over."""
        ...
