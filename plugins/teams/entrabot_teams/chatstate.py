"""What the change source knows about one chat: what is new, what waits, and when to look again."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field, replace
from datetime import datetime

from entrabot_host import Message
from entrabot_teams.wire import Head

GIVE_UP_SECONDS = 600.0
KEPT_MESSAGES = 50
LOOK_AGAIN = (2.0, 5.0, 15.0)
"""Seconds after news at which a chat is read once more: an older message may become visible behind a newer one."""
_LONGEST_PAUSE = 600.0
_EAGER_SECONDS = 120.0
_PATIENT_PAUSE = 30.0


@dataclass
class ChatState:
    """One watched chat. Times are monotonic seconds, except those of messages.

    seen: the preview that needs no reading any more. waiting: messages that no session has taken yet; overflow: there
    are more of them than are kept. listed: the chat shows its last message in the list of chats. read_at, offer_at:
    the earliest time for the next reading, and for offering what waits once more. again: when to read without a sign
    of news. began: when the last reading began. busy: held while the chat is read or offered.
    """

    head: Head
    seen: str = ""
    waiting: tuple[Message, ...] = ()
    waiting_since: float | None = None
    overflow: bool = False
    covered_to: datetime | None = None
    failures: int = 0
    error: str = ""
    read_at: float = 0.0
    offer_at: float = 0.0
    doubted_since: float | None = None
    doubts: int = 0
    listed: bool = False
    next_peek: float = 0.0
    again: tuple[float, ...] = ()
    began: float = float("-inf")
    news_at: float = float("-inf")
    busy: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def is_dirty(self) -> bool:
        """Whether there may be something that was not read."""
        return self.head.preview_id not in ("", self.seen) or (self.overflow and not self.waiting)

    def must_read(self, now: float) -> bool:
        """Whether it is time to read the chat."""
        return self.is_dirty and now >= self.read_at

    def must_look_again(self, now: float) -> bool:
        """Whether it is time to read the chat though nothing says that there is news."""
        return bool(self.again) and now >= self.again[0] and not self.failures

    def is_due(self, now: float) -> bool:
        """Whether there is something to do about the chat, and it is time to do it."""
        return self.must_read(now) or (bool(self.waiting) and now >= self.offer_at)

    def may_be_read(self, now: float, spacing: float) -> bool:
        """Whether a reading that somebody waits for may begin: not too soon after another, and not while it fails."""
        return now - self.began >= spacing and (not self.failures or now >= self.read_at)

    def show(self, head: Head) -> None:
        """Take in what a listing shows; one that is older than what is known changes nothing."""
        known = self.head.preview_created
        if known and head.preview_created and head.preview_created < known:
            return
        if head.preview_id not in ("", self.head.preview_id):
            self.doubted_since, self.doubts = None, 0
            if not self.failures:
                self.read_at = 0.0
        self.head = replace(head if head.preview_id else self.head, created=head.created or self.head.created)

    def begins(self, now: float, *, is_fresh: bool) -> None:
        """Note that a reading begins. is_fresh: the chat's last message is new, and of the last minute."""
        self.began = now
        if is_fresh and self.head.preview_id != self.seen and not self.doubts:
            self.news_at = now
            self.again = tuple(now + seconds for seconds in LOOK_AGAIN)
        else:
            self.again = tuple(at for at in self.again if at > now)

    def keep(self, left: list[Message], covered_to: datetime, now: float, room: int = KEPT_MESSAGES) -> None:
        """Keep what is still to be taken, at most ``room`` and `KEPT_MESSAGES`, the oldest first."""
        before = {message.id for message in self.waiting}
        if self.waiting_since is None or (before and not before & {message.id for message in left}):
            self.waiting_since = now
        kept = max(0, min(room, KEPT_MESSAGES))
        self.waiting, self.overflow, self.covered_to = tuple(left[:kept]), len(left) > kept, covered_to
        is_patient = now - self.waiting_since > _EAGER_SECONDS
        self.offer_at = now + _PATIENT_PAUSE if is_patient else 0.0
        if not left:
            self.waiting_since = None
        elif not self.waiting:
            self.read_at = now + _PATIENT_PAUSE

    def settle(self, head: Head, *, returned: bool, now: float, beat: float) -> bool:
        """Note whether reading returned the preview in ``head``. True when it was now given up for good."""
        if returned:
            self.seen, self.doubted_since, self.doubts = head.preview_id, None, 0
            return False
        if self.doubted_since is None:
            self.doubted_since = now
        if now - self.doubted_since >= GIVE_UP_SECONDS:
            self.seen, self.doubted_since, self.doubts = head.preview_id, None, 0
            return True
        self.read_at = now + beat * 2 ** min(self.doubts, 5)
        self.doubts += 1
        return False

    def failed(self, cause: str, now: float, beat: float) -> bool:
        """Note a failure and when to try again. True when this cause is a new one."""
        self.failures += 1
        pause = min(beat * 2 ** min(self.failures - 1, 10), _LONGEST_PAUSE)
        self.read_at = now + pause * random.uniform(0.8, 1.2)  # noqa: S311 - spreads retries, no secret
        self.offer_at = self.read_at
        news = cause != self.error
        self.error = cause
        return news

    def worked(self) -> None:
        """Forget earlier failures."""
        self.failures, self.error = 0, ""
