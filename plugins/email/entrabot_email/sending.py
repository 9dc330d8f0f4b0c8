"""Sending mail: checked before Graph sees it, and settled when the outcome of a send is unknown."""

import html
import re
import secrets
import time
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Annotated, Any, Literal

import anyio
from pydantic import Field

from entrabot_email.addresses import Recipient, parse_addresses
from entrabot_email.api import MailApi, explained
from entrabot_email.books import keep_books
from entrabot_email.reading import check_message_id
from entrabot_email.wire import Mail, listed
from entrabot_host import (
    Attribution,
    Conversation,
    Direction,
    GraphError,
    GraphUnavailable,
    Host,
    Interaction,
    InvalidArgument,
    Principal,
)

AUDIT_ACTION = "email.send"
MAX_BODY_BYTES = 1_000_000
MAX_SUBJECT = 255
OWN_PREFIX = "[EntraBot]"
"""Starts every mail written in a person's name."""
MARK = "x-entrabot-send-id"
"""The header by which a mail whose send broke off is found again."""

_SUMMARY = 300
_LOOKS = (1.0, 3.0, 5.0)
_CLOCK_SLACK = timedelta(seconds=3)
_TAG = re.compile(r"<[^<>]*>")

ContentType = Literal["html", "text"]


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A mail that passed all checks. reply_to: the mail it answers, None for a new one."""

    to: tuple[Recipient, ...]
    cc: tuple[Recipient, ...]
    bcc: tuple[Recipient, ...]
    subject: str
    body: str
    content_type: ContentType
    reply_to: Mail | None = None

    @property
    def everybody(self) -> tuple[Recipient, ...]:
        """All who get it."""
        return (*self.to, *self.cc, *self.bcc)

    def to_graph(self, mark: str) -> dict[str, Any]:
        """Return Graph's ``message``: what a reply takes over from its original is left out."""
        message: dict[str, Any] = {
            "body": {"contentType": self.content_type, "content": self.body},
            "toRecipients": [one.to_graph() for one in self.to],
        }
        for name, people in (("ccRecipients", self.cc), ("bccRecipients", self.bcc)):
            if people:
                message[name] = [one.to_graph() for one in people]
        if self.reply_to is None:
            message["subject"] = self.subject
            message["internetMessageHeaders"] = [{"name": MARK, "value": mark}]
        return message

    def text(self) -> str:
        """Return the words of the body."""
        plain = html.unescape(_TAG.sub(" ", self.body)) if self.content_type == "html" else self.body
        return " ".join(plain.split())


class Sending:
    """The tool that sends mail."""

    def __init__(self, host: Host, api: MailApi) -> None:
        self._host = host
        self._api = api

    async def send_email(
        self,
        to: Annotated[str, Field(description="Addresses, comma-separated")],
        subject: Annotated[str, Field(description="Ignored in a reply")],
        body: Annotated[str, Field(description="All of it")],
        content_type: Annotated[ContentType, Field(description="Of body")] = "html",
        cc: Annotated[str, Field(description="Addresses")] = "",
        bcc: Annotated[str, Field(description="Addresses")] = "",
        reply_to_message_id: Annotated[str, Field(description="The message_id you answer")] = "",
    ) -> dict[str, Any]:
        """Send a mail. To answer one, pass reply_to_message_id: it keeps the thread.

        After an unknown outcome do not simply send again.
        """
        me = await self._host.identity.me()
        draft = _prefixed(await self._draft(to, subject, body, content_type, cc, bcc, reply_to_message_id), me)
        with explained():
            await self._deliver(draft)
        await self._remember(draft, me)
        sent: dict[str, Any] = {"status": "accepted", "to": listed(draft.to)}
        if draft.cc or draft.bcc:
            sent |= {"cc": listed(draft.cc), "bcc": listed(draft.bcc)}
        return sent | ({"in_reply_to": draft.reply_to.id} if draft.reply_to else {"subject": draft.subject})

    async def _draft(
        self, to: str, subject: str, body: str, content_type: ContentType, cc: str, bcc: str, reply_to: str
    ) -> Draft:
        people = {name: parse_addresses(text, name) for name, text in (("to", to), ("cc", cc), ("bcc", bcc))}
        _check_body(body)
        original = await self._original(reply_to) if reply_to else None
        if original is not None:
            people["to"] = _reply_recipients(original, people["to"], people["cc"] + people["bcc"])
        elif not subject.strip():
            raise InvalidArgument("subject is empty.", remedy="Say in a few words what the mail is about.")
        if not people["to"]:
            raise InvalidArgument("to names nobody.", remedy="Write at least one address.")
        return Draft(**people, subject=_one_line(subject), body=body, content_type=content_type, reply_to=original)

    async def _original(self, message_id: str) -> Mail:
        check_message_id(message_id, "reply_to_message_id")
        with explained():
            return await self._api.read(message_id)

    async def _deliver(self, draft: Draft) -> None:
        """Send. Raises `GraphUnavailable` with the outcome unknown when it is not in Sent Items either."""
        mark, began = secrets.token_hex(8), time.monotonic()
        message = draft.to_graph(mark)
        try:
            if draft.reply_to is None:
                await self._api.send(message)
            else:
                await self._api.reply(draft.reply_to.id, message)
        except GraphUnavailable as error:
            if not error.outcome_unknown or not await self._was_sent(draft, mark, began):
                raise

    async def _was_sent(self, draft: Draft, mark: str, began: float) -> bool:
        """Look for the mail in Sent Items, where it may appear some seconds late."""
        for pause in _LOOKS:
            await anyio.sleep(pause)
            try:
                page = await self._api.newest_sent()
            except GraphError as error:
                self._host.log.info("looking for a mail after a broken send failed: %s", error.message)
                continue
            not_before = page.served and page.served - timedelta(seconds=time.monotonic() - began) - _CLOCK_SLACK
            recent = [mail for mail in page.mails if not_before and mail.received >= not_before]
            if any(_is_it(mail, draft, mark) for mail in recent):
                return True
        return False

    async def _remember(self, draft: Draft, me: Principal) -> None:
        """Write down what was sent."""
        original = draft.reply_to
        metadata = {"subject": original.subject if original else draft.subject}
        if original:
            metadata["reply_to_message_id"] = original.id
        entry = Interaction(
            channel="email",
            direction=Direction.OUTBOUND,
            sender=me.user_name,
            summary=f"{metadata['subject']}: {draft.text()}"[:_SUMMARY],
            recipient=", ".join(one.address for one in draft.everybody),
            action="send_email",
            content_ref=original.id if original else "",
            metadata=metadata,
        )
        mailbox = Conversation.mail(me.user_name.lower())
        steps = (
            partial(self._host.inbox.spoke, mailbox, f"sent-{secrets.token_hex(8)}"),
            partial(self._host.records.interaction, entry),
        )
        await keep_books(self._host, AUDIT_ACTION, entry.recipient, steps)


