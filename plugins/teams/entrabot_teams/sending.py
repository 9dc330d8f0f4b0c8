"""Sending a message, and taking one back."""

from typing import Annotated, Any

from pydantic import Field

from entrabot_host import EntrabotError, GraphForbidden, GraphNotFound, Host, ToolContext
from entrabot_teams.composing import ContentType, Mentions
from entrabot_teams.ids import check_chat_id, check_message_id
from entrabot_teams.posting import Deed, Posting, Sent
from entrabot_teams.replies import NOT_WAITED
from entrabot_teams.waiting import Waiting

SEND = Deed("send_teams_message", "teams.send_message")


class Sending:
    """The tools that send messages and take them back."""

    def __init__(self, host: Host, posting: Posting, waiting: Waiting) -> None:
        self._host = host
        self._posting = posting
        self._waiting = waiting

    async def send_teams_message(
        self,
        message: Annotated[str, Field(description="At most 28 KB")],
        content_type: Annotated[ContentType, Field(description="Not text for links, lists")] = "html",
        mentions: Annotated[
            Mentions | None,
            Field(description='{"id": 0, "name", "user_id"} per <at id="0">Name</at>'),
        ] = None,
        chat_id: Annotated[str, Field(description="Required")] = "",
        ctx: ToolContext | None = None,
    ) -> dict[str, Any]:
        """Send to the Teams chat of the message you answer, or one from create_chat. Do what _next_action says.

        After an unknown outcome read the chat before you repeat it.
        """
        check_chat_id(chat_id)
        draft = await self._posting.draft(message, content_type, mentions or [])
        sent = await self._posting.post(chat_id, draft, SEND)
        async with self._posting.certain(sent, SEND):
            shown = {"message_id": sent.message_id, "chat_id": chat_id, "sent_at": sent.sent_at}
            return shown | await self._reply(sent, ctx)

    async def _reply(self, sent: Sent, ctx: ToolContext | None) -> dict[str, Any]:
        """Wait for an answer where the host shows none. A failure here must not look like a send that failed."""
        self._waiting.sent(sent.chat_id, sent.created)
        if not self._waiting.sends_wait:
            return {}
        try:
            return await self._waiting.after_send(sent.chat_id, sent.created, ctx)
        except EntrabotError as error:
            self._host.log.warning("waiting for a reply failed: %s", error.message)
            return {"_next_action": f"{NOT_WAITED} ({error.message})"}

    async def delete_teams_message(
        self,
        message_id: Annotated[str, Field(description="One of your own")],
        chat_id: Annotated[str, Field(description="Required: where it is")] = "",
    ) -> dict[str, Any]:
        """Delete a Teams message that you sent. People still see that there was one, and may have read it."""
        check_chat_id(chat_id)
        check_message_id(message_id)
        try:
            await self._posting.take_back(chat_id, message_id)
        except GraphForbidden as error:
            error.remedy = "Only your own messages can be deleted, in chats that you are in."
            raise
        except GraphNotFound as error:
            error.remedy = "There is no such message in this chat. read_teams_messages shows message_id and is_me."
            raise
        return {"message_id": message_id, "chat_id": chat_id, "deleted": True}
