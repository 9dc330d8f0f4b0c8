"""When to repeat a request, and after how long."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from entrabot_host.graph.failures import WireFailure

MAX_TRIES = 5
FIRST_WAIT = 0.5
LONGEST_WAIT = 10.0

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
DID_NOTHING = frozenset({429, 424})
TRANSIENT = frozenset({502, 503, 504})


@dataclass(frozen=True)
class Retry:
    """The rule of one request. safe: repeating it would do no harm."""

    safe: bool
    jitter: Callable[[float, float], float] = random.uniform

    def after_answer(self, status: int, retry_after: float | None, tries: int) -> float | None:
        """Return the seconds to wait before repeating, or None to leave it. tries: how often it was sent."""
        if tries >= MAX_TRIES or not (status in DID_NOTHING or (self.safe and status in TRANSIENT)):
            return None
        return self.backoff(tries) if retry_after is None else retry_after

    def after_failure(self, failure: WireFailure, tries: int) -> float | None:
        """Return the seconds to wait before repeating a request that got no answer, or None to leave it."""
        if tries >= MAX_TRIES or not failure.worth_repeating or (failure.sent and not self.safe):
            return None
        return self.backoff(tries)

    def backoff(self, tries: int) -> float:
        """Return half to the whole of a wait that doubles with every try, up to a bound."""
        wait: float = min(LONGEST_WAIT, FIRST_WAIT * 2 ** (tries - 1))
        return self.jitter(wait / 2, wait)
