"""The documented request limits of the Teams part of Graph, per application and tenant."""

from __future__ import annotations

import time
from collections import defaultdict, deque

from entrabot_sandbox.errors import GraphError

LIMITS = {"get_message": 20, "post_message": 20, "get_other": 30, "other": 30}
WINDOW = 1.0


class Throttle:
    """Counts requests over a sliding second; refused ones count too, so hammering does not help."""

    def __init__(self) -> None:
        self.enabled = True
        self._seen: dict[tuple[str, str, str], deque[float]] = defaultdict(deque)

    def reset(self) -> None:
        """As at start: on, with nothing counted."""
        self.enabled = True
        self._seen.clear()

    def admit(self, app_id: str, tenant_id: str, kind: str) -> None:
        """Let one request pass. Raises GraphError (429 with Retry-After) above the limit."""
        if not self.enabled:
            return
        seen, now = self._seen[app_id, tenant_id, kind], time.monotonic()
        while seen and seen[0] <= now - WINDOW:
            seen.popleft()
        seen.append(now)
        if len(seen) > LIMITS[kind]:
            raise GraphError(429, "TooManyRequests", "Too many requests.", {"Retry-After": "1"})


def kind_of(method: str, segments: list[str]) -> str | None:
    """Which limit a Teams request falls under; None for requests that are not Teams'."""
    if "chats" not in segments:
        return None
    about_messages = "messages" in segments
    if method == "GET":
        return "get_message" if about_messages else "get_other"
    if method == "POST" and segments[-1] == "messages":
        return "post_message"
    return "other"
