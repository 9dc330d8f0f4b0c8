"""Putting messages into chats: what is sent, changed or taken back, settled when Graph's answer was lost."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.to_thread

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
)
from entrabot_teams.api import ChatApi, explained
from entrabot_teams.composing import ContentType, Draft, Mentions, compose, remark
from entrabot_teams.ids import interaction_channel
from entrabot_teams.waiting import Attention
from entrabot_teams.watching import WatchedChats
from entrabot_teams.wire import OWN_PREFIX, ChatMessage, Kind, message_of, messages_of, moment

Result = TypeVar("Result")
_SUMMARY = 300
_REMEMBERED = 200
_LOOKS = (0.0, 1.0, 3.0)
_CLOCK_SLACK = timedelta(seconds=2)
_BOOK_SECONDS = 2.0


@dataclass(frozen=True)
class Deed:
    """A way of writing: the tool as the interaction log names it, and the action as the audit log does."""

    tool: str
    action: str


@dataclass(frozen=True)
class Sent:
    """A message in a chat. created: on Graph's clock; sent_at: the same as Graph wrote it, empty when it did not."""

    chat_id: str
    message_id: str
    sent_at: str

    @property
    def created(self) -> datetime:
        """When it was sent; our own time when Graph did not say."""
        return moment(self.sent_at) or datetime.now(UTC)


