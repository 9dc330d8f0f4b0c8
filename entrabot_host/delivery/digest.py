"""A backlog as one thing to read: how many messages, of whom, from when to when, and how the last one goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from entrabot_host.host import Conversation, ConversationKind, Message
from entrabot_host.security.text import one_line

LIVE = timedelta(seconds=120)
"""A message that is older was not said just now: it authorizes nothing."""
MANY = 5
MOST = 500
LAST_SHOWN = 500
_SENDERS_SHOWN = 5
_READER = {ConversationKind.CHAT: "read_teams_messages", ConversationKind.MAIL: "read_interactions"}


@dataclass(frozen=True)
class Digest:
    """Several messages of one conversation, oldest first."""

    messages: tuple[Message, ...]

    @property
    def last(self) -> Message:
        """The newest of them."""
        return self.messages[-1]

    def summary(self, conversation: Conversation) -> str:
        """Return what the server itself says of them: nothing in it is anybody's text."""
        first, last = self.messages[0].created, self.last.created
        return (
            f"{len(self.messages)} messages came while nobody could be handed them, "
            f"between {_time(first)} and {_time(last)}. Read them with {_READER[conversation.kind]}."
        )

    @property
    def outside_text(self) -> str:
        """What people wrote: how they call themselves, and the newest text."""
        return f"From {self._senders()}. The last one: {self.last_text}"

    @property
    def last_text(self) -> str:
        """The newest text, shortened."""
        text = self.last.text
        return text if len(text) <= LAST_SHOWN else f"{text[: LAST_SHOWN - 1]}…"

    def as_message(self, conversation: Conversation) -> Message:
        """Return the digest in the place of its newest message, for results of calls."""
        text = f"{self.summary(conversation)} {self.outside_text}"
        return replace(self.last, text=text, sender_name=self._senders(), sender_id="", sender_address="")

    def _senders(self) -> str:
        counts = Counter(one_line(message.sender_name, 80) or "somebody without a name" for message in self.messages)
        shown = [f"{name} ({number})" for name, number in counts.most_common(_SENDERS_SHOWN)]
        more = len(counts) - len(shown)
        return ", ".join([*shown, *([f"{more} more"] if more else [])])


def backlog(messages: Sequence[Message], now: datetime) -> Digest | None:
    """Return the digest of what is not live any more, or None when that is little enough to be shown one by one."""
    old = tuple(message for message in messages if not is_live(message, now))[:MOST]
    return Digest(old) if len(old) > MANY else None


def is_live(message: Message, now: datetime) -> bool:
    """Whether the message was said just now. now: on the service's clock."""
    return now - message.created <= LIVE


def _time(value: datetime) -> str:
    return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
