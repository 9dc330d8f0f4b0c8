"""A message before it is sent: checked, made into what Graph takes, and known by what it will look like in the chat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from entrabot_host import InvalidArgument
from entrabot_teams.markup import from_markdown, note, sanitised, tidy
from entrabot_teams.mentions import graph_mentions
from entrabot_teams.text import html_to_text, mention_tags

MAX_BYTES = 28 * 1024
"""Teams' limit for a message, attachments included."""
TOO_LONG = "Shorten it, send it in several messages, or share a file."

ContentType = Literal["html", "text", "markdown"]
Mentions = list[dict[str, Any]]


@dataclass(frozen=True)
class Draft:
    """A message that passed all checks.

    text: its plain text, by which it is recognised when read back; with attachments it is recognised by their ids.
    """

    content: str
    content_type: Literal["html", "text"]
    text: str
    mentions: Mentions = field(default_factory=list)
    attachments: Sequence[dict[str, Any]] = ()

    def to_graph(self) -> dict[str, Any]:
        """Return the body of the request that sends it or puts it in another message's place."""
        message: dict[str, Any] = {"body": {"contentType": self.content_type, "content": self.content}}
        if self.mentions:
            message["mentions"] = self.mentions
        if self.attachments:
            message["attachments"] = list(self.attachments)
        return message


def compose(message: str, content_type: ContentType, mentions: Mentions, prefix: str = "") -> Draft:
    """Check a message and return what is to be sent. Parses HTML: call it in a worker thread.

    prefix: stands before it, plain text. Raises `InvalidArgument`.
    """
    check_size(len(message))
    message = tidy(message)
    if content_type == "text":
        return _plain(message, mentions, prefix)
    body = sanitised(from_markdown(message) if content_type == "markdown" else message)
    _check_said(html_to_text(body))
    content = f"{prefix}{body}"
    check_size(len(content.encode()))
    return Draft(content, "html", html_to_text(content), graph_mentions(mentions, mention_tags(body)))


def remark(text: str, argument: str, prefix: str = "") -> Draft:
    """Return a short remark in italics, as placeholders are written. Raises `InvalidArgument`."""
    check_size(len(text), argument)
    text = tidy(text)
    _check_said(text, argument)
    content = f"{prefix}{note(text)}"
    check_size(len(content.encode()), argument)
    return Draft(content, "html", html_to_text(content))


def check_size(size: int, argument: str = "message") -> None:
    """Raise `InvalidArgument` for more bytes than a message may have."""
    if size > MAX_BYTES:
        raise InvalidArgument(f"{argument} is too long: {size} bytes, the limit is {MAX_BYTES}.", remedy=TOO_LONG)


def _plain(message: str, mentions: Mentions, prefix: str) -> Draft:
    if mentions:
        raise InvalidArgument(
            "mentions need content_type html or markdown.", remedy="Send the message as html or markdown."
        )
    _check_said(message)
    content = f"{prefix}{message}"
    check_size(len(content.encode()))
    return Draft(content, "text", content.strip())


def _check_said(text: str, argument: str = "message") -> None:
    if not text.strip():
        raise InvalidArgument(f"{argument} is empty.", remedy="Say something that people can read.")
