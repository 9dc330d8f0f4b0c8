"""What a running tool call carries to the model in its result.

The boundary around calls makes a `Cargo` for each and sets `CURRENT`; a tool that waits puts messages in. When the
line of the response has left for the host they count as shown. A call that fails or is cancelled gives them back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from entrabot_host.delivery.talk import Shown, Talk
from entrabot_host.host import Sponsor


@dataclass(frozen=True)
class Piece:
    """One thing in a call's result. again: it was pushed before, so it is recorded already."""

    talk: Talk
    shown: Shown
    sponsor: Sponsor | None = None
    again: bool = False


OnEnd = Callable[[Sequence[Piece], bool, bool], None]
"""``(pieces, shown, in_doubt)``"""


class Cargo:
    """The pieces of one call. ``on_end(pieces, shown, in_doubt)`` is called once, when their outcome is known."""

    def __init__(self, on_end: OnEnd) -> None:
        self.pieces: list[Piece] = []
        self._on_end = on_end
        self._ended = False

    def add(self, pieces: Sequence[Piece]) -> None:
        """The call's result will hold these; after its end they are given back at once."""
        if self._ended and pieces:
            self._on_end(pieces, False, False)
        elif pieces:
            self.pieces.extend(pieces)

    def shown(self) -> None:
        """The response has left for the host."""
        self._end(True, False)

    def lost(self, *, in_doubt: bool = False) -> None:
        """The call failed or was cancelled. in_doubt: its response may have left all the same."""
        self._end(False, in_doubt)

    def _end(self, shown: bool, in_doubt: bool) -> None:
        self._ended = True
        pieces, self.pieces = self.pieces, []
        if pieces:
            self._on_end(pieces, shown, in_doubt)


CURRENT: Final[ContextVar[Cargo]] = ContextVar("entrabot-cargo")
"""The cargo of the running call."""
