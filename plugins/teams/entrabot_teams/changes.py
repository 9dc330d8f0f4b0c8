"""The change source: finds watched chats with news, reads them, and hands what people wrote to the inbox."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from entrabot_host import Attribution, Conversation, EntrabotError, GraphError, Host, Position, Principal
from entrabot_teams.api import ChatApi
from entrabot_teams.chatstate import ChatState
from entrabot_teams.listing import ChatListing
from entrabot_teams.reader import ChatReader, Reading, news
from entrabot_teams.settings import TeamsSettings
from entrabot_teams.watching import WatchedChats
from entrabot_teams.wire import Head, messages_of

_AT_ONCE = 4
_PER_BEAT = 200
_PEEKS_PER_BEAT = 60
_PEEK_SECONDS = 60.0
_CHAT_SECONDS = 60.0
_CONVERSATION_SECONDS = 120.0
_SHOWN = 10
_INSTANT = timedelta(milliseconds=1)


class ChangeSource:
    """Looks at all watched chats once a beat; a quiet beat costs one request where Graph sorts chats."""

    def __init__(
        self,
        host: Host,
        api: ChatApi,
        watched: WatchedChats,
        settings: TeamsSettings,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = host
        self._api = api
        self._watched = watched
        self._settings = settings
        self._now = now
        self._listing = ChatListing(api, host.log, now)
        self._reader = ChatReader(api)
        self._states: dict[str, ChatState] = {}
        self._last_activity = float("-inf")
        self._given_up = 0

    # --- background tasks -------------------------------------------------------------------------------------------

    async def beat(self) -> float | None:
        """Look once. Returns the seconds until the next look when they are not the usual ones."""
        me = await self._host.identity.me()
        watched = await self._watched.all()
        is_agent = me.attribution is Attribution.AGENT
        if not watched and not is_agent:
            return None
        pages = await self._look(watched, is_agent=is_agent)
        watched = await self._watched.all()
        # What is not watched is forgotten here: in a person's name, that is every chat but the ones asked for.
        self._states = {chat_id: self._state(chat_id) for chat_id in watched}
        await self._peek(every_beat=not is_agent and not self._listing.ordered)
        await self._handle_due(me)
        return self._pause(pages)

    async def discover(self) -> None:
        """List all chats and watch those that are not watched yet."""
        await self._watched.all()
        look = await self._listing.sweep()
        await self._watched.add(head.chat_id for head in look.heads)
        self._show(look.heads, everything=look.everything)

    def spoke(self) -> None:
        """Note that a conversation is going on: the agent has just written."""
        self._last_activity = self._now()

    # --- looking ----------------------------------------------------------------------------------------------------

    async def _look(self, watched: frozenset[str], *, is_agent: bool) -> int:
        """Take in the list of chats and return how many requests that took. Only an agent's own list is swept whole."""
        look = await self._listing.look()
        if look is None and is_agent:
            look = await self._listing.sweep()
        if look is None:
            return 0
        if is_agent:
            await self._watched.add(head.chat_id for head in look.heads if head.chat_id not in watched)
        self._show(look.heads, everything=look.everything)
        return look.pages

    def _show(self, heads: Iterable[Head], *, everything: bool) -> None:
        with_preview = {head.chat_id for head in heads if head.preview_id}
        for head in heads:
            self._state(head.chat_id).show(head)
        for chat_id, state in self._states.items():
            state.listed = chat_id in with_preview or (state.listed and not everything)

    def _state(self, chat_id: str) -> ChatState:
        return self._states.setdefault(chat_id, ChatState(Head(chat_id)))

    async def _peek(self, *, every_beat: bool) -> None:
        """Ask for the last message of chats that the list of chats does not show it for."""
        now = self._now()
        hidden = [state for state in self._states.values() if not state.listed and state.next_peek <= now]
        if not every_beat:
            hidden = sorted(hidden, key=lambda state: state.next_peek)[:_PEEKS_PER_BEAT]
        if not hidden:
            return
        answers = await self._api.last_messages([state.head.chat_id for state in hidden])
        for state, answer in zip(hidden, answers, strict=True):
            state.next_peek = now if every_beat else now + _PEEK_SECONDS
            if isinstance(answer, GraphError):
                self._failed(state, answer)
                state.next_peek = max(state.next_peek, state.read_at)
            elif found := messages_of((answer.body or {}).get("value")):
                last = found[0]
                state.show(Head(state.head.chat_id, None, last.id, last.created, last.sender_id))

    # --- reading ----------------------------------------------------------------------------------------------------

    async def _handle_due(self, me: Principal) -> None:
        now = self._now()
        due = [state for state in self._states.values() if state.is_due(now)][:_PER_BEAT]
        gate = asyncio.Semaphore(_AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            for state in due:
                tasks.create_task(self._handle(state, me, gate))

    async def _handle(self, state: ChatState, me: Principal, gate: asyncio.Semaphore) -> None:
        """Do what one chat needs. This is the boundary at which a chat's failure ends: the others go on."""
        async with gate:
            try:
                async with asyncio.timeout(_CHAT_SECONDS):
                    must_read = state.must_read(self._now())
                    await (self._read(state, me) if must_read else self._offer_again(state))
            except Exception as error:
                self._failed(state, error)
            else:
                state.worked()

    async def _read(self, state: ChatState, me: Principal) -> None:
        head, conversation = state.head, Conversation.chat(state.head.chat_id)
        position = await self._host.inbox.position(conversation, head.created)
        if not state.overflow and _is_covered(head, position, me):
            state.seen = head.preview_id
            return
        reading = await self._reader.since(head.chat_id, position.floor)
        returned = head.preview_id in reading.ids or _is_covered(head, position, me)
        if fresh := await news(reading, position, me, head.chat_id):
            self._last_activity = self._now()
            covered_to = _covered_to(reading, position, None if returned else head)
            delivery = await self._host.inbox.deliver(conversation, fresh, covered_to)
            left = [message for message in fresh if message.id in delivery.left]
            state.keep(left, covered_to, self._now())
        else:
            state.waiting, state.overflow = (), False
        if state.settle(head, returned=returned, now=self._now(), beat=self._settings.poll_seconds):
            self._given_up += 1
            self._host.log.warning("a chat's list entry names a message that reading the chat never returned")

    async def _offer_again(self, state: ChatState) -> None:
        """Hand over once more what no session took, without asking Graph."""
        conversation, covered_to = Conversation.chat(state.head.chat_id), state.covered_to
        if covered_to is None:
            return
        delivery = await self._host.inbox.deliver(conversation, state.waiting, covered_to)
        overflow = state.overflow
        state.keep([message for message in state.waiting if message.id in delivery.left], covered_to, self._now())
        state.overflow = overflow

    def _failed(self, state: ChatState, error: Exception) -> None:
        cause = f"{type(error).__name__}: {error.message}" if isinstance(error, EntrabotError) else type(error).__name__
        if state.failed(cause, self._now(), self._settings.poll_seconds):
            unexpected = not isinstance(error, EntrabotError | TimeoutError)
            self._host.log.warning(
                "chat %s cannot be read: %s", state.head.chat_id, cause, exc_info=error if unexpected else None
            )

    # --- reporting --------------------------------------------------------------------------------------------------

    def _pause(self, pages: int) -> float:
        """Wait longer when a look took many requests, less during a conversation."""
        in_conversation = self._now() - self._last_activity < _CONVERSATION_SECONDS
        usual, live = self._settings.poll_seconds, self._settings.live_poll_seconds
        pause = min(usual, live) if live and in_conversation else usual
        return max(pause, float(pages)) if not self._listing.ordered else pause

    def report(self) -> dict[str, Any]:
        """Return what ``whoami`` should show about hearing people."""
        failing = {chat_id: state.error for chat_id, state in self._states.items() if state.failures}
        return {
            "sorted_by_graph": self._listing.ordered,
            "chats_failing": len(failing),
            "failing": dict(list(failing.items())[:_SHOWN]),
            "previews_given_up": self._given_up,
        }


def _is_covered(head: Head, position: Position, me: Principal) -> bool:
    """Whether the newest message of the chat is done, so that nothing has to be read.

    One of our own that is done says nothing: somebody may have written just before it.
    """
    at_floor = head.preview_created is not None and head.preview_created <= position.floor
    return at_floor or (head.preview_id in position.ids and head.preview_sender not in ("", me.user_id))


def _covered_to(reading: Reading, position: Position, missing: Head | None) -> datetime:
    """Return how far the reading goes; not past a message that is visible in the list but was not read."""
    covered_to = reading.covered_to(position)
    if missing and missing.preview_created:
        return max(position.floor, min(covered_to, missing.preview_created - _INSTANT))
    return covered_to
