"""Everything about mail that lives as long as its host, and how its parts know each other."""

from __future__ import annotations

from typing import Any

from entrabot_email.api import MailApi
from entrabot_email.changes import ChangeSource
from entrabot_email.reading import Reading
from entrabot_email.sending import Sending
from entrabot_email.settings import EmailSettings
from entrabot_email.summary.daily import FOLDER, DailySummary
from entrabot_email.summary.schedule import SummaryClock
from entrabot_host import Health, Host


class Email:
    """The parts of the mail domain for one host."""

    def __init__(self, host: Host) -> None:
        host.store.own(FOLDER)
        self.settings = host.settings.load(EmailSettings)
        self._host = host
        self._api = MailApi(host)
        self.changes = ChangeSource(host, self._api, self.settings)
        self.reading = Reading(host, self._api, self.settings)
        self.sending = Sending(host, self._api)
        self.daily = DailySummary(host, self._api, self.settings)
        self.clock = SummaryClock(host, self.daily, self.settings)

    async def state(self) -> dict[str, Any]:
        """Return what the agent should know at the start of a session."""
        me = await self._host.identity.me()
        state: dict[str, Any] = {"mailbox": me.user_name}
        if self.changes.left_out:
            state["left_out_as_noise"] = dict(self.changes.left_out)
        return state

    async def reachable(self) -> Health:
        """Ask Graph for the inbox. Raises `GraphError` and `AuthError`, which the host shows."""
        await self._api.service_time()
        left_out = ", ".join(f"{reason}: {count}" for reason, count in self.changes.left_out.items())
        return Health(True, "the mailbox answers" + (f"; left out as noise: {left_out}" if left_out else ""))
