"""An answer on its way out, before it is HTTP or a part of a batch."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Reply:
    """A status, headers, and either a JSON document or bytes."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    json: Any = None
    body: bytes | None = None

    def __post_init__(self) -> None:
        self.headers = dict(self.headers)

    def content(self) -> bytes:
        """The bytes to send."""
        if self.body is not None:
            return self.body
        return b"" if self.json is None else json.dumps(self.json, ensure_ascii=False).encode()
