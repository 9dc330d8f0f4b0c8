"""Mailboxes and the mail in them: what Exchange keeps, and how it carries mail from one to the other."""

from __future__ import annotations

import asyncio
import base64
import re
import secrets
from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import datetime

from entrabot_sandbox.clock import Clock
from entrabot_sandbox.directory import Directory, User
from entrabot_sandbox.errors import GraphError

FOLDERS = {
    "inbox": "Inbox",
    "drafts": "Drafts",
    "sentitems": "Sent Items",
    "deleteditems": "Deleted Items",
    "junkemail": "Junk Email",
    "archive": "Archive",
    "outbox": "Outbox",
}
CONCURRENT = 4
_WELL_FORMED = re.compile(r"AA[Mk][A-Za-z0-9+/_-]{40,200}={0,2}")


@dataclass(frozen=True)
class Correspondent:
    """Somebody as mail names him: a display name and an address."""

    name: str
    address: str


@dataclass(frozen=True)
class Attachment:
    """A file in a mail."""

    id: str
    name: str
    content_type: str
    content: bytes
    inline: bool = False
    content_id: str = ""


@dataclass(frozen=True, kw_only=True)
class Letter:
    """A mail as it travels. ``headers`` are those beyond what every mail has, in order; names may repeat."""

    sender: Correspondent | None
    to: tuple[Correspondent, ...] = ()
    cc: tuple[Correspondent, ...] = ()
    bcc: tuple[Correspondent, ...] = ()
    reply_to: tuple[Correspondent, ...] = ()
    subject: str | None = ""
    content: str = ""
    content_type: str = "html"
    headers: tuple[tuple[str, str | None], ...] = ()
    attachments: tuple[Attachment, ...] = ()
    importance: str = "normal"
    thread: str = ""
    message_id: str = ""
    kind: str = ""


@dataclass
class Mail:
    """A copy of a letter in a folder. The regular id changes with the folder, the immutable one does not.

    ``received`` has whole seconds, as Exchange keeps it.
    """

    immutable_id: str
    regular_id: str
    folder: str
    letter: Letter
    received: datetime
    created: datetime
    modified: datetime
    read: bool = False
    draft: bool = False
    change: int = 1

    @property
    def has_attachments(self) -> bool:
        """False when there are only inline ones."""
        return any(not one.inline for one in self.letter.attachments)


@dataclass
class Mailbox:
    """A mailbox of a person, or a shared one with the object ids of those who may open it."""

    address: str
    name: str
    owner: User | None
    readers: set[str] = field(default_factory=set)
    folder_ids: dict[str, str] = field(default_factory=lambda: {name: _exchange_id("AAM") for name in FOLDERS})
    mails: dict[str, Mail] = field(default_factory=dict)

    @property
    def correspondent(self) -> Correspondent:
        """As mail names it."""
        return Correspondent(self.name, self.address)

    def folder(self, reference: str) -> str | None:
        """The well-known name of a folder, by that name (in any case) or by id; None for an unknown one."""
        lowered = reference.lower()
        by_id = next((name for name, identifier in self.folder_ids.items() if identifier == reference), None)
        return lowered if lowered in FOLDERS else by_id

    def find(self, reference: str) -> Mail | None:
        """A mail by either of its ids; case counts."""
        return next((m for m in self.mails.values() if reference in (m.immutable_id, m.regular_id)), None)


