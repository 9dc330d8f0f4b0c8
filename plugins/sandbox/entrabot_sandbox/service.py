"""The edge to HTTP: the endpoints of Graph and Entra, and connections that are cut."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from entrabot_sandbox import graph
from entrabot_sandbox.attendance import Handle, Refuse, attend
from entrabot_sandbox.envelope import refuse
from entrabot_sandbox.errors import ConnectionDroppedError, EntraError, GraphError
from entrabot_sandbox.reply import Reply
from entrabot_sandbox.state import State

ABORT = "entrabot_sandbox.abort"


class Service:
    """The HTTP endpoints of Graph and Entra."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def graph(self, request: Request) -> Response:
        """Everything under ``/v1.0``."""
        state, headers, body = self._state, headers_of(request), await request.body()
        raw = request.scope["raw_path"].decode("ascii").removeprefix("/v1.0").removeprefix("/beta")
        query = request.url.query
        return await self.answer(
            request,
            lambda: graph.serve(state, request.method, raw, query, headers, body),
            lambda error: refuse(state, error, headers),
        )

    async def other_version(self, request: Request) -> Response:
        """``/beta``: not stood in for."""
        error = GraphError(400, "BadRequest", "Invalid version: this sandbox has v1.0 only.")
        reply = refuse(self._state, error, headers_of(request))

        async def handle() -> Reply:
            return reply

        return await self.answer(request, handle, lambda _: reply)

    async def token(self, request: Request) -> Response:
        """``POST /{tenant}/oauth2/v2.0/token``."""
        body, headers = await request.body(), headers_of(request)
        tenant, correlation_id = request.path_params["tenant"], headers.get("client-request-id", "")

        async def handle() -> Reply:
            return self._state.entra.token(tenant, headers.get("content-type", ""), body, correlation_id)

        return await self.answer(request, handle, self._entra_refusal(correlation_id), _token_detail(body))

    async def device_code(self, request: Request) -> Response:
        """``POST /{tenant}/oauth2/v2.0/devicecode``."""
        body, headers = await request.body(), headers_of(request)
        tenant, correlation_id = request.path_params["tenant"], headers.get("client-request-id", "")

        async def handle() -> Reply:
            return self._state.entra.device_code(tenant, headers.get("content-type", ""), body, correlation_id)

        return await self.answer(request, handle, self._entra_refusal(correlation_id), _token_detail(body))

    async def discovery(self, request: Request) -> Response:
        """The OpenID configuration, in both versions."""
        version = "v2.0" if "/v2.0/" in request.url.path else "v1"

        async def handle() -> Reply:
            return self._state.entra.discovery(request.path_params["tenant"], version)

        return await self.answer(request, handle, self._entra_refusal(""))

    async def keys(self, request: Request) -> Response:
        """The signing keys."""

        async def handle() -> Reply:
            return Reply(200, json=self._state.issuer.jwks())

        return await self.answer(request, handle, self._entra_refusal(""))

    def _entra_refusal(self, correlation_id: str) -> Refuse:
        def refuse(error: GraphError) -> Reply:
            name = "temporarily_unavailable" if error.status in (429, 500, 502, 503, 504) else "invalid_request"
            refusal = EntraError(error.status, name, 90033, "A transient error has occurred. Please try again.")
            reply = self._state.entra.refusal(refusal, correlation_id)
            reply.headers |= error.headers
            return reply

        return refuse

    async def answer(
        self, request: Request, handle: Handle, refuse: Refuse, detail: dict[str, str] | None = None
    ) -> Response:
        """Answer a request under the faults in force, and note it."""
        path, query = str(request.scope["path"]), request.url.query
        try:
            reply = await attend(self._state, request.method, path, query, handle, refuse, detail=detail)
        except ConnectionDroppedError:
            return CutConnection()
        headers = {"Date": self._state.clock.http_date(), **reply.headers}
        if reply.json is not None:
            headers.setdefault("Content-Type", "application/json; charset=utf-8")
        return Response(reply.content(), reply.status, headers)


class CutConnection(Response):
    """Sends nothing and cuts the connection."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request."""
        scope[ABORT]()
        async with asyncio.timeout(5):
            while (await receive())["type"] != "http.disconnect":
                pass


def headers_of(request: Request) -> dict[str, str]:
    """The headers, by their names in lower case."""
    return {name.lower(): value for name, value in request.headers.items()}


def _token_detail(body: bytes) -> dict[str, str]:
    """What of a token request may be noted: nothing that would be worth stealing."""
    form = parse_qs(body.decode("ascii", "replace"))
    names = ("grant_type", "client_id", "scope", "fmi_path", "user_id", "username")
    return {name: form[name][0] for name in names if name in form}
