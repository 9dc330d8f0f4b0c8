"""Many requests in few: ``$batch``, with each part waited for and repeated on its own."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from entrabot_host.errors import AuthError, GraphError, GraphUnavailable
from entrabot_host.graph.clock import ServiceClock
from entrabot_host.graph.failures import refusal
from entrabot_host.graph.paths import checked_headers, relative
from entrabot_host.graph.retry import SAFE_METHODS, Retry
from entrabot_host.graph.wire import Headers
from entrabot_host.host import BatchRequest, GraphResponse
from entrabot_host.security.clouds import Cloud

GROUP = 20

Send = Callable[[list["Part"]], Awaitable[GraphResponse]]
"""Sends one group: waits for its limits, posts it, returns Graph's answer or raises `GraphError`."""


@dataclass
class Part:
    """One request of a batch on its way. due: the monotonic time before which it must not be sent (again)."""

    index: int
    method: str
    path: str
    item: Mapping[str, Any]
    due: float = 0.0
    tries: int = 0

    @property
    def safe(self) -> bool:
        """Whether repeating it would do no harm."""
        return self.method in SAFE_METHODS


def parts_of(cloud: Cloud, requests: Sequence[BatchRequest]) -> list[Part]:
    """Return the parts, each with its position as its id. Raises `GraphError` for a malformed path or header."""
    return [_part(cloud, index, request) for index, request in enumerate(requests)]


def _part(cloud: Cloud, index: int, request: BatchRequest) -> Part:
    method, path = request.method.upper(), relative(cloud, request.path)
    item: dict[str, Any] = {"id": str(index), "method": method, "url": path}
    headers = checked_headers(request.headers)
    if request.body is not None:
        item["body"] = request.body
        if not any(name.lower() == "content-type" for name in headers):
            headers["Content-Type"] = "application/json"
    if headers:
        item["headers"] = headers
    return Part(index, method, path, item)


@dataclass
class Batch:
    """Runs parts until each has its answer or no time is left."""

    send: Send
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    service_clock: ServiceClock
    deadline: float
    jitter: Callable[[float, float], float]

    async def run(self, parts: list[Part]) -> list[GraphResponse | GraphError]:
        """Return one answer per part, in order."""
        answers: dict[int, GraphResponse | GraphError] = {}
        waiting = list(parts)
        while waiting:
            now = self.clock()
            group = [part for part in waiting if part.due <= now][:GROUP]
            if not group:
                await self.sleep(min(part.due for part in waiting) - now)
                continue
            try:
                answers.update(await self._send_group(group))
            except AuthError as error:
                if not answers:
                    raise
                answers.update(_refused(group, error))
            waiting = [part for part in waiting if part.index not in answers]
        return [answers[part.index] for part in parts]

    async def _send_group(self, group: list[Part]) -> dict[int, GraphResponse | GraphError]:
        """Return what is final; a part that is to be repeated gets its due time instead."""
        try:
            response = await self.send(group)
        except GraphError as error:
            return {part.index: _for_part(error, part) for part in group}
        replies = _replies(response.body)
        found: dict[int, GraphResponse | GraphError] = {}
        for part in group:
            part.tries += 1
            answer = self._answer(part, replies.get(str(part.index)))
            if answer is not None:
                found[part.index] = answer
        return found

    def _answer(self, part: Part, reply: Mapping[str, Any] | None) -> GraphResponse | GraphError | None:
        if reply is None:
            return _unanswered(part)
        response = _response(reply)
        if response.status < 400:
            return response
        wait = self.service_clock.retry_after(response.headers.get("retry-after", ""))
        pause = Retry(part.safe, self.jitter).after_answer(response.status, wait, part.tries)
        due = self.clock() + (pause or 0.0)
        if pause is None or due >= self.deadline:
            content = json.dumps(response.body).encode()
            return refusal(response.status, response.headers, content, safe=part.safe, wait=wait)
        part.due = due
        return None


def _replies(body: Any) -> dict[str, Mapping[str, Any]]:
    """Return well-formed replies by id; they come in any order."""
    replies = body.get("responses") if isinstance(body, Mapping) else None
    return {
        str(reply["id"]): reply
        for reply in (replies if isinstance(replies, list) else [])
        if isinstance(reply, Mapping) and "id" in reply and isinstance(reply.get("status"), int)
    }


def _response(reply: Mapping[str, Any]) -> GraphResponse:
    raw = reply.get("headers")
    headers = Headers({str(k).lower(): str(v) for k, v in raw.items()} if isinstance(raw, Mapping) else {})
    body = reply.get("body")
    if isinstance(body, str) and "json" not in headers.get("content-type", ""):
        return GraphResponse(reply["status"], headers, None, _decode(body))
    return GraphResponse(reply["status"], headers, body)


def _decode(text: str) -> bytes:
    """A body that is no JSON comes as base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return text.encode("utf-8", "replace")


def _unanswered(part: Part) -> GraphUnavailable:
    return GraphUnavailable("Microsoft Graph left this part of a batch unanswered.", outcome_unknown=not part.safe)


def _refused(group: list[Part], error: AuthError) -> dict[int, GraphResponse | GraphError]:
    """What was done before the sign-in was lost must stay known, so here the loss is a value."""
    return {part.index: GraphError(error.message, status=401, remedy=error.remedy) for part in group}


def _for_part(error: GraphError, part: Part) -> GraphError:
    """The failure of a whole group, as one part sees it: a read's outcome is never unknown."""
    if isinstance(error, GraphUnavailable) and error.outcome_unknown and part.safe:
        return GraphUnavailable(
            "Microsoft Graph did not answer a batch.",
            status=error.status,
            code=error.code,
            request_id=error.request_id,
            retry_after=error.retry_after,
        )
    return error
