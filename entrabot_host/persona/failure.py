"""Why a persona could not be had. The messages hold nothing that a command printed or a server said."""

from __future__ import annotations

from typing import ClassVar

from entrabot_host.errors import EntrabotError


class PersonaFailed(EntrabotError):
    """The persona's server could not be asked. ``outcome`` is the heartbeat's word for it."""

    outcome: ClassVar[str] = "failed"


class TokenMintFailed(PersonaFailed):
    """The token command gave no token."""

    outcome: ClassVar[str] = "token_mint_failed"
    default_remedy: ClassVar[str] = "Run the token command yourself; it must print one token and nothing else."


class RemoteFailed(PersonaFailed):
    """The persona's server gave no usable answer."""

    outcome: ClassVar[str] = "remote_failed"
    default_remedy: ClassVar[str] = "Check that the persona's server runs and is reachable."
