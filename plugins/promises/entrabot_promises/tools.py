"""The three tools."""

from typing import Annotated, Any

from pydantic import Field

from entrabot_host import InvalidArgument
from entrabot_promises.book import PromiseBook
from entrabot_promises.due import check_due, deadline
from entrabot_promises.log import Promise

MAX_TEXT = 2_000


class PromiseTools:
    """What the model does with promises."""

    def __init__(self, book: PromiseBook) -> None:
        self._book = book

    async def add_promise(
        self,
        chat_id: Annotated[str, Field(description="Where you promised it: chat_id, or the address written to")],
        description: Annotated[str, Field(description="What you owe, to whom", max_length=MAX_TEXT)],
        due_by: Annotated[str, Field(description="2026-12-24 or 2026-12-24T17:00:00Z, if you named a time")] = "",
    ) -> dict[str, Any]:
        """Record what you promised people ("I'll report back when X lands"), at once. It survives restarts; your own
        task list does not.
        """
        chat_id, description = chat_id.strip(), description.strip()
        if not chat_id or len(chat_id) > MAX_TEXT:
            raise InvalidArgument(
                "chat_id is required: a promise is owed in one conversation.",
                remedy="Pass the chat_id, or the mail address, to which you wrote.",
            )
        if not description:
            raise InvalidArgument("description is required.", remedy="Say what you owe, and to whom.")
        promise = await self._book.add(chat_id, description, check_due(due_by, self._book.now()))
        return promise.show(self._book.now())

    async def list_promises(
        self, open_only: Annotated[bool, Field(description="false: also what was resolved")] = True
    ) -> list[dict[str, Any]]:
        """List your promises, overdue ones first. Call it at the start of a session to see what you owe whom."""
        now = self._book.now()
        promises = await (self._book.open() if open_only else self._book.all())
        return [promise.show(now) for promise in sorted(promises, key=_urgency)]

    async def resolve_promise(
        self,
        promise_id: Annotated[str, Field(description="id from list_promises")],
        resolution: Annotated[str, Field(description="How it was kept, or dropped and why", max_length=MAX_TEXT)],
    ) -> dict[str, Any]:
        """Mark a promise as kept: only after you told the people in its conversation, not when the work is done."""
        if not resolution.strip():
            raise InvalidArgument("resolution is required.", remedy="Say in a few words how it was kept.")
        promise = await self._book.resolve(promise_id.strip(), resolution.strip())
        return promise.show(self._book.now())


def _urgency(promise: Promise) -> tuple[bool, bool, str, str]:
    """Open ones first, by their due times; then those without, by age."""
    due = deadline(promise.due_by)
    return not promise.is_open, due is None, due.isoformat() if due else "", promise.created_at
