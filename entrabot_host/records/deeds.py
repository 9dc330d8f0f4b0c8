"""What a running call has recorded of its own deed, so that nothing that contradicts it is recorded after it."""

from __future__ import annotations

from contextvars import ContextVar

DONE: ContextVar[set[str]] = ContextVar("entrabot-deeds-done")
"""The actions of which the running call has itself recorded the success. Unset outside of calls."""


def record_success(action: str) -> None:
    """Remember that the running call, if there is one, has recorded the success of an action."""
    if (done := DONE.get(None)) is not None:
        done.add(action)
