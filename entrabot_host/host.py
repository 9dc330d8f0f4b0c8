"""`Host`, handed to each plugin bound to that plugin: small facets, each one subject.

This is the public API that plugin authors write against. During assembly ``plugin``, ``settings``, ``log``, ``shared``
and ``store.own`` may be used; everything else raises `NotStarted`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from entrabot_host.auth.provider import Principal
from entrabot_host.errors import GraphError

if TYPE_CHECKING:
    from pydantic import BaseModel  # a sixth of a second that `import entrabot_host` need not pay

SettingsT = TypeVar("SettingsT", bound="BaseModel")
SharedT = TypeVar("SharedT")


# --- settings -------------------------------------------------------------------------------------------------------


class Settings(Protocol):
    """This plugin's settings. Usable during assembly."""

    def load(self, model: type[SettingsT]) -> SettingsT:
        """Fill ``model`` from flags, environment and env file, in that order; an empty value counts as unset.

        A field named ``poll_seconds`` of the plugin ``teams`` reads ``ENTRABOT_TEAMS_POLL_SECONDS``; a field with an
        alias reads the variable of that name. Raises `SettingsError` naming the variable, never its value.
        """
        ...


# --- identity -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sponsor:
    """A person who answers for the agent.

    object_id: in the agent's tenant (a guest object for somebody from elsewhere). home_id, home_tenant: the identity
    in the sponsor's own tenant, when it is known; only object ids prove a sender. addresses: lower-case, all forms.
    """

    object_id: str
    display_name: str
    addresses: frozenset[str]
    home_id: str = ""
    home_tenant: str = ""


class Identity(Protocol):
    """Who the agent is, and on whose authority it acts."""

    async def me(self) -> Principal:
        """Return who is signed in; waits for the sign-in. Raises `AuthError` with the reason why nobody is."""
        ...

    async def token(
        self, audience: str, *, url: str, work_iq: bool = False, rejected: str = "", challenge: str = ""
    ) -> str:
        """Return an access token of ``audience`` to be sent to ``url``, and there only, never along a redirect.

        Whether it may go there is checked before it is asked for: `TokenAudienceError`. Other failures are `AuthError`.
        work_iq: audience and address come from a file that anybody may have written; then only Work IQ's own are
        allowed. rejected: the token that a 401 refused, which is not returned again; challenge: that answer's
        ``WWW-Authenticate``.
        """
        ...

    async def sponsors(self) -> Sequence[Sponsor]:
        """Return the agent's sponsors (cached for some minutes)."""
        ...

    async def sponsor_of(self, user_id: str, tenant_id: str = "") -> Sponsor | None:
        """Return the sponsor whom this object id in this tenant proves, or None.

        An empty tenant id is the agent's own tenant or a federated sponsor's pinned home id.
        """
        ...

    async def tenant_of(self, domain: str) -> str:
        """Return the id of the Entra tenant that a mail domain belongs to, empty when there is none."""
        ...

    async def learn_home(self, address: str, user_id: str, tenant_id: str) -> None:
        """Pin the home identity of the sponsor at ``address``.

        Call it only with what a 1:1 chat that the agent itself created to that address shows. Does nothing when the
        address is no sponsor's or another id is pinned already.
        """
        ...

    async def authorize(self, requester_email: str, conversation: Conversation, beneficiary: str = "") -> Sponsor:
        """Return the sponsor on whose authority an action in ``conversation`` may be done now.

        Raises `RequesterNotSponsorError`, `NoActiveSponsorChannelError`, `SponsorChannelMismatchError` or
        `RequesterNotInChatError`. beneficiary: the address of the person who gains by the action.
        """
        ...


