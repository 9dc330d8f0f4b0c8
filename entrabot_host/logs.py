"""Logging to stderr, off the event loop, with secrets taken out of every line."""

from __future__ import annotations

import logging
import logging.handlers
import os
import queue
import sys
from datetime import UTC, datetime
from pathlib import Path

from entrabot_host.config import Config
from entrabot_host.errors import SettingsError
from entrabot_host.folders import Folders
from entrabot_host.security.redaction import redact

LEVEL = "ENTRABOT_LOG_LEVEL"
_WAITING_LINES = 2000
_KEPT_QUIET = ("msal", "urllib3", "httpx", "httpcore", "httpx2", "httpcore2", "filelock", "asyncio")
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
    outputs: list[logging.Handler] = [stderr]
    if folder := config.load(Folders).logs:
        outputs.append(_file_in(folder))
    waiting: queue.Queue[logging.LogRecord] = queue.Queue(_WAITING_LINES)
    listener = logging.handlers.QueueListener(waiting, *outputs)
    known = level in logging.getLevelNamesMapping()
    handler = DroppingQueueHandler(waiting)
    handler.setFormatter(logging.Formatter("%(message)s"))  # the listener's handlers add the rest
    logging.basicConfig(level=level if known else "WARNING", handlers=[handler], force=True)
    for name in _KEPT_QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))
    listener.start()
    if level and not known:
        logging.getLogger(__name__).warning("%s must be DEBUG, INFO, WARNING or ERROR; using WARNING", LEVEL)
    return listener


def _file_in(folder: Path) -> logging.Handler:
    """A file of the day, readable by its owner only; several processes append whole lines to it."""
    path = folder / f"{datetime.now(UTC):%Y-%m-%d}.log"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        handler = logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise SettingsError(
            f"The log folder {folder} cannot be written: {error.strerror}.",
            remedy="Name a writable folder in ENTRABOT_LOG_DIR, or unset it to log to stderr only.",
        ) from None
    handler.setFormatter(RedactingFormatter("%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"))
    return handler
