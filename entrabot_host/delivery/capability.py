"""Whether the MCP host shows pushes: proven when the model uses an id that it can only know from a push.

A host's name proves nothing: the one host that is known for channels drops pushes silently without its flag.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from entrabot_host.delivery.claims import Kind

ASSUMED_CLIENTS = frozenset({"claude-code"})
TOLD_KEPT = 2_000
PUSHED_KEPT = 64
_LONGEST_ID = 1_000
_DEPTH = 3
_CHAT_ID = re.compile(r"19:[A-Za-z0-9._@-]+")
_MARGIN_SECONDS = 5.0


class Capability:
    """What is known of the host. setting: ``on``, ``off`` or ``auto``. client: returns the host's name.

    boot: the boot clock.
    """

    def __init__(self, setting: str, client: Callable[[], str], boot: Callable[[], float]) -> None:
        self.client = client
        self._fixed = {"on": Kind.PROVEN, "off": Kind.NONE}.get(setting)
        self._boot = boot
        self._proven = False
        self._answered_at = float("-inf")
        self._told: OrderedDict[str, None] = OrderedDict()
        self._pushed_only: OrderedDict[str, None] = OrderedDict()

    @property
    def kind(self) -> Kind:
        """What is known now."""
        if self._fixed is not None:
            return self._fixed
        if self._proven:
            return Kind.PROVEN
        return Kind.ASSUMED if self.client() in ASSUMED_CLIENTS else Kind.NONE

    @property
    def _open(self) -> bool:
        return self._fixed is None and not self._proven

    def pushed(self, conversation_id: str, message_id: str, age: float) -> None:
        """Note a push. age: seconds since the message was created.

        A message that the model may have read by a tool before it was pushed proves nothing later.
        """
        if not self._open:
            return
        if self._boot() - self._answered_at > age + _MARGIN_SECONDS:
            self._pushed_only[message_id] = None
        if conversation_id not in self._told:
            self._pushed_only[conversation_id] = None
        _shorten(self._pushed_only, PUSHED_KEPT)

    def answered(self, text: str) -> None:
        """Learn from a result what the model is told by other ways than pushes."""
        if not self._open:
            return
        self._answered_at = self._boot()
        if "19:" in text:
            for found in _CHAT_ID.findall(text):
                self._tell(found)
        for known in [known for known in self._pushed_only if known in text]:
            self._tell(known)

    def called(self, named: frozenset[str]) -> bool:
        """Learn from the texts in a call's arguments; True when they prove that pushes are shown."""
        if not self._open:
            return False
        self._proven = not named.isdisjoint(self._pushed_only)
        for name in named:
            if _CHAT_ID.fullmatch(name):
                self._tell(name)
        if self._proven:
            self._pushed_only.clear()
            self._told.clear()
        return self._proven

    def _tell(self, known: str) -> None:
        self._pushed_only.pop(known, None)
        self._told[known] = None
        self._told.move_to_end(known)
        _shorten(self._told, TOLD_KEPT)


def texts_of(arguments: Mapping[str, Any]) -> frozenset[str]:
    """Return the short texts among a call's arguments: those that may be ids."""
    return frozenset(_texts(arguments, _DEPTH))


def _texts(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        if 0 < len(value) <= _LONGEST_ID:
            yield value
    elif depth and isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item, depth - 1)
    elif depth and isinstance(value, list | tuple):
        for item in value[:100]:
            yield from _texts(item, depth - 1)


def _shorten(names: OrderedDict[str, None], most: int) -> None:
    while len(names) > most:
        names.popitem(last=False)
