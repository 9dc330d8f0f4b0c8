"""Which session may hand a message over, and when.

Every session that shares a conversation sees every message of it. What decides is the session that took part last, as
long as it lives: others leave it the time to do its part. Delays count from when *this* session first saw a message.
"""

from __future__ import annotations

from enum import StrEnum

PUSH_RIVAL_SECONDS = 8.0
"""One beat of the other push host, and three seconds."""
CALL_RIVAL_SECONDS = 60.0
"""A rival that cannot be pushed to may be in the middle of a long call, or about to make one."""
LEFT_OVER_SECONDS = 15.0
"""After so long a push host that is preferred has had its turns, and is not taking them."""


class Kind(StrEnum):
    """Whether a session's host shows pushes: known, supposed by its name, or not to be expected."""

    PROVEN = "proven"
    ASSUMED = "assumed"
    NONE = "none"

    @property
    def pushes(self) -> bool:
        """Whether messages are handed over by pushing them."""
        return self is not Kind.NONE


def push_delay(rival: Kind | None) -> float:
    """Return the seconds after which a push host may push a message.

    rival: the kind of the other live session that is preferred; None when it is this one, or no live session is.
    """
    if rival is None:
        return 0.0
    return PUSH_RIVAL_SECONDS if rival.pushes else CALL_RIVAL_SECONDS


def wait_delay(mine: Kind, rival: Kind | None, *, own: bool) -> float:
    """Return the seconds after which a wait may take a message. own: the wait is about that conversation."""
    if own or rival is None:
        return 0.0
    return push_delay(rival) if mine.pushes else LEFT_OVER_SECONDS


def ride_delay(mine: Kind, rival: Kind | None) -> float | None:
    """Return the seconds after which any call's result may take a message along; None for hosts that are pushed to."""
    if mine.pushes:
        return None
    return 0.0 if rival is None else LEFT_OVER_SECONDS
