"""Which mail is noise, and which cannot be read here."""

from __future__ import annotations

import re

from entrabot_email.wire import Mail

_NO_REPLY = re.compile(
    r"(?:^|[._+-])(?:no[._-]?reply|do[._-]?not[._-]?reply|donotreply|mailer[._-]?daemon)(?:$|[._+-])"
)
_BULK = frozenset({"bulk", "list", "junk", "auto_reply"})
_ANSWERS_TO_INVITATIONS = frozenset({"eventMessageResponse"})
_PROTECTED_NOTE = (
    "aka.ms/protectedmessage",
    "microsoft information protection",
    "microsoft purview message encryption",
)


def is_own(mail: Mail, address: str) -> bool:
    """Whether the agent wrote it itself, or has not sent it yet."""
    return mail.is_draft or mail.sender.key == address.lower()


def is_bounce(mail: Mail) -> bool:
    """Whether it reports that a mail of the agent could not be delivered."""
    kind = mail.header("content-type")
    local = mail.sender.key.partition("@")[0]
    return kind.startswith("multipart/report") or (
        local.startswith(("postmaster", "microsoftexchange", "mailer-daemon"))
        and mail.subject.lower().startswith(("undeliverable", "delivery has failed", "returned mail"))
    )


def noise(mail: Mail) -> str:
    """Return why nobody needs to see it, or nothing. Bounces are no noise: somebody did not get what was sent."""
    if is_bounce(mail):
        return ""
    if mail.kind in _ANSWERS_TO_INVITATIONS:
        return "answer to an invitation"
    automatic = mail.header("auto-submitted")
    if automatic and not automatic.startswith("no"):
        return "automatic reply"
    if mail.header("x-autoreply") or mail.header("x-autorespond"):
        return "automatic reply"
    if mail.header("list-unsubscribe") or mail.header("list-id") or mail.header("precedence") in _BULK:
        return "mailing list"
    if _NO_REPLY.search(mail.sender.key.partition("@")[0]):
        return "no-reply sender"
    return ""


def is_protected(mail: Mail) -> bool:
    """Whether it is encrypted by Microsoft Purview, so that Graph shows a note in place of its text."""
    if mail.header("content-class") == "rpmsg.message" or "rpmsg" in mail.header("content-type"):
        return True
    text = (mail.body or mail.preview)[:2_000].lower()
    return "message" in text and "protected" in text and any(note in text for note in _PROTECTED_NOTE)
