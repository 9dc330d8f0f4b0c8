"""How the Work IQ servers behave where versions of them differ."""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from entrabot_sandbox.errors import ControlError

_CHOICES = {
    "tool_names": ("reference", "original"),
    "replies": ("random", "json", "sse"),
    "metadata_keys": ("pascal", "camel"),
    "failures": ("error", "text"),
}


@dataclass(frozen=True)
class WorkIqSettings:
    """tool_names: the Word tools as Microsoft's reference calls them, or as the servers first did.

    replies: a JSON document, a stream of events, or either by chance. metadata_keys: of a file's metadata.
    comment_ids: whether adding a comment tells its id. failures: marked as an error, or a text like any other.
    sessions: whether ``initialize`` opens a session.
    """

    tool_names: str = "reference"
    replies: str = "random"
    metadata_keys: str = "pascal"
    comment_ids: bool = True
    failures: str = "error"
    sessions: bool = True

    def changed(self, wish: dict[str, Any]) -> WorkIqSettings:
        """The same with these differences. Raises ControlError naming what is wrong with them."""
        names = [field.name for field in fields(self)]
        for name, value in wish.items():
            if name not in names:
                raise ControlError(400, f"There is no setting '{name}'. There are: {', '.join(names)}.")
            if name in _CHOICES and value not in _CHOICES[name]:
                raise ControlError(400, f"{name} must be one of {', '.join(_CHOICES[name])}.")
            if name not in _CHOICES and not isinstance(value, bool):
                raise ControlError(400, f"{name} must be true or false.")
        return replace(self, **wish)

    def as_dict(self) -> dict[str, Any]:
        """The settings by name."""
        return asdict(self)

    def json_next(self) -> bool:
        """Whether the next reply is a JSON document."""
        return random.choice((True, False)) if self.replies == "random" else self.replies == "json"
