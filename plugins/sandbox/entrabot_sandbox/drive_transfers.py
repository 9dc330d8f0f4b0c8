"""Pre-signed addresses on another origin: content to fetch, and upload sessions."""

from __future__ import annotations

import itertools
import re
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from entrabot_sandbox.clock import Clock, iso
from entrabot_sandbox.directory import User
from entrabot_sandbox.drive_errors import refused
from entrabot_sandbox.drive_shapes import item_object
from entrabot_sandbox.drives import PERSONAL, Drive, Drives, Item
from entrabot_sandbox.reply import Reply

UNIT = 327_680
MAX_FRAGMENT = 60 * 1024 * 1024
LIFETIME = timedelta(hours=1)
DOWNLOAD_SECONDS = 300.0
KEPT_DOWNLOADS = 500
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
_WANTED = re.compile(r"bytes=(\d+)-(\d*)")


@dataclass
class Session:
    """An upload under way. ``total`` is known with the first fragment; ``expires`` on the service's clock.

    ``item`` is what it became, ``last`` the first and last byte of the fragment that finished it.
    """

    drive: Drive
    folder: Item
    name: str
    behaviour: str
    user: User
    expires: float
    defer: bool = False
    total: int | None = None
    item: Item | None = None
    last: tuple[int, int] = (0, 0)
    content: bytearray = field(default_factory=bytearray)

    @property
    def complete(self) -> bool:
        """Whether all bytes are there."""
        return self.total is not None and len(self.content) == self.total


class Transfers:
    """What can be fetched and stored without a token, by secret addresses under ``origin``."""

    def __init__(self, clock: Clock, drives: Drives, origin: str) -> None:
        self._clock = clock
        self._drives = drives
        self._numbers = itertools.count(1)
        self.origin = origin
        self.downloads: OrderedDict[str, tuple[bytes, float]] = OrderedDict()
        self.sessions: dict[str, Session] = {}
        self.blocked_domains: set[str] = set()
        self.redirect = ""
        self.remember_sessions = True
        self.odd_fragments = False

    def next_number(self) -> int:
        """A number that was not given before."""
        return next(self._numbers)

    def download_url(self, content: bytes) -> str:
        """An address that gives this content for some minutes."""
        token = secrets.token_urlsafe(24)
        self.downloads[token] = (content, self._clock.time() + DOWNLOAD_SECONDS)
        while len(self.downloads) > KEPT_DOWNLOADS:
            self.downloads.popitem(last=False)
        return self.redirect or f"{self.origin}/transfers/content/{token}?tempauth={secrets.token_urlsafe(8)}"

    def open(self, drive: Drive, folder: Item, name: str, behaviour: str, user: User, *, defer: bool) -> dict[str, Any]:
        """Begin an upload; returns the ``uploadSession``."""
        token = secrets.token_urlsafe(24)
        session = Session(drive, folder, name, behaviour, user, 0.0, defer)
        self.sessions[token] = session
        self._extend(session)
        return {"uploadUrl": f"{self.origin}/transfers/upload/{token}?tempauth=1", **self._status(session)}

    def _extend(self, session: Session) -> None:
        session.expires = self._clock.time() + LIFETIME.total_seconds()

    def _status(self, session: Session) -> dict[str, Any]:
        expires = self._clock.now() + LIFETIME
        end = session.total - 1 if session.total and session.drive.kind != PERSONAL else ""
        ranges = [] if session.complete else [f"{len(session.content)}-{end}"]
        return {"expirationDateTime": iso(expires), "nextExpectedRanges": ranges}

    def fetch(self, token: str, wanted: str) -> Reply:
        """The content behind an address, or a part of it. Raises GraphError."""
        content, expires = self.downloads.get(token, (b"", 0.0))
        if expires < self._clock.time():
            raise refused(401, "unauthenticated", "The address has expired.")
        headers = {"Content-Type": "application/octet-stream", "Accept-Ranges": "bytes"}
        match = _WANTED.fullmatch(wanted)
        if match is None:
            return Reply(200, headers, body=content)
        start, end = int(match[1]), min(int(match[2] or len(content) - 1), len(content) - 1)
        if start >= len(content):
            raise refused(416, "invalidRange", "The range can't be satisfied.")
        headers["Content-Range"] = f"bytes {start}-{end}/{len(content)}"
        return Reply(206, headers, body=content[start : end + 1])

    def session(self, token: str) -> Session:
        """An upload under way. Raises GraphError (404)."""
        session = self.sessions.get(token)
        if session is None or session.item is not None or session.expires < self._clock.time():
            raise refused(404, "itemNotFound", "The upload session was not found.", "uploadSessionNotFound")
        return session

    def status(self, token: str) -> Reply:
        """What is still missing."""
        return Reply(200, json=self._status(self.session(token)))

    def cancel(self, token: str) -> Reply:
        """Give an upload up."""
        self.session(token)
        del self.sessions[token]
        return Reply(204)

    def put(self, token: str, span: str, body: bytes) -> Reply:
        """Take a fragment: 202, or 201 or 200 with the item after the last. Raises GraphError."""
        start, end, total = _parsed(span)
        session = self.sessions.get(token) or self.session(token)
        if session.item is not None and (start, end) == session.last:
            return Reply(201, json=self._finished(session, session.item))
        session = self.session(token)
        session.total = total if session.total is None else session.total
        if total != session.total or len(body) != end - start + 1 or end >= total:
            raise refused(400, "invalidRequest", "The fragment's length does not match.", "fragmentLengthMismatch")
        if len(body) >= MAX_FRAGMENT:
            raise refused(413, "invalidRequest", "The fragment is too large.", "maxFragmentSizeExceeded")
        if end + 1 < total and len(body) % UNIT and not self.odd_fragments:
            raise refused(400, "invalidRequest", "The fragment's size must be a multiple of 320 KiB.")
        if not (session.complete and end + 1 == total):  # one that only has to be committed again may come again
            if start < len(session.content):
                raise refused(416, "invalidRange", "The fragment was received already.", "fragmentOverlap")
            if start > len(session.content):
                raise refused(416, "invalidRange", "The fragment is out of order.", "fragmentOutOfOrder")
            session.content += body
            session.last = (start, end)
        self._extend(session)
        if not session.complete or session.defer:
            return Reply(202, json=self._status(session))
        return self.commit(token)

    def commit(self, token: str) -> Reply:
        """Make the file. Raises GraphError, which keeps the session."""
        session = self.session(token)
        if not session.complete:
            raise refused(400, "invalidRequest", "Bytes are missing.")
        before = session.drive.child(session.folder, session.name)
        item = self._drives.store(
            session.drive, session.folder, session.name, bytes(session.content), session.user, session.behaviour
        )
        session.item = item
        session.content = bytearray()
        if not self.remember_sessions:
            del self.sessions[token]
        return Reply(200 if item is before else 201, json=self._finished(session, item))

    def _finished(self, session: Session, item: Item) -> dict[str, Any]:
        return item_object(session.drive, item, self.download_url(item.content or b""))


def _parsed(span: str) -> tuple[int, int, int]:
    match = _RANGE.fullmatch(span.strip())
    if match is None or int(match[1]) > int(match[2]):
        raise refused(400, "invalidRequest", "The Content-Range header is missing or malformed.")
    return int(match[1]), int(match[2]), int(match[3])
