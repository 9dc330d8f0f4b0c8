"""``bootstrap_body_state``: where things stand, at the start of a session. An index, no content."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from entrabot_host.delivery.record import parse, record_key
from entrabot_host.errors import EntrabotError
from entrabot_host.host import Conversation
from entrabot_host.records.interactions import Tally

if TYPE_CHECKING:
    from entrabot_host.application import Application

_PART_SECONDS = 20.0
_TOP = 5
_UNSEEN = 20


class BodyState:
    """Holds the application for the tool."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def bootstrap_body_state(self) -> dict[str, Any]:
        """Get your bearings at the start of a session: today's counts, busiest chats, what is unseen, what you owe.

        It holds no messages; read those with read_interactions.
        """
        contributions = self._application.assembly.contributions
        sections = {name: section for part in contributions for name, section in part.body_state.items()}
        values = await asyncio.gather(*(_bounded(section) for section in sections.values()))
        return dict(zip(sections, values, strict=True))

    def sections(self) -> dict[str, Callable[[], Awaitable[Any]]]:
        """The host's own."""
        return {"today": self._today, "unseen": self._unseen, "polling": self._polling}

    async def _today(self) -> dict[str, Any]:
        parts = self._application.parts
        now = parts.now()
        tally = await parts.interactions.tally(now.date())
        top = tally.chats.most_common(_TOP)
        cursors = await asyncio.gather(*(self._cursor(chat) for chat, _ in top))
        return {
            "day": f"{now:%Y-%m-%d}",
            "inbound": tally.directions["inbound"],
            "outbound": tally.directions["outbound"],
            "by_channel": dict(tally.channels),
            "top_chats": [_chat(chat, tally, cursor) for (chat, _), cursor in zip(top, cursors, strict=True)],
        }

    async def _cursor(self, chat: str) -> dict[str, Any]:
        """How far a chat is done, and how long ago that was written; nothing for what is no chat."""
        key = record_key(Conversation.chat(chat))
        entry = await (await self._application.parts.backend()).read(key)
        if entry is None:
            return {}
        return {"read_to": parse(entry.data, key).floor.isoformat(timespec="seconds"), "seconds_ago": round(entry.age)}

    async def _unseen(self) -> dict[str, Any]:
        waiting = await self._application.parts.inbox_service.unseen(_UNSEEN + 1)
        messages = [
            {
                "kind": str(one.conversation.kind),
                "conversation": one.conversation.id,
                "message_id": one.message.id,
                "created": one.message.created.isoformat(timespec="seconds"),
                "sponsor": one.sponsor,
            }
            for one in waiting[:_UNSEEN]
        ]
        return {"count": len(messages), "more": len(waiting) > _UNSEEN, "messages": messages}

    async def _polling(self) -> list[dict[str, Any]]:
        kept = ("name", "last_success_seconds_ago", "last_error", "waiting_for")
        states = self._application.runtime.supervisor.describe()
        return [{name: state[name] for name in kept if name in state} for state in states]


def _chat(chat: str, tally: Tally, cursor: dict[str, Any]) -> dict[str, Any]:
    shown = {"chat_id": chat, "count": tally.chats[chat], "last": tally.last.get(chat, "")}
    return {**shown, "cursor": cursor} if cursor else shown


async def _bounded(part: Callable[[], Awaitable[Any]]) -> Any:
    """Run one part; what fails says so in its place, and the others are there."""
    try:
        async with asyncio.timeout(_PART_SECONDS):
            return await part()
    except TimeoutError:
        message = f"No answer within {_PART_SECONDS:g} seconds."
        return {"error": {"type": "Timeout", "message": message, "remedy": "Call whoami to see what is wrong."}}
    except EntrabotError as error:
        return {"error": error.to_dict()}
    except Exception as error:  # a plugin's section: its bug must not take the others away
        message = f"The section itself failed: {type(error).__name__}."
        return {"error": {"type": "InternalError", "message": message, "remedy": "Report it to the plugin's author."}}
