"""``read_interactions``: what was said to and by the agent lately, without asking Graph."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from entrabot_host.errors import InvalidArgument
from entrabot_host.records.days import READABLE_DAYS
from entrabot_host.records.reading import Line, Wanted, chat_of

if TYPE_CHECKING:
    from entrabot_host.application import Application

_SHOWN = ("ts", "channel", "direction", "sender", "recipient", "action", "summary", "content_ref")
EXTERNAL = ("interactions[].sender", "interactions[].summary")


class ReadInteractions:
    """Holds the application for the tool."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def read_interactions(
        self,
        chat_id: Annotated[str, Field(description="Only this chat", max_length=500)] = "",
        sender: Annotated[
            str, Field(description="Only from this sender: the whole address or name", max_length=500)
        ] = "",
        action: Annotated[str, Field(description="Only this action, as results show it", max_length=200)] = "",
        direction: Annotated[Literal["", "inbound", "outbound"], Field(description="Only one way")] = "",
        since: Annotated[
            str, Field(description="ISO 8601 time, at most seven days ago; default seven days", max_length=40)
        ] = "",
        limit: Annotated[int, Field(description="How many at most", ge=1, le=100)] = 10,
    ) -> dict[str, Any]:
        """Look up who said what to or from you lately, newest first, without asking Microsoft 365.

        Check it before you send, so that nobody is answered twice.
        """
        parts = self._application.parts
        start = _start(since, parts.now())
        wanted = Wanted(since=start, chat_id=chat_id, sender=sender, action=action, direction=direction)
        found = await parts.interactions.read(wanted, limit + 1)
        return {
            "since": start.isoformat(timespec="seconds"),
            "interactions": [_shown(line) for line in found[:limit]],
            "more": len(found) > limit,
        }


def _start(since: str, now: datetime) -> datetime:
    earliest = now - timedelta(days=READABLE_DAYS)
    if not since:
        return earliest
    try:
        start = datetime.fromisoformat(since.strip())
        start = start.replace(tzinfo=UTC) if start.tzinfo is None else start.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidArgument(
            "read_interactions: since must be an ISO 8601 time.",
            remedy="Pass something like 2026-01-31T09:00:00Z, or leave it out.",
            details={"parameter": "since"},
        ) from None
    return max(start, earliest)


def _shown(line: Line) -> dict[str, Any]:
    shown = {name: str(line[name]) for name in _SHOWN if line.get(name)}
    if (chat := chat_of(line)) and chat != shown.get("recipient"):
        shown["chat_id"] = chat
    return shown
