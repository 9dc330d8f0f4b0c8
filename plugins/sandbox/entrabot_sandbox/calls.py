"""One call to Graph, and who makes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote
from uuid import uuid4

from entrabot_sandbox.conversations import Chat, Member
from entrabot_sandbox.directory import Tenant, User
from entrabot_sandbox.errors import bad_request, forbidden, not_found
from entrabot_sandbox.odata import json_body
from entrabot_sandbox.reply import Reply
from entrabot_sandbox.state import State


@dataclass(frozen=True)
class Principal:
    """What an access token says: the application, its tenant, its rights, and the user if it acts for one."""

    app_id: str
    tenant: Tenant
    user: User | None
    scopes: frozenset[str]
    roles: frozenset[str]


@dataclass
class Call:
    """A request, on its own or as a part of a batch.

    ``params`` holds what the route's pattern captured; ``dispatch`` answers calls, the parts of a batch for one.
    """

    state: State
    method: str
    path: str
    segments: list[str]
    query: list[tuple[str, str]]
    headers: dict[str, str]
    body: bytes
    principal: Principal
    dispatch: Callable[[Call], Awaitable[Reply]]
    params: dict[str, str] = field(default_factory=dict)
    request_id: str = field(default_factory=lambda: str(uuid4()))

    @classmethod
    def read(
        cls,
        state: State,
        method: str,
        raw_path: str,
        raw_query: str,
        headers: dict[str, str],
        body: bytes,
        principal: Principal,
        dispatch: Callable[[Call], Awaitable[Reply]],
    ) -> Call:
        """Take a request apart; the path's segments are percent-decoded one by one."""
        segments = [unquote(segment) for segment in raw_path.strip("/").split("/")]
        query = parse_qsl(raw_query, keep_blank_values=True)
        return cls(state, method, raw_path, segments, query, headers, body, principal, dispatch)

    @property
    def client_request_id(self) -> str:
        """The caller's own id for the request, or ours."""
        return self.headers.get("client-request-id") or self.request_id

    @property
    def url(self) -> str:
        """The address of the resource, without the query."""
        return f"{self.state.base}/v1.0{self.path}"

    @property
    def unknown_members(self) -> bool:
        """Whether the caller asked for newer members of evolvable enumerations."""
        return "include-unknown-enum-members" in self.headers.get("prefer", "").lower()

    def json(self) -> Any:
        """The request's JSON document. Raises GraphError (400)."""
        return json_body(self.body, self.headers.get("content-type", ""))

    def context(self, of: str) -> str:
        """An ``@odata.context``."""
        return f"{self.state.base}/v1.0/$metadata#{of}"

    def user(self) -> User:
        """The user the caller acts for. Raises GraphError for an application's own token."""
        if self.principal.user is None:
            if self.segments[0] == "me":
                raise bad_request("/me request is only valid with delegated authentication flow.")
            raise forbidden("This request is not supported with application permissions in the sandbox's tenant.")
        return self.principal.user

    def require(self, *scopes: str) -> None:
        """Raise GraphError (403) unless the token has one of these delegated scopes."""
        self.user()
        if not self.principal.scopes.intersection(scopes):
            raise forbidden(
                f"Missing scope permissions on the request. API requires one of '{', '.join(scopes)}'. "
                f"Scopes on the request '{', '.join(sorted(self.principal.scopes))}'"
            )

    def check_self(self) -> None:
        """Raise GraphError (403) if the path names another user than the caller."""
        reference = self.params.get("user")
        user = self.user()
        if reference is not None and reference.lower() not in (user.id, user.upn.lower()):
            raise forbidden("The requested user is not the user on the token.")

    def membership(self) -> tuple[Chat, Member]:
        """The chat of the path and the caller's place in it. Raises GraphError: 404 unknown, 403 not a member."""
        self.check_self()
        chat = self.state.conversations.chats.get(self.params["chat"])
        if chat is None:
            raise not_found("The chat was not found.")
        member = chat.member(self.user())
        if member is None:
            raise forbidden("The caller is not a member of the chat.")
        return chat, member
