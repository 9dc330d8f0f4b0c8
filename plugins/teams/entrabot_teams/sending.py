"""Sending messages: checked before Graph sees them, and settled when the outcome of a send is unknown."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Any, Literal

import anyio
import anyio.to_thread
from pydantic import Field

from entrabot_host import (
    Attribution,
    Conversation,
    Direction,
    EntrabotError,
    GraphError,
    GraphUnavailable,
    Host,
    Interaction,
    InvalidArgument,
    Outcome,
    Principal,
    ToolContext,
)
from entrabot_teams.api import ChatApi, explained
from entrabot_teams.ids import check_chat_id, interaction_channel
from entrabot_teams.mentions import graph_mentions
from entrabot_teams.replies import NOT_WAITED
from entrabot_teams.text import html_to_text, mention_tags
from entrabot_teams.waiting import Attention, Waiting
from entrabot_teams.watching import WatchedChats
from entrabot_teams.wire import OWN_PREFIX, ChatMessage, Kind, messages_of, moment

AUDIT_ACTION = "teams.send_message"
MAX_BYTES = 28 * 1024
_SUMMARY = 300
_REMEMBERED = 200
_LOOKS = (0.0, 1.0, 3.0)
_CLOCK_SLACK = timedelta(seconds=2)
_BOOK_SECONDS = 2.0

ContentType = Literal["text", "html"]
Mentions = list[dict[str, Any]]


@dataclass(frozen=True)
class Draft:
    """A message that passed all checks. ``text`` is its plain text, by which it is recognised when read back."""

    content: str
    content_type: ContentType
    mentions: Mentions
    text: str

    def to_graph(self) -> dict[str, Any]:
        """Return the body of the request that sends it."""
        message: dict[str, Any] = {"body": {"contentType": self.content_type, "content": self.content}}
        if self.mentions:
            message["mentions"] = self.mentions
        return message


def compose(message: str, content_type: ContentType, mentions: Mentions, prefix: str = "") -> Draft:
    """Check a message and return what is to be sent. Parses HTML: call it in a worker thread.

    Raises `InvalidArgument`.
    """
    content = f"{prefix}{message}"
    size = len(content.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise InvalidArgument(
            f"message is too long: {size} bytes, the limit is {MAX_BYTES}.",
            remedy="Shorten it, send it in several messages, or share a file.",
        )
    if content_type == "text":
        if mentions:
            raise InvalidArgument("mentions need content_type html.", remedy="Send the message as html.")
        body, text, sent_mentions = message, content.strip(), mentions
    else:
        body, text = html_to_text(message), html_to_text(content)
        sent_mentions = graph_mentions(mentions, mention_tags(message))
    if not body.strip():
        raise InvalidArgument("message is empty.", remedy="Say something that people can read.")
    return Draft(content, content_type, sent_mentions, text)


class Sending:
    """The tools that write into chats."""

    def __init__(self, host: Host, api: ChatApi, watched: WatchedChats, changes: Attention, waiting: Waiting) -> None:
        self._host = host
        self._api = api
        self._watched = watched
        self._changes = changes
        self._waiting = waiting
        self._sent: deque[str] = deque(maxlen=_REMEMBERED)

    async def send_teams_message(
        self,
        message: Annotated[str, Field(description="At most 28 KB")],
        content_type: Annotated[ContentType, Field(description="html for links, lists, code, mentions")] = "html",
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
        me = await self._host.identity.me()
        prefix = "" if me.attribution is Attribution.AGENT else f"{OWN_PREFIX} "
        draft = await anyio.to_thread.run_sync(compose, message, content_type, mentions or [], prefix)
        with explained():
            message_id, sent_at = await self._deliver(chat_id, draft, me)
        try:
            await _to_its_end(self._remember(chat_id, message_id, draft, me))
            sent = {"message_id": message_id, "chat_id": chat_id, "sent_at": sent_at}
            return sent | await self._reply(chat_id, moment(sent_at) or datetime.now(UTC), ctx)
        except anyio.get_cancelled_exc_class():
            await self._audit_cancelled(chat_id, message_id)
            raise

    async def _audit_cancelled(self, chat_id: str, message_id: str) -> None:
        """Write down that the message went out although its call ends here."""
        with anyio.move_on_after(_BOOK_SECONDS, shield=True):
            try:
                metadata = {"message_id": message_id, "wait": "cancelled"}
                await self._host.records.audit(AUDIT_ACTION, chat_id, Outcome.SUCCESS, metadata)
            except EntrabotError as error:
                self._host.log.warning("a sent message could not be audited: %s", error.message)

    async def _reply(self, chat_id: str, created: datetime, ctx: ToolContext | None) -> dict[str, Any]:
        """Wait for an answer where the host shows none. A failure here must not look like a send that failed."""
        self._waiting.sent(chat_id, created)
        if not self._waiting.sends_wait:
            return {}
        try:
            return await self._waiting.after_send(chat_id, created, ctx)
        except EntrabotError as error:
            self._host.log.warning("waiting for a reply failed: %s", error.message)
            return {"_next_action": f"{NOT_WAITED} ({error.message})"}

    async def _deliver(self, chat_id: str, draft: Draft, me: Principal) -> tuple[str, str]:
        """Send and return the message's id and time, also when only reading the chat back tells them."""
        began = time.monotonic()
        try:
            sent = await self._api.post_message(chat_id, draft.to_graph())
        except GraphUnavailable as error:
            if not error.outcome_unknown:
                raise
            return await self._settle(chat_id, draft, me, began)
        if not sent.get("id"):
            return await self._settle(chat_id, draft, me, began)
        return str(sent["id"]), str(sent.get("createdDateTime") or "")

    async def _settle(self, chat_id: str, draft: Draft, me: Principal, began: float) -> tuple[str, str]:
        """Look for the message in the chat. Raises `GraphUnavailable` with the outcome unknown if it is not there."""
        for pause in _LOOKS:
            await anyio.sleep(pause)
            try:
                found = await self._find(chat_id, draft, me, began)
            except GraphError as error:
                self._host.log.info("reading a chat back after a send failed: %s", error.message)
                continue
            if found:
                return found.id, found.created.isoformat().replace("+00:00", "Z")
        raise GraphUnavailable(
            "Whether the message was sent is not known: the connection broke, and it is not in the chat so far.",
            outcome_unknown=True,
            remedy="Do not simply repeat it. Look with read_teams_messages in a minute; send again if it is not there.",
        )

    async def _find(self, chat_id: str, draft: Draft, me: Principal, began: float) -> ChatMessage | None:
        page = await self._api.newest_messages(chat_id, 50)
        if page.served is None:
            return None
        not_before = page.served - timedelta(seconds=time.monotonic() - began) - _CLOCK_SLACK

        def is_it(message: ChatMessage) -> bool:
            is_candidate = (
                message.kind is Kind.MESSAGE
                and message.sender_id == me.user_id
                and message.created >= not_before
                and message.id not in self._sent
            )
            return is_candidate and message.text().split() == draft.text.split()

        candidates = messages_of(page.rows)
        return await anyio.to_thread.run_sync(lambda: next(filter(is_it, candidates), None))

    async def _remember(self, chat_id: str, message_id: str, draft: Draft, me: Principal) -> None:
        """Write down what was sent. It was sent: a failure here is logged and must not look like a failed send."""
        self._sent.append(message_id)
        self._changes.spoke()
        entry = Interaction(
            channel=interaction_channel(chat_id),
            direction=Direction.OUTBOUND,
            sender=me.user_name,
            summary=draft.text[:_SUMMARY],
            recipient=chat_id,
            action="send_teams_message",
            content_ref=message_id,
        )
        steps: tuple[Callable[[], Awaitable[None]], ...] = (
            partial(self._host.inbox.spoke, Conversation.chat(chat_id), message_id),
            partial(self._host.records.interaction, entry),
            partial(self._watched.add, [chat_id]),
        )
        for step in steps:
            try:
                await step()
            except EntrabotError as error:
                self._host.log.warning("a sent message could not be written down: %s", error.message)


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Await ``work``; a cancellation meanwhile is passed on when it is done, or after `_BOOK_SECONDS`."""
    task = asyncio.create_task(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        with anyio.move_on_after(_BOOK_SECONDS, shield=True):
            await asyncio.wait({task})
        task.cancel()
        raise
