"""What surrounds every request: the faults in force, and the record of what was asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from entrabot_sandbox.errors import ConnectionDroppedError, GraphError
from entrabot_sandbox.reply import Reply
from entrabot_sandbox.state import State

Refuse = Callable[[GraphError], Reply]
Handle = Callable[[], Awaitable[Reply]]


async def attend(
    state: State,
    method: str,
    path: str,
    query: str,
    handle: Handle,
    refuse: Refuse,
    *,
    batch: bool = False,
    detail: dict[str, str] | None = None,
) -> Reply:
    """Handle a request under the faults in force, and note it. Raises ConnectionDroppedError."""
    status = 0
    try:
        try:
            lose_answer = await state.faults.before(method, path)
        except GraphError as error:
            reply = refuse(error)
        else:
            reply = await handle()
            if lose_answer:
                raise ConnectionDroppedError
        status = reply.status
    finally:
        state.recorder.add(method, path, query, status, batch=batch, detail=detail or {})
    return reply
