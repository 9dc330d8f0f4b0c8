"""The placeholder tools: announce an answer, say how it goes, and put the answer in the placeholder's place."""

from typing import Annotated, Any, Literal

import anyio
from pydantic import Field

from entrabot_host import GraphError, GraphUnavailable, Host, InvalidArgument
from entrabot_teams.composing import ContentType, Draft, Mentions
from entrabot_teams.ids import check_chat_id, check_message_id
from entrabot_teams.placeholders import Placeholder, Placeholders
from entrabot_teams.posting import Deed, Posting, Sent
from entrabot_teams.waiting import Waiting
from entrabot_teams.wire import iso

ANNOUNCE = Deed("post_thinking_placeholder", "teams.post_placeholder")
RESOLVE = Deed("resolve_placeholder", "teams.resolve_placeholder")

ALREADY_RESOLVED = "It is resolved already: the final message stays as it is."
GO_ON = "Go on; resolve_placeholder delivers the answer in any case."
_UPDATE_SECONDS = 10.0
_REFUSED_CONTENT = (400, 413)

Mode = Literal["edit", "delete_repost"]


class Thinking:
    """The tools around placeholders."""

    def __init__(self, host: Host, posting: Posting, waiting: Waiting, placeholders: Placeholders) -> None:
        self._host = host
        self._posting = posting
        self._waiting = waiting
        self._placeholders = placeholders

    async def post_thinking_placeholder(
        self,
        chat_id: Annotated[str, Field(description="Which chat to answer")],
        text: Annotated[str, Field(description="A few plain words")] = "thinking…",
    ) -> dict[str, Any]:
        """Show people in a Teams chat that you are on it, when the answer will take real work.

        Resolve it with resolve_placeholder when the answer is there.
        """
        check_chat_id(chat_id)
        draft = await self._posting.remark(text, "text")
        sent = await self._posting.post(chat_id, draft, ANNOUNCE)
        self._placeholders.of(chat_id, sent.message_id)
        self._placeholders.posted(chat_id)
        return {"placeholder_id": sent.message_id, "chat_id": chat_id, "sent_at": sent.sent_at}

    async def update_placeholder(
        self,
        chat_id: Annotated[str, Field(description="Where the placeholder is")],
        placeholder_id: Annotated[str, Field(description="From post_thinking_placeholder")],
        progress_text: Annotated[str, Field(description="A few plain words")],
    ) -> dict[str, Any]:
        """Say in a placeholder what you are doing now. Pings nobody; if it does not work, just go on."""
        check_chat_id(chat_id)
        check_message_id(placeholder_id, "placeholder_id")
        draft = await self._posting.remark(progress_text, "progress_text")
        placeholder = self._placeholders.of(chat_id, placeholder_id)
        result = {"placeholder_id": placeholder_id, "chat_id": chat_id, "updated": False}
        async with placeholder.lock:
            if placeholder.resolved:
                return result | {"reason": ALREADY_RESOLVED}
            try:
                await self._posting.improve(chat_id, placeholder_id, draft, _UPDATE_SECONDS)
            except GraphError as error:
                return result | {"reason": error.message, "_next_action": GO_ON}
        return result | {"updated": True}

    async def resolve_placeholder(
        self,
        chat_id: Annotated[str, Field(description="Where the placeholder is")],
        placeholder_id: Annotated[str, Field(description="From post_thinking_placeholder")],
        final_message: Annotated[str, Field(description="The answer")],
        content_type: Annotated[ContentType, Field(description="As when sending")] = "html",
        mentions: Annotated[Mentions | None, Field(description="As when sending")] = None,
        mode: Annotated[Mode, Field(description="delete_repost pings")] = "edit",
    ) -> dict[str, Any]:
        """Replace a placeholder by the final message. It goes out anew if Teams refuses: never send it again."""
        check_chat_id(chat_id)
        check_message_id(placeholder_id, "placeholder_id")
        draft = await self._posting.draft(final_message, content_type, mentions or [])
        placeholder = self._placeholders.of(chat_id, placeholder_id)
        async with placeholder.lock:
            if placeholder.resolved:
                raise InvalidArgument(
                    "This placeholder is resolved already.", remedy="Use send_teams_message for what is still to say."
                )
            resolve = self._edit if mode == "edit" else self._repost
            sent, more = await resolve(chat_id, placeholder_id, draft, placeholder)
        self._waiting.sent(chat_id, sent.created)
        return {"message_id": sent.message_id, "chat_id": chat_id, "sent_at": sent.sent_at, **more}

    async def _edit(
        self, chat_id: str, placeholder_id: str, draft: Draft, placeholder: Placeholder
    ) -> tuple[Sent, dict[str, Any]]:
        try:
            sent = await self._put(chat_id, placeholder_id, draft, placeholder)
        except (GraphError, InvalidArgument) as error:
            if isinstance(error, GraphError) and error.status in _REFUSED_CONTENT:
                raise
            self._host.log.info("a placeholder could not be edited, its answer goes out anew: %s", error.message)
            sent, more = await self._post_and_remove(chat_id, placeholder_id, draft, placeholder)
            return sent, {"mode": "new_message", "reason": error.message, **more}
        return sent, {"mode": "edit"}

    async def _put(self, chat_id: str, placeholder_id: str, draft: Draft, placeholder: Placeholder) -> Sent:
        edited = await self._posting.replace(chat_id, placeholder_id, draft)
        placeholder.resolved = True
        sent = Sent(chat_id, placeholder_id, iso(edited))
        await self._posting.book(sent, draft, RESOLVE)
        return sent

    async def _repost(
        self, chat_id: str, placeholder_id: str, draft: Draft, placeholder: Placeholder
    ) -> tuple[Sent, dict[str, Any]]:
        """Send first and delete afterwards, so that at no moment the answer could be lost."""
        try:
            sent, more = await self._post_and_remove(chat_id, placeholder_id, draft, placeholder)
        except GraphError as error:
            is_unknown = isinstance(error, GraphUnavailable) and error.outcome_unknown
            if is_unknown or error.status in _REFUSED_CONTENT:
                raise
            try:
                return await self._put(chat_id, placeholder_id, draft, placeholder), {
                    "mode": "edit",
                    "reason": error.message,
                }
            except (GraphError, InvalidArgument):
                raise error from None
        return sent, {"mode": "delete_repost", **more}

    async def _post_and_remove(
        self, chat_id: str, placeholder_id: str, draft: Draft, placeholder: Placeholder
    ) -> tuple[Sent, dict[str, Any]]:
        sent = await self._posting.post(chat_id, draft, RESOLVE)
        placeholder.resolved = True
        async with self._posting.certain(sent, RESOLVE):
            try:
                with anyio.fail_after(_UPDATE_SECONDS):
                    await self._posting.take_back(chat_id, placeholder_id)
            except (GraphError, InvalidArgument, TimeoutError) as error:
                self._host.log.info("a resolved placeholder could not be deleted: %s", type(error).__name__)
                return sent, {"placeholder_removed": False}
        return sent, {"placeholder_removed": True}