def _check_body(body: str) -> None:
    if not body.strip():
        raise InvalidArgument("body is empty.", remedy="Say something that people can read.")
    if (size := len(body.encode("utf-8", "surrogatepass"))) > MAX_BODY_BYTES:
        raise InvalidArgument(
            f"body is too long: {size} bytes, the limit is {MAX_BODY_BYTES}.", remedy="Shorten it, or share a file."
        )


def _reply_recipients(
    original: Mail, to: tuple[Recipient, ...], others: tuple[Recipient, ...]
) -> tuple[Recipient, ...]:
    """Return who gets the answer.

    Graph always sends it to whom the original names for replies; where that is not whom the caller means, nothing is
    sent. A Reply-To that leads elsewhere is a trick.
    """
    default = original.reply_to or ((original.sender,) if original.sender.address else ())
    if not default:
        raise InvalidArgument(
            "The mail names nobody to answer.", remedy="Send a new mail, without reply_to_message_id."
        )
    if not to:
        if original.reply_to and {one.key for one in default} != {original.sender.key}:
            raise _elsewhere()
        return default
    if not {one.key for one in default} <= {one.key for one in (*to, *others)}:
        raise (
            _elsewhere()
            if original.reply_to
            else InvalidArgument(
                "A reply goes to the sender of the mail, whom to does not name.",
                remedy="Add the sender to to, or send a new mail, without reply_to_message_id.",
            )
        )
    return to


def _elsewhere() -> InvalidArgument:
    return InvalidArgument(
        "A reply to this mail would go to its Reply-To, which to does not name.",
        remedy="Look at reply_to with read_email. Name it in to if it is meant, else send a new mail, without "
        "reply_to_message_id.",
    )


def _prefixed(draft: Draft, me: Principal) -> Draft:
    """Mark what is written in a person's name."""
    if me.attribution is Attribution.AGENT:
        return draft
    prefix = f"<p>{OWN_PREFIX}</p>" if draft.content_type == "html" else f"{OWN_PREFIX}\n\n"
    return replace(draft, subject=f"{OWN_PREFIX} {draft.subject}", body=f"{prefix}{draft.body}")


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    if len(line) > MAX_SUBJECT:
        raise InvalidArgument(f"subject is longer than {MAX_SUBJECT} characters.", remedy="Shorten it.")
    return line


def _is_it(mail: Mail, draft: Draft, mark: str) -> bool:
    if draft.reply_to is None:
        return mail.header(MARK) == mark
    same_people = {one.key for one in draft.to} <= {one.key for one in mail.to}
    return same_people and mail.conversation_id == draft.reply_to.conversation_id and _starts_alike(mail, draft)


def _starts_alike(mail: Mail, draft: Draft) -> bool:
    seen, meant = "".join(mail.preview.split()), "".join(draft.text().split())
    return bool(meant) and (seen[:100] == meant[:100] or meant[:100] in seen)
