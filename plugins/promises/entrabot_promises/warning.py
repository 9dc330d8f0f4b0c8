"""Pointing out a commitment that nobody recorded."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from entrabot_host import EntrabotError, Host, Outbound, ToolCall, ToolResult
from entrabot_promises.book import PromiseBook
from entrabot_promises.commitments import commitment
from entrabot_promises.log import Promise

KEY = "_warnings"
_SECONDS = 3.0
_WORDS = re.compile(r"[\s,;<>]+")


class Reminder:
    """Looks at what a tool sent after it was sent; a failure here never touches the send."""

    def __init__(self, host: Host, book: PromiseBook, fresh_minutes: int) -> None:
        self._log = host.log
        self._book = book
        self._fresh = timedelta(minutes=fresh_minutes)

    def around(self, outbound: Outbound, call: ToolCall) -> ToolCall:
        """Return ``call`` with a warning added to its result where one is due."""

        @functools.wraps(call)
        async def reminded(**arguments: Any) -> Any:
            result = await call(**arguments)
            text, conversation = (str(arguments.get(name) or "") for name in (outbound.text, outbound.conversation))
            warning = await self._warning(text, conversation)
            return _with_warning(result, warning) if warning else result

        return reminded

    async def _warning(self, text: str, conversation: str) -> str:
        sentence = commitment(text)
        if not sentence:
            return ""
        try:
            async with asyncio.timeout(_SECONDS):
                promises = await self._book.open()
        except (EntrabotError, TimeoutError) as error:
            self._log.warning("whether a promise was recorded could not be looked up: %s", error)
            return ""
        if covers(promises, conversation, self._book.now() - self._fresh):
            return ""
        return (
            f'You wrote: "{sentence}" That commits you, and no promise was recorded for this conversation lately. '
            "Record it now with add_promise (same conversation), so that it is not forgotten."
        )


def covers(promises: Iterable[Promise], conversation: str, since: datetime) -> bool:
    """Whether one of the promises was made in this conversation at or after ``since``.

    A conversation by mail is named by addresses: one in common is enough. One without a name (a reply to a mail) may be
    any of them.
    """
    names = _names(conversation)
    fresh = (promise for promise in promises if _made(promise) >= since)
    return any(not names or names & _names(promise.chat_id) for promise in fresh)


def _names(conversation: str) -> set[str]:
    return {word.casefold() for word in _WORDS.split(conversation) if word}


def _made(promise: Promise) -> datetime:
    try:
        made = datetime.fromisoformat(promise.created_at)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return made if made.tzinfo else made.replace(tzinfo=UTC)


def _with_warning(result: Any, warning: str) -> Any:
    if isinstance(result, ToolResult):
        return replace(result, data=_with_warning(result.data, warning))
    if not isinstance(result, dict):
        return result
    before = result.get(KEY)
    return {**result, KEY: [*(before if isinstance(before, list) else []), warning]}