# --- graph ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GraphResponse:
    """An answer of Graph. ``body`` is the decoded JSON, None when there is none; header names are lower-case."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: Any = field(default=None, repr=False)
    content: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class BatchRequest:
    """One part of a batch. ``path`` is relative to the version root, ``/chats/...``."""

    path: str
    method: str = "GET"
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Graph(Protocol):
    """The one way to Microsoft Graph: tokens, waiting, retries, paging and typed errors are done here.

    Paths are relative to the version root (``/me/chats``), or absolute next links on the Graph host. Percent-encode
    ids with `urllib.parse.quote(id, safe="")`.
    """

    @property
    def root(self) -> str:
        """The version root, ``https://graph.microsoft.com/v1.0`` in the global cloud; for references in bodies."""
        ...

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        json: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        app_only: bool = False,
        beta: bool = False,
        timeout: float = 30.0,
    ) -> GraphResponse:
        """Send one request with a JSON body, raw ``content`` or none.

        GET is retried, others only when Graph says that it did nothing.

        Raises `GraphError` and its kinds; `GraphUnavailable.outcome_unknown` when an unsafe request may have landed.
        """
        ...

    def pages(
        self,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        max_pages: int = 20,
        app_only: bool = False,
    ) -> AsyncIterator[list[dict[str, Any]]]:
        """Iterate over pages of a collection, following next links on the Graph host only."""
        ...

    async def batch(self, requests: Sequence[BatchRequest]) -> list[GraphResponse | GraphError]:
        """Send any number of requests in batches of 20. One answer per request, in order; failures are values."""
        ...

    def download(self, url: str, *, max_bytes: int) -> AsyncIterator[bytes]:
        """Stream the body of a pre-signed URL, without the token."""
        ...

    async def upload(
        self, url: str, content: bytes | AsyncIterable[bytes], *, headers: Mapping[str, str], timeout: float = 60.0
    ) -> GraphResponse:
        """PUT to a pre-signed URL, without the token. Statuses are returned, not raised."""
        ...

    async def discard(self, url: str, *, timeout: float = 4.0) -> bool:
        """DELETE a pre-signed URL, without the token: an upload session that is given up.

        It is done although the caller is being cancelled. Returns whether Microsoft confirmed it; raises nothing.
        """
        ...


# --- store ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """A stored value. etag: changes with every write. age: seconds since the last write, by the store's own clock."""

    data: bytes
    etag: str
    age: float


class Store(Protocol):
    """Stored state, on this machine or in Azure. Keys look like paths: ``"chats/abc.json"``.

    A plugin's keys live under ``plugins/<name>/`` unless it owns them. Errors are `StorageError`.
    """

    def own(self, *keys: str) -> None:
        """Declare keys outside this plugin's prefix; one that ends in ``/`` covers all below it. Assembly only.

        Raises `PluginError` when another plugin owns one of them.
        """
        ...

    async def read(self, key: str) -> Entry | None:
        """Return the value, or None when there is none."""
        ...

    async def write(self, key: str, data: bytes, *, if_match: str = "", if_absent: bool = False) -> str:
        """Write the whole value and return its new etag. Raises `ConcurrencyError` when the condition fails."""
        ...

    async def append(self, key: str, line: bytes) -> None:
        """Append one line (without its newline), whole, also when several processes append."""
        ...

    async def list(self, prefix: str = "") -> list[str]:
        """Return the keys that start with ``prefix``, sorted."""
        ...

    async def delete(self, key: str, *, if_match: str = "") -> None:
        """Delete the value; it is no error when there is none."""
        ...


# --- records --------------------------------------------------------------------------------------------------------


class Outcome(StrEnum):
    """How an audited deed ended."""

    PENDING = "pending"
    SUCCESS = "success"
    FAILURE = "failure"


class Direction(StrEnum):
    """Which way a message went, seen from the agent."""

    INBOUND = "inbound"
    OUTBOUND = "outbound"


@dataclass(frozen=True, kw_only=True)
class Interaction:
    """One line of the interaction log. channel: teams_dm, teams_group, teams_unknown, email or terminal."""

    channel: str
    direction: Direction
    sender: str
    summary: str
    recipient: str = ""
    action: str = ""
    content_ref: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


class Records(Protocol):
    """What the agent did, for others to check and for itself to remember."""

    async def audit(
        self, action: str, resource: str, outcome: Outcome, metadata: Mapping[str, Any] | None = None
    ) -> str:
        """Write an audit line stamped with this plugin; return its event id. Raises `AttributionError`."""
        ...

    async def interaction(self, entry: Interaction) -> None:
        """Append to the interaction log."""
        ...

    async def interactions(
        self, since: datetime, until: datetime | None = None, *, limit: int = 1000
    ) -> list[dict[str, Any]]:
        """Return lines of the interaction log from ``since`` on and before ``until``, newest first, as stored.

        Their texts come from outside: what a model is to read belongs into the envelope (`Tool.external`).
        """
        ...


# --- inbox ----------------------------------------------------------------------------------------------------------


class ConversationKind(StrEnum):
    """Where people talk to the agent."""

    CHAT = "chat"
    MAIL = "mail"


