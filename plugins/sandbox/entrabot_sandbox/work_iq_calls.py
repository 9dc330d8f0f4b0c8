"""Who calls a Work IQ server, what a tool is, and how a tool asks Graph on the caller's behalf."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from entrabot_sandbox import graph
from entrabot_sandbox.calls import Call, Principal
from entrabot_sandbox.directory import User
from entrabot_sandbox.drives import Drive, Item
from entrabot_sandbox.errors import GraphError
from entrabot_sandbox.state import State
from entrabot_sandbox.tokens import TokenInvalidError
from entrabot_sandbox.work_iq_servers import ServerApp

Json = dict[str, Any]
MAX_BYTES = 5 * 1024 * 1024
_RIGHTS = frozenset({"Files.ReadWrite.All", "Sites.ReadWrite.All"})


class ToolFailure(Exception):
    """What a tool was asked for can't be done; the text is for the caller."""


@dataclass(frozen=True)
class Caller:
    """A user for whom a tool does something."""

    state: State
    user: User
    principal: Principal

    async def graph(self, method: str, path: str, query: str = "", body: bytes = b"") -> Json:
        """Ask Graph as the user, its rules of access included. Raises ToolFailure with Graph's code and message."""
        headers = {"prefer": "redeemSharingLink", "content-type": "application/octet-stream"}
        call = Call.read(self.state, method, path, query, headers, body, self.principal, graph.answer)
        reply = await graph.answer(call)
        if reply.status >= 400:
            error = reply.json["error"]
            raise ToolFailure(f"{error['code']}: {error['message']}")
        return dict(reply.json)

    async def by_url(self, url: str) -> tuple[Drive, Item]:
        """What a web address or a sharing link leads to. Raises ToolFailure."""
        share = "u!" + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")
        return self.located(await self.graph("GET", f"/shares/{share}/driveItem"))

    async def by_id(self, drive_id: str, item_id: str) -> tuple[Drive, Item]:
        """What has this id in a drive; ``me`` is the user's own one. Raises ToolFailure."""
        if "/" in drive_id + item_id or not drive_id or not item_id:
            raise ToolFailure("invalidRequest: The drive id or the item id appears to be malformed.")
        return self.located(await self.graph("GET", f"/drives/{drive_id}/items/{item_id}"))

    def located(self, found: Json) -> tuple[Drive, Item]:
        """The file or folder behind a ``driveItem``."""
        drive = self.state.drives.all[found["parentReference"]["driveId"]]
        return drive, drive.items[found["id"]]


Run = Callable[[Caller, Mapping[str, str]], Awaitable[list[str]]]


@dataclass(frozen=True)
class Tool:
    """A tool with a name in each generation. ``run`` returns the texts to show. Every parameter is a string."""

    name: str
    description: str
    parameters: Mapping[str, str]
    run: Run
    original_name: str = ""
    optional: frozenset[str] = field(default_factory=frozenset)

    def called(self, names: str) -> str:
        """Its name among the ``reference`` or the ``original`` ones."""
        return self.original_name or self.name if names == "original" else self.name

    def schema(self) -> Json:
        """The JSON Schema of its arguments."""
        properties = {name: {"type": "string", "description": text} for name, text in self.parameters.items()}
        required = [name for name in self.parameters if name not in self.optional]
        return {"type": "object", "properties": properties, "required": required}

    def wrong_arguments(self, given: Mapping[str, Any]) -> str:
        """What is wrong with the arguments, empty if nothing is."""
        missing = [name for name in self.parameters if name not in self.optional and name not in given]
        if missing:
            return f"The required parameter '{missing[0]}' is missing."
        strange = [name for name in self.parameters if not isinstance(given.get(name, ""), str)]
        return f"The parameter '{strange[0]}' must be a string." if strange else ""


def authenticate(state: State, server: ServerApp, authorization: str) -> Caller:
    """Who calls this server. Raises GraphError: 401 without a good token for it, 403 without the scope."""
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise _challenged(state, "", "No access token was given.")
    try:
        claims = state.issuer.read(token.strip())
    except TokenInvalidError as error:
        raise _challenged(state, "invalid_token", str(error)) from error
    needed = server.needed_scope(str(claims["aud"]))
    if needed is None:
        raise _challenged(state, "invalid_token", "The access token is for another audience.")
    tenant = state.directory.tenant(claims["tid"])
    user = state.directory.user(tenant, claims["oid"]) if tenant and claims.get("idtyp") == "user" else None
    granted = str(claims.get("scp", "")).split()
    if tenant is None or user is None or needed not in granted:
        raise GraphError(403, "Forbidden", f"The token does not have the scope {needed} of a user.")
    return Caller(state, user, Principal(claims["appid"], tenant, user, _RIGHTS, frozenset()))


def _challenged(state: State, error: str, message: str) -> GraphError:
    challenge = f'Bearer realm="", authorization_uri="{state.base}/common/oauth2/authorize"'
    if error:
        challenge += f', error="{error}", error_description="{message}"'
    return GraphError(401, "Unauthorized", message, {"WWW-Authenticate": challenge})


def pascal(value: Any) -> Any:
    """The same document with PascalCase keys."""
    if isinstance(value, dict):
        return {name[:1].upper() + name[1:]: pascal(part) for name, part in value.items()}
    return [pascal(part) for part in value] if isinstance(value, list) else value


def as_text(document: Json) -> list[str]:
    """A document as the one text of a result."""
    return [json.dumps(document, ensure_ascii=False)]
