"""The envelope of Graph's answers: ids, content type, and the form of an error."""

from __future__ import annotations

from uuid import uuid4

from entrabot_sandbox.errors import GraphError
from entrabot_sandbox.reply import Reply
from entrabot_sandbox.state import State

JSON_TYPE = "application/json;odata.metadata=minimal;odata.streaming=true;IEEE754Compatible=false;charset=utf-8"


def refuse(state: State, error: GraphError, headers: dict[str, str], request_id: str = "") -> Reply:
    """The answer that carries Graph's error envelope."""
    request_id = request_id or str(uuid4())
    client_request_id = headers.get("client-request-id") or request_id
    inner = {
        "date": state.clock.now().strftime("%Y-%m-%dT%H:%M:%S"),
        "request-id": request_id,
        "client-request-id": client_request_id,
    }
    inner |= getattr(error, "inner", {})
    body = {"error": {"code": error.code, "message": error.message, "innerError": inner}}
    return finish(Reply(error.status, error.headers, json=body), request_id, client_request_id)


def finish(reply: Reply, request_id: str, client_request_id: str) -> Reply:
    """Add the headers that every answer has."""
    headers = {"request-id": request_id, "client-request-id": client_request_id}
    if reply.json is not None:
        headers["Content-Type"] = JSON_TYPE
    reply.headers = {**headers, **reply.headers}
    return reply
