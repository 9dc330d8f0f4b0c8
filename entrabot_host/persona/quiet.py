"""Silence of the MCP and HTTP libraries while they talk to the persona's server.

They log what a server says, and a server may say the token back.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_LIBRARIES = ("mcp", "httpx2", "httpcore2")
_LATE = ("httpcore2.connection", "httpcore2.http11", "httpcore2.http2", "httpcore2.proxy", "httpcore2.socks")
"""Loggers of modules that are imported with the first connection."""
_quiet: ContextVar[bool] = ContextVar("entrabot_persona_quiet", default=False)


@contextmanager
def silenced() -> Iterator[None]:
    """Drop what these libraries log in this task and in the tasks it starts, and nothing else."""
    for name in [*_LIBRARIES, *_LATE, *logging.root.manager.loggerDict]:
        if name.partition(".")[0] in _LIBRARIES:
            logging.getLogger(name).addFilter(_is_loud)
    token = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(token)


def _is_loud(record: logging.LogRecord) -> bool:
    return not _quiet.get()