@dataclass(frozen=True)
class Conversation:
    """A chat by its id, or a mailbox by its address."""

    kind: ConversationKind
    id: str

    @classmethod
    def chat(cls, chat_id: str) -> Conversation:
        """The Teams chat with this id."""
        return cls(ConversationKind.CHAT, chat_id)

    @classmethod
    def mail(cls, mailbox: str) -> Conversation:
        """The mailbox with this address."""
        return cls(ConversationKind.MAIL, mailbox)


@dataclass(frozen=True, kw_only=True)
class Message:
    """A human's message as a change source saw it. ``text`` is plain text; the host envelopes and neutralises it.

    created: time of creation on the service's clock. sender_address may be empty; it proves nothing.
    meta: further attributes of the push, letters, digits and underscores in the names.
    """

    id: str
    created: datetime
    text: str
    sender_id: str
    sender_tenant: str = ""
    sender_name: str = ""
    sender_address: str = ""
    meta: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Position:
    """How far a conversation is done: everything created at or before ``floor``, and ``ids`` above it."""

    floor: datetime
    ids: frozenset[str]


@dataclass(frozen=True)
class Delivery:
    """What became of messages handed to `Inbox.deliver`. ``left`` are those that wait for a later call."""

    handed_over: tuple[str, ...]
    left: tuple[str, ...] = ()


@dataclass(frozen=True)
class Received:
    """A message that the running tool call is about to carry to the model in its result.

    sponsor: the server's own verdict. redelivered: it may have been shown before, by a session that died or slept.
    """

    conversation: Conversation
    message: Message
    sponsor: bool
    redelivered: bool = False


class Inbox(Protocol):
    """How people's messages reach the agent: at least once, in order, to one session.

    A change source asks for the `position`, reads what is newer from the service, and hands all of it to `deliver`.
    """

    async def position(self, conversation: Conversation, start: datetime | None = None) -> Position:
        """Return how far the conversation is done. start: where one that is new to us begins, at the earliest."""
        ...

    async def deliver(self, conversation: Conversation, messages: Sequence[Message], covered_to: datetime) -> Delivery:
        """Claim, push and record the messages that are new. covered_to: nothing visible at or before it is missing.

        Safe to call again with the same messages; ``left`` are those to offer again at the next beat.
        """
        ...

    async def wait(self, conversation: Conversation | None, after: datetime, timeout: float) -> Sequence[Received]:
        """Wait, within a tool call, for messages that this call may carry; empty after ``timeout`` seconds.

        conversation: the one the call is about, None for all chats. Messages created at or before ``after`` are
        returned as well when no session was shown them: compare `Message.created` to tell them apart. Those after it
        are returned even when this session was pushed them already, once, and say ``redelivered``. They are recorded
        as shown once the call's result was written to the host, so return them all. Cancellable at once.
        """
        ...

    async def spoke(self, conversation: Conversation, message_id: str) -> None:
        """Record that this session sent ``message_id``: it becomes the conversation's preferred session."""
        ...

    async def unseen(self, limit: int) -> Sequence[Received]:
        """Return what no host was shown yet, oldest first, without claiming it."""
        ...

    def pushes(self) -> bool:
        """Whether the host shows pushes, as far as is known: then a tool that sent something need not wait."""
        ...


# --- the whole ------------------------------------------------------------------------------------------------------


class Host(Protocol):
    """What the host offers to one plugin."""

    @property
    def plugin(self) -> str:
        """The name of the plugin this is bound to."""
        ...

    def shared(self, make: Callable[[Host], SharedT]) -> SharedT:
        """Return what ``make(host)`` made the first time: the plugin's own object, shared by all its hooks.

        Example: ``Tide(host)`` holds a cache that a tool and a task use, so both hooks say ``host.shared(Tide)``.
        """
        ...

    @property
    def settings(self) -> Settings:
        """Settings with their origins."""
        ...

    @property
    def identity(self) -> Identity:
        """Identity, sponsors and authorization."""
        ...

    @property
    def graph(self) -> Graph:
        """Microsoft Graph."""
        ...

    @property
    def store(self) -> Store:
        """Stored state."""
        ...

    @property
    def records(self) -> Records:
        """Audit and interaction log."""
        ...

    @property
    def inbox(self) -> Inbox:
        """Delivery of people's messages."""
        ...

    @property
    def log(self) -> logging.Logger:
        """A logger named after the plugin; it writes to stderr, never to stdout."""
        ...
