"""What is written down about a mail that has gone out."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from entrabot_email.books import keep_books

from entrabot_host import EntrabotError, Host, Outcome, StorageError


class Records:
    """Keeps audit lines, or cannot."""

    def __init__(self, failing: EntrabotError | None = None) -> None:
        self.audited: list[tuple[str, str, Outcome]] = []
        self._failing = failing

    async def audit(self, action: str, resource: str, outcome: Outcome, metadata: Any = None) -> str:
        if self._failing is not None:
            raise self._failing
        self.audited.append((action, resource, outcome))
        return "event"


def host(records: Records) -> Host:
    return SimpleNamespace(records=records, log=logging.getLogger("books"))


async def test_a_step_that_fails_is_logged_and_the_others_are_taken(caplog: pytest.LogCaptureFixture) -> None:
    taken: list[int] = []

    async def fails() -> None:
        raise StorageError("The disk is full.")

    async def works() -> None:
        taken.append(1)

    records = Records()
    await keep_books(host(records), "email.send", "a@x.example", (fails, works))
    assert taken == [1]
    assert "The disk is full." in caplog.text
    assert records.audited == []


@pytest.mark.parametrize("failing", [None, StorageError("The disk is full.")])
async def test_a_call_that_is_cancelled_after_the_send_has_its_books_kept(failing: EntrabotError | None) -> None:
    begun, go_on, taken = asyncio.Event(), asyncio.Event(), []

    async def slow() -> None:
        begun.set()
        await go_on.wait()
        taken.append(1)

    records = Records(failing)
    call = asyncio.create_task(keep_books(host(records), "email.send", "a@x.example", (slow,)))
    async with asyncio.timeout(10):
        await begun.wait()
        call.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert taken == [1]
    assert records.audited == ([] if failing else [("email.send", "a@x.example", Outcome.SUCCESS)])


async def test_books_that_take_for_ever_do_not_hold_a_cancelled_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entrabot_email.books._SECONDS", 0.05)
    begun, ended = asyncio.Event(), asyncio.Event()

    async def stuck() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    call = asyncio.create_task(keep_books(host(Records()), "email.send", "a@x.example", (stuck,)))
    async with asyncio.timeout(10):
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await ended.wait()
