"""Which chats have news: one request where Graph sorts by newest message, else a sweep over all chats."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from entrabot_host import GraphError
from entrabot_teams.api import ChatApi, Page
from entrabot_teams.wire import Head, heads_of

MAX_PAGES = 20
_OVERLAP = timedelta(seconds=60)
_DISTRUST_SECONDS = 3600.0

OnPage = Callable[[list[Head]], Awaitable[None]]


@dataclass(frozen=True)
class Look:
    """Chats as a listing showed them. everything: no chat of ours is missing. pages: requests that it took."""

    heads: tuple[Head, ...]
    everything: bool
    pages: int


class ChatListing:
    """Lists chats. Graph's order is used only while its answers show that it was taken and really sorts."""

    def __init__(self, api: ChatApi, log: logging.Logger, now: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._log = log
        self._now = now
        self._distrusted_until = float("-inf")
        self._last_complete: datetime | None = None

    @property
    def ordered(self) -> bool:
        """Whether Graph's order is relied on at present."""
        return self._now() >= self._distrusted_until

    async def look(self, first_pages: int = MAX_PAGES) -> Look | None:
        """List at least every chat with a message newer than the last complete look; None when order fails.

        first_pages: how far to go when there was no complete look yet.
        """
        if not self.ordered:
            return None
        try:
            page = await self._api.chats(ordered=True)
        except GraphError as error:
            if error.status != 400:
                raise
            self._distrust("Graph refuses to sort chats by their last message")
            return None
        return await self._until_known(page, MAX_PAGES if self._last_complete else first_pages)

    async def _until_known(self, page: Page, max_pages: int) -> Look | None:
        began, oldest = page.served, None
        heads: list[Head] = []
        for count in range(1, max_pages + 1):
            found = heads_of(page.rows)
            times = [head.preview_created for head in found if head.preview_created]
            if not _descending([oldest, *times] if oldest else times):
                self._distrust("Graph does not sort chats by their last message")
                return None
            heads += found
            oldest = times[-1] if times else oldest
            if not page.next or self._is_known(oldest):
                break
            if count < max_pages:
                page = await self._api.next_page(page.next)
        self._last_complete = began or self._last_complete
        return Look(tuple(heads), everything=not page.next, pages=count)

    def _is_known(self, oldest: datetime | None) -> bool:
        return bool(self._last_complete and oldest and oldest < self._last_complete - _OVERLAP)

    async def sweep(self, read: OnPage | None = None) -> Look:
        """List all chats in whatever order, up to `MAX_PAGES`. read: called with each page before the next one."""
        page, heads, count = await self._api.chats(ordered=False), list[Head](), 0
        while True:
            found = heads_of(page.rows)
            heads += found
            count += 1
            if read:
                await read(found)
            if not page.next or count == MAX_PAGES:
                break
            page = await self._api.next_page(page.next)
        if page.next:
            self._log.warning("there are more chats than %d pages show; the rest is looked at one by one", MAX_PAGES)
        return Look(tuple(heads), everything=not page.next, pages=count)

    def _distrust(self, why: str) -> None:
        self._log.warning("%s; all chats are listed at every look for the next hour", why)
        self._distrusted_until = self._now() + _DISTRUST_SECONDS
        self._last_complete = None


def _descending(times: list[datetime]) -> bool:
    return all(earlier >= later for earlier, later in pairwise(times))
