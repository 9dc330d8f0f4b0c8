"""The change source: finds watched chats with news, reads them, and hands what people wrote to the inbox."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
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

KEPT_IN_ALL = 500
"""Messages of all chats that are kept while no session takes them; the rest is read again when they are taken."""
_AT_ONCE = 4
_PER_BEAT = 200
_PEEKS_PER_BEAT = 60
_PEEKS_IN_CONVERSATION = 40
_PEEK_SECONDS = 60.0
_CHAT_SECONDS = 30.0
_CONVERSATION_SECONDS = 120.0
_PAGES_A_SECOND = 5.0
_AGAIN_A_SECOND = 8.0
_SPACING = 0.95
_FRESH = timedelta(seconds=60)
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
        self._attending: set[asyncio.Task[None]] = set()

    # --- background tasks -------------------------------------------------------------------------------------------

    async def beat(self) -> float | None:
        """Look once. Returns the seconds until the next look when they are not the usual ones."""
        began, me = self._now(), await self._host.identity.me()
        watched = await self._watched.all()
        is_agent = me.attribution is Attribution.AGENT
        if not watched and not is_agent:
            return None
        pages = await (self._look(me) if is_agent else self._look_for(watched))
        watched = await self._watched.all()
        # What is not watched is forgotten here: in a person's name, that is every chat but the ones asked for.
        self._states = {chat_id: self._state(chat_id) for chat_id in watched}
        await self._peek(every_beat=not is_agent and not self._listing.ordered)
        await self._handle_due(me, again=int(self._beat_seconds() * _AGAIN_A_SECOND))
        return self._pause(pages, self._now() - began)

    async def discover(self) -> None:
        """List all chats and watch those that are not watched yet."""
        await self._watched.all()
        look = await self._listing.sweep()
        await self._watched.add(head.chat_id for head in look.heads)
        self._show(look.heads, everything=look.everything)

    # --- what waits and sends need ----------------------------------------------------------------------------------

    def spoke(self) -> None:
        """Note that a conversation is going on: the agent has just written, or waits for an answer."""
        self._last_activity = self._now()
        for state in self._states.values():
            if not state.failures:
                state.offer_at = 0.0

    @asynccontextmanager
    async def attending(self, chat_id: str, every: float) -> AsyncIterator[None]:
        """Read a watched chat every so many seconds while the block runs, besides the beat.

        A reading that has begun is finished after the block: it may be handing something over.
        """
        me, stop = await self._host.identity.me(), asyncio.Event()
        task = asyncio.create_task(self._attend(chat_id, every, me, stop))
        self._attending.add(task)
        task.add_done_callback(self._attending.discard)
        try:
            yield
        finally:
            stop.set()

    async def _attend(self, chat_id: str, every: float, me: Principal, stop: asyncio.Event) -> None:
        gate = asyncio.Semaphore(1)
        while not stop.is_set():
            state = self._state(chat_id)
            if state.may_be_read(self._now(), _SPACING):
                await self._handle(state, me, gate, asked=True)
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), every)

    async def aclose(self) -> None:
        """End readings that waits have left behind."""
        left = list(self._attending)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    # --- looking ----------------------------------------------------------------------------------------------------

    async def _look(self, me: Principal) -> int:
        """Take in the agent's list of chats and return how many requests that took.

        Without Graph's order the whole list is swept, and each page's news are read before the next page.
        """
        look = await self._listing.look()
        if look is None:

            async def read(heads: list[Head]) -> None:
                await self._take_in(heads)
                await self._handle_due(me, again=0)

            look = await self._listing.sweep(read)
        else:
            await self._take_in(look.heads)
        self._show(look.heads, everything=look.everything)
        return look.pages

    async def _take_in(self, heads: Iterable[Head]) -> None:
        heads = list(heads)
        await self._watched.add(head.chat_id for head in heads)
        for head in heads:
            self._state(head.chat_id).show(head)

    async def _look_for(self, watched: frozenset[str]) -> int:
        """Take in what a person's list of chats shows of the watched ones; without Graph's order it is not listed."""
        look = await self._listing.look(first_pages=1)
        if look is None:
            return 0
        self._show([head for head in look.heads if head.chat_id in watched], everything=look.everything)
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
        """Ask for the last message of chats that the list of chats does not show it for, some at a beat."""
        now = self._now()
        chosen = self._chosen(now, every_beat=every_beat)
        if not chosen:
            return
        answers = await self._api.last_messages([state.head.chat_id for state in chosen])
        for state, answer in zip(chosen, answers, strict=True):
            state.next_peek = now if every_beat else now + _PEEK_SECONDS
            if isinstance(answer, GraphError):
                self._failed(state, answer)
                state.next_peek = max(state.next_peek, state.read_at)
            elif found := messages_of((answer.body or {}).get("value")):
                last = found[0]
                state.show(Head(state.head.chat_id, None, last.id, last.created, last.sender_id))

    def _chosen(self, now: float, *, every_beat: bool) -> list[ChatState]:
        """Those that were not asked for longest; where nothing else shows news, chats in conversation come first."""
        hidden = [state for state in self._states.values() if not state.listed and state.next_peek <= now]
        hidden.sort(key=lambda state: state.next_peek)
        if not every_beat:
            return hidden[:_PEEKS_PER_BEAT]
        lively = [state for state in hidden if now - state.news_at < _CONVERSATION_SECONDS][:_PEEKS_IN_CONVERSATION]
        others = [state for state in hidden if now - state.news_at >= _CONVERSATION_SECONDS]
        return [*lively, *others[: _PEEKS_PER_BEAT - len(lively)]]

    # --- reading ----------------------------------------------------------------------------------------------------

    async def _handle_due(self, me: Principal, *, again: int) -> None:
        """Do what is due. again: how many chats may be read without a sign of news, those longest due first."""
        now = self._now()
        due = [state for state in self._states.values() if state.is_due(now)][:_PER_BEAT]
        quiet = [state for state in self._states.values() if state.must_look_again(now) and not state.is_due(now)]
        due += sorted(quiet, key=lambda state: state.again)[:again]
        gate = asyncio.Semaphore(_AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            for state in due:
                tasks.create_task(self._handle(state, me, gate))

    async def _handle(self, state: ChatState, me: Principal, gate: asyncio.Semaphore, *, asked: bool = False) -> None:
        """Do what one chat needs. This is the boundary at which a chat's failure ends: the others go on.

        asked: somebody waits for this chat, so that it is read whether there are signs of news or not.
        """
        async with gate:
            if state.busy.locked():
                return
            try:
                async with state.busy, asyncio.timeout(_CHAT_SECONDS):
                    must_read = asked or state.must_read(self._now()) or state.must_look_again(self._now())
                    await (self._read(state, me, asked=asked) if must_read else self._offer_again(state))
            except Exception as error:
                self._failed(state, error)
            else:
                state.worked()

    async def _read(self, state: ChatState, me: Principal, *, asked: bool) -> None:
        head, conversation, now = state.head, Conversation.chat(state.head.chat_id), self._now()
        position = await self._host.inbox.position(conversation, head.created)
        needed = asked or state.overflow or state.must_look_again(now)
        state.begins(now, is_fresh=self._is_fresh(head, position))
        if not needed and _is_covered(head, position, me):
            state.seen = head.preview_id
            return
        reading = await self._reader.since(head.chat_id, position.floor)
        returned = not head.preview_id or head.preview_id in reading.ids or _is_covered(head, position, me)
        if fresh := await news(reading, position, me, head.chat_id, self._api.people):
            self._last_activity = self._now()
            covered_to = _covered_to(reading, position, None if returned else head)
            delivery = await self._host.inbox.deliver(conversation, fresh, covered_to)
            left = [message for message in fresh if message.id in delivery.left]
            state.keep(left, covered_to, self._now(), self._room_for(state))
        else:
            state.waiting, state.waiting_since, state.overflow = (), None, False
        if state.settle(head, returned=returned, now=self._now(), beat=self._settings.poll_seconds):
            self._given_up += 1
            self._host.log.warning("a chat's list entry names a message that reading the chat never returned")

    def _is_fresh(self, head: Head, position: Position) -> bool:
        """Whether somebody wrote within the last minute, and above the floor: below it nothing is waited for."""
        written = head.preview_created if head.preview_sender else None
        return written is not None and written > position.floor and self._api.now() - written < _FRESH

    async def _offer_again(self, state: ChatState) -> None:
        """Hand over once more what no session took, without asking Graph."""
        conversation, covered_to = Conversation.chat(state.head.chat_id), state.covered_to
        if covered_to is None:
            return
        overflow = state.overflow
        delivery = await self._host.inbox.deliver(conversation, state.waiting, covered_to)
        state.keep([message for message in state.waiting if message.id in delivery.left], covered_to, self._now())
        state.overflow = overflow

    def _room_for(self, state: ChatState) -> int:
        return KEPT_IN_ALL - sum(len(other.waiting) for other in self._states.values() if other is not state)

    def _failed(self, state: ChatState, error: Exception) -> None:
        cause = f"{type(error).__name__}: {error.message}" if isinstance(error, EntrabotError) else type(error).__name__
        if state.failed(cause, self._now(), self._settings.poll_seconds):
            unexpected = not isinstance(error, EntrabotError | TimeoutError)
            self._host.log.warning(
                "chat %s cannot be read: %s", state.head.chat_id, cause, exc_info=error if unexpected else None
            )

    # --- reporting --------------------------------------------------------------------------------------------------

    def _pause(self, pages: int, took: float) -> float:
        """Return the rest of the beat: shorter during a conversation, longer when a look takes many requests."""
        beat = max(self._beat_seconds(), pages / _PAGES_A_SECOND)
        return max(beat - took, beat / 5)

    def _beat_seconds(self) -> float:
        in_conversation = self._now() - self._last_activity < _CONVERSATION_SECONDS
        usual, live = self._settings.poll_seconds, self._settings.live_poll_seconds
        return min(usual, live) if live and in_conversation else usual

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
