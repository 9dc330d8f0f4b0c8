"""The HTTP endpoints of pre-signed addresses, under an origin of their own."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from entrabot_sandbox.attendance import attend
from entrabot_sandbox.drive_errors import not_found, refused
from entrabot_sandbox.envelope import refuse
from entrabot_sandbox.errors import ConnectionDroppedError, GraphError
from entrabot_sandbox.reply import Reply
from entrabot_sandbox.state import State


def routes(state: State, cut: Callable[[], Response]) -> list[Route]:
    """The endpoints, to be found under the other origin only. cut: makes an answer that cuts the connection."""

    async def content(request: Request) -> Response:
        token = request.path_params["token"]
        return await _served(
            state, request, b"", lambda: state.transfers.fetch(token, request.headers.get("range", "")), cut
        )

    async def upload(request: Request) -> Response:
        token, span = request.path_params["token"], request.headers.get("content-range", "")
        try:
            body = await request.body()
        except ClientDisconnect:  # an interrupted fragment counts for nothing
            return Response(status_code=400)
        actions = {
            "PUT": lambda: state.transfers.put(token, span, body),
            "GET": lambda: state.transfers.status(token),
            "DELETE": lambda: state.transfers.cancel(token),
            "POST": lambda: state.transfers.commit(token),
        }
        return await _served(state, request, body, actions[request.method], cut)

    return [
        Route("/transfers/content/{token}", content, methods=["GET"]),
        Route("/transfers/upload/{token}", upload, methods=["GET", "PUT", "DELETE", "POST"]),
    ]


async def _served(
    state: State, request: Request, body: bytes, act: Callable[[], Reply], cut: Callable[[], Response]
) -> Response:
    headers = {name.lower(): value for name, value in request.headers.items()}
    path = request.url.path.rpartition("/")[0]
    detail = {"range": headers.get("content-range", headers.get("range", "")), "bytes": str(len(body))}
    detail["authorization"] = "yes" if "authorization" in headers else "no"

    async def handle() -> Reply:
        try:
            if request.headers.get("host", "") != state.transfers.origin.partition("://")[2]:
                raise not_found()
            if "authorization" in headers:
                raise refused(401, "unauthenticated", "This address takes no Authorization header.")
            reply = act()
        except GraphError as error:
            return refuse(state, error, headers)
        return reply

    try:
        reply = await attend(
            state, request.method, path, "", handle, lambda error: refuse(state, error, headers), detail=detail
        )
    except ConnectionDroppedError:
        return cut()
    sent = {"Date": state.clock.http_date(), **reply.headers}
    if reply.json is not None:
        sent.setdefault("Content-Type", "application/json; charset=utf-8")
    return Response(reply.content(), reply.status, sent)
