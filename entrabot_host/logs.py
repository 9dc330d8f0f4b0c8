"""Logging to stderr, off the event loop, with secrets taken out of every line."""

from __future__ import annotations

import logging
import logging.handlers
import queue
import sys

from entrabot_host.config import Config
from entrabot_host.security.redaction import redact

LEVEL = "ENTRABOT_LOG_LEVEL"
_WAITING_LINES = 2000
_KEPT_QUIET = ("msal", "urllib3", "httpx", "httpcore", "filelock", "asyncio")
"""Libraries that log addresses, and at DEBUG much else: never more than their warnings."""


class RedactingFormatter(logging.Formatter):
    """Takes secrets out of the finished line, tracebacks included."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        return redact(super().format(record))


class DroppingQueueHandler(logging.handlers.QueueHandler):
    """Drops lines while nobody reads stderr, instead of blocking whoever logs."""

    def enqueue(self, record: logging.LogRecord) -> None:
        """Queue the line if there is room."""
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            return


def start_logging(config: Config) -> logging.handlers.QueueListener:
    """Log from now on, at the level of ``ENTRABOT_LOG_LEVEL``; stop the result at the end to write out what waits."""
    level = config.get(LEVEL).upper()
    stderr = logging.StreamHandler(sys.stderr)
    stderr.setFormatter(RedactingFormatter("entrabot: %(levelname)s %(name)s: %(message)s"))
    waiting: queue.Queue[logging.LogRecord] = queue.Queue(_WAITING_LINES)
    listener = logging.handlers.QueueListener(waiting, stderr)
    known = level in logging.getLevelNamesMapping()
    logging.basicConfig(level=level if known else "WARNING", handlers=[DroppingQueueHandler(waiting)], force=True)
    for name in _KEPT_QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))
    listener.start()
    if level and not known:
        logging.getLogger(__name__).warning("%s must be DEBUG, INFO, WARNING or ERROR; using WARNING", LEVEL)
    return listener
