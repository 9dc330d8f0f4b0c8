"""Sending a card."""

from typing import Annotated, Any
from uuid import uuid4

from pydantic import Field

from entrabot_teams.card_layout import Card, CardType, build_result, task_status, tool_activity
from entrabot_teams.composing import Draft
from entrabot_teams.ids import check_chat_id
from entrabot_teams.posting import Deed, Posting
from entrabot_teams.waiting import Waiting

SEND_CARD = Deed("send_card", "teams.send_card")
CARD = "application/vnd.microsoft.card.adaptive"


class Cards:
    """The tool that sends cards."""

    def __init__(self, posting: Posting, waiting: Waiting) -> None:
        self._posting = posting
        self._waiting = waiting

    async def send_card(
        self,
        card_type: Annotated[CardType, Field(description="Kind")],
        chat_id: Annotated[str, Field(description="Required")] = "",
        title: Annotated[str, Field(description="Its name")] = "",
        status: Annotated[str, Field(description="tool, task")] = "complete",
        detail: Annotated[str, Field(description="tool, task")] = "",
        duration: Annotated[str, Field(description="task, build")] = "",
        passed: Annotated[bool, Field(description="build")] = True,
        summary: Annotated[str, Field(description="build")] = "",
        details_text: Annotated[str, Field(description="build: output")] = "",
        extra: Annotated[str, Field(description="task: name: value lines")] = "",
    ) -> dict[str, Any]:
        """Report to a Teams chat with a card; plain text, trimmed."""
        check_chat_id(chat_id)
        prefix = await self._posting.prefix()
        match card_type:
            case "tool_activity":
                card = tool_activity(prefix, title, status, detail)
            case "task_status":
                card = task_status(prefix, title, status, detail, duration, extra)
            case "build_result":
                card = build_result(prefix, title, passed, summary, details_text, duration)
        sent = await self._posting.post(chat_id, _draft(card), SEND_CARD)
        self._waiting.sent(chat_id, sent.created)
        shown: dict[str, Any] = {"message_id": sent.message_id, "chat_id": chat_id, "sent_at": sent.sent_at}
        return shown | ({"trimmed": card.trimmed} if card.trimmed else {})


def _draft(card: Card) -> Draft:
    card_id = uuid4().hex
    attachment = {
        "id": card_id,
        "contentType": CARD,
        "contentUrl": None,
        "content": card.to_json(),
        "name": None,
        "thumbnailUrl": None,
    }
    return Draft(f'<attachment id="{card_id}"></attachment>', "html", card.fallback, attachments=[attachment])
