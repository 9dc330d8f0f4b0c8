"""Everything about promises that lives as long as its host."""

from __future__ import annotations

from typing import Any

from entrabot_host import Health, Host, Tool, Wrapper
from entrabot_promises.book import KEY, PromiseBook
from entrabot_promises.due import deadline
from entrabot_promises.settings import PromisesSettings
from entrabot_promises.tools import PromiseTools
from entrabot_promises.warning import Reminder


class Promises:
    """The parts of the domain for one host."""

    def __init__(self, host: Host) -> None:
        host.store.own(KEY)
        self.settings = host.settings.load(PromisesSettings)
        self.book = PromiseBook(host.store, keep_days=self.settings.keep_days)
        self.tools = PromiseTools(self.book)
        self._reminder = Reminder(host, self.book, self.settings.fresh_minutes)

    def wrapper(self, tool: Tool) -> Wrapper | None:
        """Return what surrounds a tool that sends text to people."""
        outbound = tool.outbound
        if outbound is None or not self.settings.warn:
            return None
        return Wrapper(lambda call: self._reminder.around(outbound, call))

    async def state(self) -> dict[str, Any]:
        """Return what the agent should know at the start of a session."""
        now, owed = self.book.now(), await self.book.open()
        state: dict[str, Any] = {
            "open": len(owed),
            "overdue": sum(promise.is_overdue(now) for promise in owed),
        }
        due = [(when, promise) for promise in owed if (when := deadline(promise.due_by)) is not None and when >= now]
        if due:
            _, promise = min(due, key=lambda pair: (pair[0], pair[1].created_at))
            state["next_due"] = {name: getattr(promise, name) for name in ("id", "chat_id", "description", "due_by")}
        return state

    async def readable(self) -> Health:
        """Whether the file makes sense."""
        log = await self.book.log()
        count = sum(promise.is_open for promise in log.promises().values())
        if broken := log.unreadable():
            return Health(
                False, f"{count} open; {broken} lines of {KEY} make no sense", "Look at the file; mend or remove them."
            )
        return Health(True, f"{count} open")