class Posting:
    """Writes into chats under the agent's attribution. Shared by all tools that write."""

    def __init__(self, host: Host, api: ChatApi, watched: WatchedChats, changes: Attention) -> None:
        self._host = host
        self._api = api
        self._watched = watched
        self._changes = changes
        self._sent: deque[str] = deque(maxlen=_REMEMBERED)

    async def draft(self, message: str, content_type: ContentType, mentions: Mentions) -> Draft:
        """Check a message; in a person's name it says that the agent wrote it. Raises `InvalidArgument`."""
        prefix = await self.prefix()
        return await anyio.to_thread.run_sync(compose, message, content_type, mentions, prefix)

    async def remark(self, text: str, argument: str) -> Draft:
        """Make a short remark, as placeholders are. Raises `InvalidArgument`."""
        prefix = await self.prefix()
        return await anyio.to_thread.run_sync(remark, text, argument, prefix)

    async def prefix(self) -> str:
        """Return what stands before every text that is sent in a person's name."""
        me = await self._host.identity.me()
        return "" if me.attribution is Attribution.AGENT else f"{OWN_PREFIX} "

    async def post(self, chat_id: str, draft: Draft, deed: Deed) -> Sent:
        """Send a message and write it down.

        Raises `GraphError`; with the outcome unknown only if it was not found in the chat.
        """
        me = await self._host.identity.me()
        with explained():
            message_id, sent_at = await self._deliver(chat_id, draft, me)
        sent = Sent(chat_id, message_id, sent_at)
        async with self.certain(sent, deed):
            await _to_its_end(self._remember(sent, draft, me, deed))
        return sent

    async def replace(self, chat_id: str, message_id: str, draft: Draft) -> datetime:
        """Put a draft in a message's place, which pings nobody; return the time at Graph. Repeating it is safe.

        Raises `GraphError`; with the outcome unknown only if the chat does not show the new text.
        """
        await self.check_own(chat_id, message_id)
        try:
            return await _twice(lambda: self._api.edit_message(chat_id, message_id, draft.to_graph()))
        except GraphUnavailable as error:
            if not error.outcome_unknown or not await self._shows(chat_id, message_id, draft):
                raise
            return self._api.now()

    async def improve(self, chat_id: str, message_id: str, draft: Draft, seconds: float) -> None:
        """Put a draft in a message's place if that works at once. Raises `GraphError`."""
        await self.check_own(chat_id, message_id)
        await self._api.edit_message(chat_id, message_id, draft.to_graph(), timeout=seconds)

    async def take_back(self, chat_id: str, message_id: str) -> None:
        """Delete one of the agent's messages; readers see that there was one. Repeating it is safe."""
        await self.check_own(chat_id, message_id)
        await _twice(lambda: self._api.delete_message(chat_id, message_id))

    async def book(self, sent: Sent, draft: Draft, deed: Deed) -> None:
        """Write down what a changed message says now."""
        me = await self._host.identity.me()
        async with self.certain(sent, deed):
            await _to_its_end(self._remember(sent, draft, me, deed))

    async def check_own(self, chat_id: str, message_id: str) -> None:
        """In a person's name, raise `InvalidArgument` unless the agent wrote the message: Graph lets it change his."""
        me = await self._host.identity.me()
        if me.attribution is Attribution.AGENT:
            return
        with explained():
            found = message_of(await self._api.message(chat_id, message_id))
        if found is None or not await anyio.to_thread.run_sync(found.is_own, me):
            raise InvalidArgument(
                "The message is not one that the agent wrote.", remedy="Name a message that you sent yourself."
            )

    @asynccontextmanager
    async def certain(self, sent: Sent, deed: Deed) -> AsyncIterator[None]:
        """Audit that the message went out although the call is cancelled in the block."""
        try:
            yield
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(_BOOK_SECONDS, shield=True):
                metadata = {"message_id": sent.message_id, "wait": "cancelled"}
                try:
                    await self._host.records.audit(deed.action, sent.chat_id, Outcome.SUCCESS, metadata)
                except EntrabotError as error:
                    self._host.log.warning("a sent message could not be audited: %s", error.message)
            raise

    # --- settling ---------------------------------------------------------------------------------------------------

    async def _shows(self, chat_id: str, message_id: str, draft: Draft) -> bool:
        """Whether a message has the draft's text by now."""
        try:
            found = message_of(await self._api.message(chat_id, message_id))
        except GraphError as error:
            self._host.log.info("reading a message back after an edit failed: %s", error.message)
            return False
        return found is not None and await anyio.to_thread.run_sync(_is_it, found, draft)

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

        def may_be_it(message: ChatMessage) -> bool:
            is_candidate = (
                message.kind is Kind.MESSAGE
                and message.sender_id == me.user_id
                and message.created >= not_before
                and message.id not in self._sent
            )
            return is_candidate and _is_it(message, draft)

        candidates = messages_of(page.rows)
        return await anyio.to_thread.run_sync(lambda: next(filter(may_be_it, candidates), None))

    # --- book-keeping -----------------------------------------------------------------------------------------------

    async def _remember(self, sent: Sent, draft: Draft, me: Principal, deed: Deed) -> None:
        """Write down what was sent. It was sent: a failure here is logged and must not look like a failed send."""
        self._sent.append(sent.message_id)
        self._changes.spoke()
        entry = Interaction(
            channel=interaction_channel(sent.chat_id),
            direction=Direction.OUTBOUND,
            sender=me.user_name,
            summary=draft.text[:_SUMMARY],
            recipient=sent.chat_id,
            action=deed.tool,
            content_ref=sent.message_id,
        )
        steps: tuple[Callable[[], Awaitable[None]], ...] = (
            partial(self._host.inbox.spoke, Conversation.chat(sent.chat_id), sent.message_id),
            partial(self._host.records.interaction, entry),
            partial(self._watched.add, [sent.chat_id]),
        )
        for step in steps:
            try:
                await step()
            except EntrabotError as error:
                self._host.log.warning("a sent message could not be written down: %s", error.message)


async def _twice(request: Callable[[], Awaitable[Result]]) -> Result:
    """Repeat a request that may be repeated, once, when its outcome is unknown."""
    try:
        return await request()
    except GraphUnavailable as error:
        if not error.outcome_unknown:
            raise
        return await request()


def _is_it(message: ChatMessage, draft: Draft) -> bool:
    """Whether a message read back is the draft. Teams rewrites HTML, so bodies are never compared as they are."""
    if draft.attachments:
        return {str(one["id"]) for one in draft.attachments} <= set(message.attachments)
    return message.text().split() == draft.text.split()


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
