"""Where a conversation starts that is new to this installation."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from entrabot_host.delivery.lease import TRAIL
from entrabot_host.delivery.record import INSTALLATION_KEY, Record, time_of
from entrabot_host.errors import ConcurrencyError, StorageError
from entrabot_host.host import Conversation, ConversationKind
from entrabot_host.storage.backend import MemoryBackend
from entrabot_host.storage.keys import quoted

log = logging.getLogger(__name__)

REACH = timedelta(hours=24)
_INSTANT = timedelta(microseconds=1)


class Beginnings:
    """Makes first records. now: Graph's clock."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._first_run: datetime | None = None

    async def record(self, backend: MemoryBackend, conversation: Conversation, start: datetime | None) -> Record:
        """Return the first record of a conversation.

        It starts where the cursor of the product's predecessor stood, else at the latest of ``start``, this
        installation's first run and 24 hours ago, so that a first message is heard and an old history is not.
        """
        first_run = await self.first_run(backend)
        if conversation.kind is ConversationKind.CHAT and (found := await _old_cursor(backend, conversation.id)):
            return found
        latest = max(first_run, self._now() - REACH, start or first_run)
        return Record(floor=latest - _INSTANT)

    async def first_run(self, backend: MemoryBackend) -> datetime:
        """Return when this installation ran first; the first caller of all processes decides it."""
        if self._first_run is None:
            entry = await backend.read(INSTALLATION_KEY)
            self._first_run = _parse_installation(entry.data) if entry else await self._begin(backend)
        return self._first_run

    async def _begin(self, backend: MemoryBackend) -> datetime:
        now = self._now().astimezone(UTC)
        data = json.dumps({"first_run": now.isoformat()}).encode() + b"\n"
        try:
            await backend.write(INSTALLATION_KEY, data, if_absent=True)
        except ConcurrencyError:
            entry = await backend.read(INSTALLATION_KEY)
            return _parse_installation(entry.data) if entry else now
        return now


def _parse_installation(data: bytes) -> datetime:
    try:
        return time_of(json.loads(data)["first_run"])
    except (ValueError, TypeError, KeyError) as error:
        raise StorageError(
            f"{INSTALLATION_KEY} makes no sense ({type(error).__name__}).",
            remedy="Move the file away; new chats are then heard from now on.",
        ) from None


async def _old_cursor(backend: MemoryBackend, chat_id: str) -> Record | None:
    """Read the predecessor's cursor: the time of the last message it saw, and the ids of the last fifty."""
    key = f"chat_cursors/{quoted(chat_id)}.json"
    entry = await backend.read(key)
    if entry is None:
        return None
    try:
        value = json.loads(entry.data)
        if not value["bootstrapped"]:
            return None
        last = time_of(value["last_ts"])
        return Record(floor=last - TRAIL, ids={str(seen): last for seen in value.get("seen_ids_tail") or ()})
    except (ValueError, TypeError, KeyError) as error:
        log.warning("%s makes no sense (%s); the chat starts afresh.", key, type(error).__name__)
        return None
