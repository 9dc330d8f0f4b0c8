"""The record of a conversation: what is done, who holds the lease, where its messages go first."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from entrabot_host.errors import StorageError
from entrabot_host.host import Conversation, ConversationKind
from entrabot_host.storage.keys import quoted

Times = Mapping[str, datetime]
"""Message ids with the times of their creation, in the order in which they were handed over."""

SENT_KEPT = 50
INSTALLATION_KEY = "installation.json"
_FOLDERS = {ConversationKind.CHAT: "chats", ConversationKind.MAIL: "mail"}


@dataclass(frozen=True, kw_only=True)
class Record:
    """One conversation.

    floor: everything created at or before it is done. ids: what was recorded above the floor. epoch, owner, in_hand:
    the lease; who claimed, and exactly which messages. An empty owner with something in hand means that it is doubtful
    whether those were handed over. unconfirmed: by session, what was handed to a host that may not have shown it; it
    is among ``ids``, and the floor stays below it. sent: ids of this agent's own last messages. preferred: the session
    that took part last. extra: keys of other versions, kept.
    """

    floor: datetime
    ids: Times = field(default_factory=dict)
    epoch: int = 0
    owner: str = ""
    in_hand: Times = field(default_factory=dict)
    unconfirmed: Mapping[str, Times] = field(default_factory=dict)
    sent: tuple[str, ...] = ()
    preferred: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)

    def with_floor(self, floor: datetime) -> Record:
        """Move the floor up, never down, and forget the ids that it covers now."""
        floor = max(self.floor, floor)
        return replace(self, floor=floor, ids=_above(self.ids, floor), in_hand=_above(self.in_hand, floor))

    def unconfirmed_by(self, sessions: Iterable[str]) -> dict[str, datetime]:
        """Return what was handed to these sessions and may not have been shown."""
        return {key: created for session in sessions for key, created in self.unconfirmed.get(session, {}).items()}

    def with_unconfirmed(self, session: str, handed: Times, settled: Iterable[str]) -> Record:
        """Note what ``session`` was handed and may not have shown; ``settled`` is in doubt for nobody else now."""
        over = set(settled)
        left = {key: _without(times, over) for key, times in self.unconfirmed.items()}
        mine = {**left.get(session, {}), **handed}
        kept = {key: times for key, times in {**left, session: mine}.items() if times}
        return self if kept == self.unconfirmed else replace(self, unconfirmed=kept)

    def with_confirmed(self, session: str, confirmed: Iterable[str]) -> Record:
        """Note that the host of ``session`` has shown these."""
        mine = self.unconfirmed.get(session, {})
        if not (over := mine.keys() & set(confirmed)):
            return self
        kept = {**self.unconfirmed, session: _without(mine, over)}
        return replace(self, unconfirmed={key: times for key, times in kept.items() if times})

    def without_old_unconfirmed(self, horizon: datetime) -> Record:
        """Keep nothing in doubt that was created at or before ``horizon``."""
        kept = {session: _above(times, horizon) for session, times in self.unconfirmed.items()}
        return replace(self, unconfirmed={session: times for session, times in kept.items() if times})

    def with_sent(self, session: str, messages: Iterable[str]) -> Record:
        """Note messages that ``session`` sent here."""
        sent = tuple(dict.fromkeys((*self.sent, *messages)))
        return replace(self, sent=sent[-SENT_KEPT:], preferred=session)


def record_key(conversation: Conversation) -> str:
    """Where the record is kept: ``chats/<quoted id>.json`` or ``mail/<quoted mailbox>.json``."""
    return f"{_FOLDERS[conversation.kind]}/{quoted(conversation.id)}.json"


def dump(record: Record) -> bytes:
    """Return the stored form."""
    value = {
        **record.extra,
        "floor": _iso(record.floor),
        "ids": _dump_times(record.ids),
        "epoch": record.epoch,
        "owner": record.owner,
        "in_hand": _dump_times(record.in_hand),
        "unconfirmed": {session: _dump_times(times) for session, times in record.unconfirmed.items()},
        "sent": list(record.sent),
        "preferred": record.preferred,
    }
    return json.dumps(value, indent=1).encode("ascii") + b"\n"


def parse(data: bytes, key: str) -> Record:
    """Read the stored form; missing keys have their defaults, unknown ones are kept.

    Raises `StorageError` when it makes no sense: then nothing may be delivered.
    """
    try:
        value = json.loads(data)
        return Record(
            floor=time_of(value.pop("floor")),
            ids=_parse_times(value.pop("ids", {})),
            epoch=int(value.pop("epoch", 0)),
            owner=str(value.pop("owner", "")),
            in_hand=_parse_times(value.pop("in_hand", {})),
            unconfirmed={str(by): _parse_times(times) for by, times in value.pop("unconfirmed", {}).items()},
            sent=tuple(str(item) for item in value.pop("sent", ())),
            preferred=str(value.pop("preferred", "")),
            extra=value,
        )
    except (ValueError, TypeError, AttributeError, KeyError, OverflowError) as error:
        raise StorageError(
            f"The record {key} makes no sense ({type(error).__name__}), so nothing of it is delivered.",
            remedy="Move the file away; the conversation then starts afresh.",
        ) from None


def time_of(text: str) -> datetime:
    """Parse an ISO time; one without a zone is UTC. Raises `ValueError`."""
    value = datetime.fromisoformat(text)
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _iso(value: datetime) -> str:
    return value.astimezone(UTC).isoformat()


def _dump_times(times: Times) -> dict[str, str]:
    return {identifier: _iso(created) for identifier, created in times.items()}


def _parse_times(value: Mapping[str, str]) -> dict[str, datetime]:
    return {str(identifier): time_of(created) for identifier, created in value.items()}


def _without(times: Times, over: Collection[str]) -> dict[str, datetime]:
    return {identifier: created for identifier, created in times.items() if identifier not in over}


def _above(times: Times, floor: datetime) -> dict[str, datetime]:
    return {identifier: created for identifier, created in times.items() if created > floor}
