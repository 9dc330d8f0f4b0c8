"""What the change source knows about one chat: what is new, what waits, and when to look again."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import datetime

from entrabot_host import Message
from entrabot_teams.wire import Head

GIVE_UP_SECONDS = 600.0
KEPT_MESSAGES = 50
_LONGEST_PAUSE = 600.0
_EAGER_SECONDS = 120.0
_PATIENT_PAUSE = 30.0


@dataclass
class ChatState:
    """One watched chat. Times are monotonic seconds, except those of messages.

    seen: the preview that needs no reading any more. waiting: messages that no session has taken yet; overflow: there
    are more of them than are kept. listed: the chat shows its last message in the list of chats. read_at, offer_at:
    the earliest time for the next reading, and for offering what waits once more.
    """

    head: Head
    seen: str = ""
    waiting: tuple[Message, ...] = ()
    waiting_since: float = 0.0
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

    @property
    def is_dirty(self) -> bool:
        """Whether there may be something that was not read."""
        return self.head.preview_id not in ("", self.seen) or (self.overflow and not self.waiting)

    def must_read(self, now: float) -> bool:
        """Whether it is time to read the chat."""
        return self.is_dirty and now >= self.read_at

    def is_due(self, now: float) -> bool:
        """Whether it is time to do something about the chat."""
        return self.must_read(now) or (bool(self.waiting) and now >= self.offer_at)

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

    def keep(self, left: list[Message], covered_to: datetime, now: float) -> None:
        """Keep what is still to be taken, at most `KEPT_MESSAGES`, the oldest first."""
        before = {message.id for message in self.waiting}
        if not before or not before & {message.id for message in left}:
            self.waiting_since = now
        self.waiting = tuple(left[:KEPT_MESSAGES])
        self.overflow = len(left) > KEPT_MESSAGES
        self.covered_to = covered_to
        is_patient = now - self.waiting_since > _EAGER_SECONDS
        self.offer_at = now + _PATIENT_PAUSE if is_patient else 0.0

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
