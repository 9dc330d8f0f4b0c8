"""``POST /$batch``: up to twenty requests in one, each with an answer of its own."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import random
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from entrabot_sandbox.attendance import attend
from entrabot_sandbox.calls import Call
from entrabot_sandbox.envelope import refuse
from entrabot_sandbox.errors import GraphError, bad_request
from entrabot_sandbox.reply import Reply

MAX_PARTS = 20
METHODS = ("GET", "POST", "PATCH", "PUT", "DELETE")

_ABSOLUTE = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")

Json = dict[str, Any]


@dataclass
class Part:
    """One request of a batch."""

    id: str
    method: str
    url: str
    headers: dict[str, str]
    body: bytes
    depends_on: list[str] = field(default_factory=list)


async def run(call: Call) -> Reply:
    """Answer a batch: 400 if it is malformed as a whole, else 200 with the parts' answers in any order."""
    parts = _parse(call.json())
    waiting = list(parts)
    done: dict[str, Json] = {}
    while waiting:
        ready = [part for part in waiting if all(name in done for name in part.depends_on)]
        waiting = [part for part in waiting if part not in ready]
        answers = await asyncio.gather(*(_answer(part, call, done) for part in ready), return_exceptions=True)
        for part, answer in zip(ready, answers, strict=True):
            if isinstance(answer, BaseException):
                raise answer
            done[part.id.lower()] = answer
    responses = list(done.values())
    random.shuffle(responses)
    return Reply(200, json={"responses": responses})


def _parse(payload: Any) -> list[Part]:
    requests = payload.get("requests") if isinstance(payload, dict) else None
    if not isinstance(requests, list) or not requests:
        raise bad_request("Invalid batch payload format.")
    if len(requests) > MAX_PARTS:
        raise bad_request(f"Number of batch request steps exceeds the maximum value of {MAX_PARTS}.")
    parts = [_part(item) for item in requests]
    if len({part.id.lower() for part in parts}) != len(parts):
        raise bad_request("The ids of a batch's requests must be unique.")
    _check_dependencies(parts)
    return parts


def _part(item: Any) -> Part:
    if not isinstance(item, dict) or not isinstance(item.get("id"), str) or not item["id"]:
        raise bad_request("Every request of a batch needs an id.")
    method, url = item.get("method"), item.get("url")
    if not isinstance(method, str) or method.upper() not in METHODS:
        raise bad_request(f"Request {item['id']} has no valid method.")
    if not isinstance(url, str) or not url or _ABSOLUTE.match(url):
        raise bad_request(f"Request {item['id']} needs a relative url.")
    if url.strip("/").lower().startswith("$batch"):
        raise bad_request("A batch can't hold another batch.")
    headers = _headers(item)
    if "body" in item and "content-type" not in headers:
        raise bad_request(f"Write request {item['id']} does not contain a Content-Type header.")
    depends_on = item.get("dependsOn") or []
    if not isinstance(depends_on, list) or not all(isinstance(name, str) for name in depends_on):
        raise bad_request(f"Request {item['id']} has an invalid dependsOn.")
    names = [name.lower() for name in depends_on]
    return Part(item["id"], method.upper(), url, headers, _body(item, headers), names)


def _headers(item: Json) -> dict[str, str]:
    headers = item.get("headers") or {}
    if not isinstance(headers, dict):
        raise bad_request(f"The headers of request {item['id']} are not an object.")
    return {str(name).lower(): str(value) for name, value in headers.items()}


def _body(item: Json, headers: dict[str, str]) -> bytes:
    body = item.get("body")
    if body is None:
        return b""
    if headers["content-type"].startswith("application/json"):
        return json.dumps(body).encode()
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise bad_request(f"The body of request {item['id']} is not base64.") from error


def _check_dependencies(parts: list[Part]) -> None:
    """Every dependency exists and there is no circle."""
    settled: set[str] = set()
    waiting = list(parts)
    while waiting:
        ready = [part for part in waiting if settled.issuperset(part.depends_on)]
        if not ready:
            raise bad_request("The dependsOn of a batch's requests name unknown requests or form a circle.")
        settled.update(part.id.lower() for part in ready)
        waiting = [part for part in waiting if part not in ready]


async def _answer(part: Part, call: Call, done: dict[str, Json]) -> Json:
    if any(done[name]["status"] >= 400 for name in part.depends_on):
        error = GraphError(424, "FailedDependency", "A request that this one depends on has failed.")
        return _response(part, refuse(call.state, error, part.headers))
    path, _, query = part.url.partition("?")
    inner = Call.read(
        call.state,
        part.method,
        "/" + path.strip("/"),
        query,
        part.headers,
        part.body,
        call.principal,
        call.dispatch,
    )
    reply = await attend(
        call.state,
        part.method,
        "/v1.0" + unquote(inner.path),
        query,
        lambda: call.dispatch(inner),
        lambda error: refuse(call.state, error, part.headers),
        batch=True,
    )
    return _response(part, reply)


def _response(part: Part, reply: Reply) -> Json:
    headers = {name: value for name, value in reply.headers.items() if not name.lower().endswith("request-id")}
    response: Json = {"id": part.id, "status": reply.status, "headers": headers}
    if reply.json is not None:
        response["body"] = reply.json
    elif reply.body is not None:
        response["body"] = base64.b64encode(reply.body).decode()
    return response