class Mailboxes:
    """All mailboxes of the sandbox, made when they are first needed.

    delay: seconds that every request takes inside Exchange. replaces_recipients: whether recipients given with a reply
    take the place of its own instead of being added, which Microsoft does not document.
    """

    def __init__(self, clock: Clock, directory: Directory) -> None:
        self.clock = clock
        self.delay = 0.0
        self.replaces_recipients = False
        self.changed = asyncio.Event()
        self._directory = directory
        self._boxes: dict[str, Mailbox] = {}
        self._busy: dict[tuple[str, str], int] = defaultdict(int)

    def of(self, user: User) -> Mailbox:
        """A person's mailbox."""
        address = user.mail or user.upn
        return self._boxes.setdefault(address.lower(), Mailbox(address, user.name, user))

    def at(self, address: str) -> Mailbox | None:
        """The mailbox with this address; None where nobody is."""
        person = next((p for p in self._directory.people() if p.is_called(address)), None)
        return self.of(person) if person else self._boxes.get(address.lower())

    def share(self, address: str, name: str, readers: set[str]) -> Mailbox:
        """Make a shared mailbox."""
        box = Mailbox(address, name, None, readers)
        self._boxes[address.lower()] = box
        return box

    def put(self, box: Mailbox, folder: str, letter: Letter, received: datetime | None = None, **flags: bool) -> Mail:
        """Lay a copy of a letter into a folder."""
        now = self.clock.now()
        mail = Mail(
            _exchange_id("AAk"),
            _exchange_id("AAM"),
            folder,
            letter,
            (received or now).replace(microsecond=0),
            now.replace(microsecond=0),
            now.replace(microsecond=0),
            **flags,
        )
        box.mails[mail.immutable_id] = mail
        self._announce()
        return mail

    def move(self, box: Mailbox, mail: Mail, folder: str) -> None:
        """Move a mail: its regular id changes."""
        mail.folder, mail.regular_id = folder, _exchange_id("AAM")
        self.touch(mail)

    def touch(self, mail: Mail) -> None:
        """Note that a mail was changed."""
        mail.change += 1
        mail.modified = self.clock.now().replace(microsecond=0)
        self._announce()

    def carry(self, letter: Letter, received: datetime | None = None) -> list[Mail]:
        """Deliver a letter to everybody it names who has a mailbox here; return the copies.

        An address at one of the tenants' domains that belongs to nobody bounces, as mail to the sender.
        """
        letter = letter if letter.message_id else replace(letter, message_id=new_message_id(letter.sender))
        seen = replace(letter, bcc=())
        copies, lost = [], []
        for address in {one.address.lower(): one for one in (*letter.to, *letter.cc, *letter.bcc)}:
            box = self.at(address)
            if box is not None:
                copies.append(self.put(box, "inbox", seen, received))
            elif self._directory.tenant(address.rpartition("@")[2]):
                lost.append(address)
        for address in lost:
            self._bounce(letter, address)
        return copies

    def _bounce(self, letter: Letter, address: str) -> None:
        box = self.at(letter.sender.address) if letter.sender else None
        if box is None:
            return
        domain = address.rpartition("@")[2]
        report = Letter(
            sender=Correspondent("Microsoft Outlook", f"postmaster@{domain}"),
            to=(box.correspondent,),
            subject=f"Undeliverable: {letter.subject or ''}",
            content=f"<p>Your message to {address} couldn't be delivered. {address} wasn't found at {domain}.</p>",
            headers=(
                ("Content-Type", 'multipart/report; report-type=delivery-status; boundary="x"'),
                ("Auto-Submitted", "auto-replied"),
            ),
            thread=letter.thread,
            message_id=new_message_id(None),
        )
        self.put(box, "inbox", report)

    async def enter(self, app_id: str, box: Mailbox, *, limited: bool) -> None:
        """Begin a request. Raises GraphError (429) when the application has four under way in this mailbox."""
        key = (app_id, box.address.lower())
        if limited and self._busy[key] >= CONCURRENT:
            message = "Application is over its MailboxConcurrency limit."
            raise GraphError(429, "ApplicationThrottled", message, {"Retry-After": "1"})
        self._busy[key] += 1
        try:
            if self.delay:
                await asyncio.sleep(self.delay)
        finally:
            self._busy[key] -= 1

    def _announce(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


def is_well_formed(identifier: str) -> bool:
    """Whether a text has the form of an Exchange id."""
    return bool(_WELL_FORMED.fullmatch(identifier))


def new_message_id(sender: Correspondent | None) -> str:
    """A ``Message-ID``."""
    domain = sender.address.rpartition("@")[2] if sender else "outlook.example"
    return f"<{secrets.token_hex(16)}@{domain}>"


def new_thread() -> str:
    """A ``conversationId``."""
    return "AAQk" + base64.urlsafe_b64encode(secrets.token_bytes(33)).decode()


def _exchange_id(prefix: str) -> str:
    return prefix + base64.urlsafe_b64encode(secrets.token_bytes(61)).decode()
