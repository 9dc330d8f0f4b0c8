"""Everything of Teams that lives as long as its host, and how its parts know each other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from entrabot_host import Health, Host
from entrabot_teams.api import ChatApi
from entrabot_teams.cards import Cards
from entrabot_teams.changes import ChangeSource
from entrabot_teams.chats import Chats
from entrabot_teams.images import Images
from entrabot_teams.membership import Membership
from entrabot_teams.placeholders import Placeholders
from entrabot_teams.posting import Posting
from entrabot_teams.reading import Reading
from entrabot_teams.sending import Sending
from entrabot_teams.settings import TeamsSettings
from entrabot_teams.thinking import Thinking
from entrabot_teams.waiting import Waiting
from entrabot_teams.watching import KEY, WatchedChats


class Teams:
    """The parts of the Teams domain for one host."""

    def __init__(self, host: Host) -> None:
        self._host = host
        host.store.own(KEY)
        self.settings = host.settings.load(TeamsSettings)
        self._api = ChatApi(host)
        self.watched = WatchedChats(host)
        self.changes = ChangeSource(host, self._api, self.watched, self.settings)
        self.waiting = Waiting(host, self._api, self.watched, self.changes, self.settings)
        posting = Posting(host, self._api, self.watched, self.changes)
        self.placeholders = Placeholders()
        self.sending = Sending(host, posting, self.waiting)
        self.thinking = Thinking(host, posting, self.waiting, self.placeholders)
        self.cards = Cards(posting, self.waiting)
        self.images = Images(host)
        self.membership = Membership(host, self._api)
        self.reading = Reading(host, self._api)
        self.chats = Chats(host, self._api, self.watched)

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Leave nothing running behind."""
        try:
            yield
        finally:
            await self.changes.aclose()

    async def state(self) -> dict[str, Any]:
        """Return what the agent should know at the start of a session."""
        return {"watched_chats": len(await self.watched.all())} | self._problems()

    async def reachable(self) -> Health:
        """Ask Graph for one chat. Raises `GraphError` and `AuthError`, which the host shows."""
        await self._api.chats(ordered=False, top=1)
        count = len(await self.watched.all())
        if problems := self._problems():
            shown = ", ".join(f"{name}: {value}" for name, value in problems.items())
            return Health(False, f"Teams answers; watching {count} chats; {shown}", "See the server's log for causes.")
        return Health(True, f"Teams answers; watching {count} chats")

    def _problems(self) -> dict[str, Any]:
        report = self.changes.report()
        problems = {key: report[key] for key in ("chats_failing", "previews_given_up") if report[key]}
        return problems | ({"watched_list": self.watched.problem} if self.watched.problem else {})
