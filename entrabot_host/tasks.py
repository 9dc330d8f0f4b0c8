"""What a plugin says about work that runs by itself, and about its health."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum


class Gate(StrEnum):
    """When a background task may run at all."""

    ALWAYS = "always"
    """From the moment the client has begun."""
    SIGNED_IN = "signed-in"
    """Once any identity is signed in."""
    AGENT_USER = "agent-user"
    """Only when the session is the agent's own identity, not a person's."""


@dataclass(frozen=True, kw_only=True)
class BackgroundTask:
    """One iteration of recurring work, owned and timed by the host.

    run: does one iteration. It may return the seconds until the next one, else ``interval`` counts. An exception is
    logged, shown in ``whoami`` and followed by a growing pause; it stops nothing else. timeout: seconds after which
    an iteration is cancelled. provides: capabilities that tools may need, ``"sponsor-presence"``.
    """

    name: str
    run: Callable[[], Awaitable[float | None]]
    interval: float
    description: str
    gate: Gate = Gate.SIGNED_IN
    timeout: float = 300.0
    provides: tuple[str, ...] = ()


@dataclass(frozen=True)
class Health:
    """The outcome of a check: ``ok``, one line about it, and what to do when it is not."""

    ok: bool
    summary: str
    remedy: str = ""


@dataclass(frozen=True)
class HealthCheck:
    """A named check for ``whoami``. It should end within seconds; the host cuts it off."""

    name: str
    run: Callable[[], Awaitable[Health]]
