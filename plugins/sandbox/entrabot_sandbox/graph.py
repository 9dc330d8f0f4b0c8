"""Graph's front: authentication, routing, limits, and the headers of every answer."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from entrabot_sandbox import batch, chats, drive_routes, mail, messages, scopes, users
from entrabot_sandbox.calls import Call, Principal
from entrabot_sandbox.envelope import finish, refuse
from entrabot_sandbox.errors import GraphError, unauthenticated
from entrabot_sandbox.reply import Reply
from entrabot_sandbox.state import State
from entrabot_sandbox.throttle import kind_of
from entrabot_sandbox.tokens import Claims, TokenInvalidError

Handler = Callable[[Call], Awaitable[Reply]]


@dataclass(frozen=True)
class Route:
    """A pattern of path segments (``{name}`` captures one) and a handler for each method."""

    pattern: str
    handlers: dict[str, Handler]

    def match(self, segments: list[str]) -> dict[str, str] | None:
        """What the pattern captures, None if the path is another one."""
        wanted = self.pattern.split("/")
        if len(wanted) != len(segments):
            return None
        pairs = list(zip(wanted, segments, strict=True))
        if any(not name.startswith("{") and name.lower() != value.lower() for name, value in pairs):
            return None
        return {name[1:-1]: value for name, value in pairs if name.startswith("{")}


async def _elsewhere(call: Call) -> Reply:
    """What Graph does and this sandbox does not."""
    message = f"Graph may know {call.method} {call.path}, but this sandbox does not stand in for it."
    raise GraphError(501, "NotImplemented", message)


def _chat_routes(prefix: str, *, personal: bool) -> list[Route]:
    message = f"{prefix}/{{chat}}/messages/{{message}}"
    routes = [
        Route(f"{prefix}/{{chat}}", {"GET": chats.get_chat, "PATCH": _elsewhere, "DELETE": _elsewhere}),
        Route(f"{prefix}/{{chat}}/members", {"GET": chats.list_members, "POST": chats.add_member}),
        Route(
            f"{prefix}/{{chat}}/members/{{member}}",
            {"GET": chats.get_member, "PATCH": _elsewhere, "DELETE": _elsewhere},
        ),
        Route(f"{prefix}/{{chat}}/messages", {"GET": messages.list_messages, "POST": messages.send}),
        Route(message, {"GET": messages.get_message, "PATCH": messages.update}),
        Route(f"{message}/hostedContents", {"GET": messages.list_hosted}),
        Route(f"{message}/hostedContents/{{hosted}}", {"GET": messages.get_hosted}),
        Route(f"{message}/hostedContents/{{hosted}}/$value", {"GET": messages.get_hosted_bytes}),
    ]
    deletions: dict[str, dict[str, Handler]] = {
        "softDelete": {"POST": messages.soft_delete} if personal else {},
        "undoSoftDelete": {"POST": messages.undo_soft_delete} if personal else {},
    }
    return routes + [Route(f"{message}/{name}", handlers) for name, handlers in deletions.items()]


ROUTES = (
    Route("$batch", {"POST": batch.run}),
    Route("me", {"GET": users.get_me}),
    Route("users/{user}", {"GET": users.get_user}),
    Route("serviceprincipals/{principal}/microsoft.graph.agentIdentity/sponsors", {"GET": users.list_sponsors}),
    Route("chats", {"POST": chats.create_chat}),
    Route("me/chats", {"GET": chats.list_chats}),
    Route("users/{user}/chats", {"GET": chats.list_chats}),
    *(Route(pattern, handlers) for pattern, handlers in mail.ROUTES),
    *_chat_routes("chats", personal=False),
    *_chat_routes("me/chats", personal=True),
    *_chat_routes("users/{user}/chats", personal=True),
    *(Route(pattern, handlers) for pattern, handlers in drive_routes.table()),
)


async def serve(
    state: State, method: str, raw_path: str, raw_query: str, headers: dict[str, str], body: bytes
) -> Reply:
    """Answer one request to ``/v1.0``; the path starts after that."""
    try:
        principal = authenticate(state, headers.get("authorization", ""))
    except GraphError as error:
        return refuse(state, error, headers)
    return await answer(Call.read(state, method, raw_path, raw_query, headers, body, principal, answer))


async def answer(call: Call) -> Reply:
    """Route a call whose caller is known, and finish the answer's headers."""
    try:
        handler = _route(call)
        kind = kind_of(call.method, call.segments)
        if kind is not None:
            call.state.throttle.admit(call.principal.app_id, call.principal.tenant.id, kind)
        reply = await handler(call)
    except GraphError as error:
        return refuse(call.state, error, call.headers, call.request_id)
    return finish(reply, call.request_id, call.client_request_id)


def authenticate(state: State, authorization: str) -> Principal:
    """Who is calling. Raises GraphError (401) when the token is missing, expired, foreign or for something else."""
    scheme, _, token = authorization.partition(" ")
    refused = partial(unauthenticated, login_url=state.base)
    if scheme.lower() != "bearer" or not token.strip():
        raise refused("Access token is empty.")
    try:
        claims = state.issuer.read(token.strip())
    except TokenInvalidError as error:
        message = "Access token has expired or is not yet valid." if error.expired else "Access token is malformed."
        raise refused(message) from error
    if claims["aud"] not in (scopes.GRAPH_URL, scopes.GRAPH_APP_ID, state.base):
        raise refused("Access token validation failure. Invalid audience.")
    return _principal(state, claims, refused)


def _principal(state: State, claims: Claims, refused: Callable[[str], GraphError]) -> Principal:
    tenant = state.directory.tenant(claims["tid"])
    if tenant is None:
        raise refused("Access token validation failure. Invalid tenant.")
    user = state.directory.user(tenant, claims["oid"]) if claims["idtyp"] == "user" else None
    if claims["idtyp"] == "user" and user is None:
        raise refused("The user on the token no longer exists.")
    granted = frozenset(str(claims.get("scp", "")).split())
    return Principal(claims["appid"], tenant, user, granted, frozenset(claims.get("roles", ())))


def _route(call: Call) -> Handler:
    call.segments = drive_routes.collapsed(call.segments)
    for route in ROUTES:
        params = route.match(call.segments)
        if params is not None:
            call.params = params
            return _handler(route, call.method)
    if _KNOWN_TO_GRAPH.match(call.segments[0]):
        return _elsewhere
    raise GraphError(400, "BadRequest", f"Resource not found for the segment '{call.segments[0]}'.")


def _handler(route: Route, method: str) -> Handler:
    if method not in route.handlers:
        headers: dict[str, str] = {"Allow": ", ".join(route.handlers)} if route.handlers else {}
        raise GraphError(405, "MethodNotAllowed", "The method is not allowed on this resource.", headers)
    return route.handlers[method]


_KNOWN_TO_GRAPH = re.compile(
    r"^(me|users|groups|drives|drive|sites|shares|teams|applications|servicePrincipals|directoryObjects|chats|"
    r"search|subscriptions|communications|organization)$",
    re.IGNORECASE,
)
