"""Comments in the margin of Word documents: threads of a first comment and its replies."""

from __future__ import annotations

import asyncio
import secrets
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from entrabot_sandbox.clock import Clock
from entrabot_sandbox.directory import User
from entrabot_sandbox.drives import Item


@dataclass(frozen=True)
class Comment:
    """One comment; ``reply_to`` is the id of the thread's first one, empty for that itself."""

    id: str
    author: User
    text: str
    created: datetime
    reply_to: str = ""


class Comments:
    """The comments of every document."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._of: dict[str, list[Comment]] = defaultdict(list)
        self._change = asyncio.Event()

    def of(self, item: Item) -> list[Comment]:
        """A document's comments, oldest first."""
        return list(self._of[item.guid])

    def find(self, item: Item, comment_id: str) -> Comment | None:
        """A comment of a document; case does not count."""
        return next((comment for comment in self._of[item.guid] if comment.id == comment_id.upper()), None)

    def threads(self, item: Item) -> list[tuple[Comment, list[Comment]]]:
        """Each first comment with its replies, oldest first."""
        comments = self._of[item.guid]
        first = [comment for comment in comments if not comment.reply_to]
        return [(one, [reply for reply in comments if reply.reply_to == one.id]) for one in first]

    def add(self, item: Item, author: User, text: str, reply_to: Comment | None = None) -> Comment:
        """Comment on a document, or reply to a comment in it; a reply to a reply joins its thread."""
        thread = (reply_to.reply_to or reply_to.id) if reply_to else ""
        comment = Comment(secrets.token_hex(4).upper(), author, text, self._clock.now(), thread)
        self._of[item.guid].append(comment)
        item.tag, item.content_tag = item.tag + 1, item.content_tag + 1  # they are kept in the file
        item.modified, item.editor = comment.created, author
        self._change.set()
        self._change = asyncio.Event()
        return comment

    async def next_change(self, seconds: float) -> bool:
        """Wait until somebody comments on anything; False if nobody does in that time."""
        try:
            await asyncio.wait_for(self._change.wait(), seconds)
        except TimeoutError:
            return False
        return True
