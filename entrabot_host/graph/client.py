"""The one client of Microsoft Graph: tokens, limits, waiting, retries, paging, batches and typed errors."""

from __future__ import annotations

import asyncio
import json as jsonlib
import logging
import random
import time
import uuid
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from entrabot_host.errors import GraphError, GraphUnavailable
from entrabot_host.graph.batch import Batch, Part, parts_of
from entrabot_host.graph.bearer import TokenSource, bearer
from entrabot_host.graph.clock import ServiceClock
from entrabot_host.graph.failures import Reason, WireFailure, refusal, unreachable
from entrabot_host.graph.limits import Limiter
from entrabot_host.graph.paths import checked_headers, resolve
from entrabot_host.graph.retry import SAFE_METHODS, Retry
from entrabot_host.graph.transfer import Transfer
from entrabot_host.graph.wire import Answer, Outgoing, Wire
from entrabot_host.host import BatchRequest, GraphResponse
from entrabot_host.security.clouds import Cloud

MAX_BODY = 64 * 1024 * 1024
BATCH_SECONDS = 90.0
BATCH_REQUEST_SECONDS = 30.0

log = logging.getLogger(__name__)


class GraphClient:
    """Implements `entrabot_host.host.Graph`. One per process; close it with `aclose`.

    Nothing is imported or connected before the first request. ``clock`` and ``sleep`` are what waiting is measured
    and done with.
    """

    def __init__(
        self,
        cloud: Cloud,
        tokens: TokenSource,
        *,
        ca_bundle: str = "",
        user_agent: str = "entrabot",
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._cloud = cloud
        self._tokens = tokens
        self._clock = clock
        self._sleep = sleep
        self._jitter = jitter
        self._wire = Wire(ca_bundle, user_agent)
        self._limiter = Limiter(clock, sleep)
        self._service_clock = ServiceClock(clock)
        self._transfer = Transfer(self._wire, clock=clock, sleep=sleep, jitter=jitter)

    @property
    def root(self) -> str:
        """The version root."""
        return f"{self._cloud.graph_url}/v1.0"

    def now(self) -> datetime:
        """Return the time at Graph, in UTC, from its last answer; before any answer, the local time."""
        return self._service_clock.now()

    @property
    def date_offset(self) -> float:
        """Seconds by which Graph's clock is ahead of this machine's."""
        return self._service_clock.offset

    async def drop_connections(self) -> None:
        """Use no present connection again: after the machine slept they are dead, and look alive."""
        self._service_clock.distrust()
        await self._wire.drop_connections()

    async def aclose(self) -> None:
        """Close all connections. No network."""
        await self._wire.aclose()

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
        """Send one request; ``timeout`` bounds the whole of it in seconds, waits and repetitions included.

        The body is ``json``, or raw ``content`` with the content type that ``headers`` name, or none.

        A redirect is returned, not followed: its ``location`` header is for `download`. Raises `GraphError` and its
        kinds, `AuthError` when there is no token, `TokenAudienceError` for a next link that leaves Graph.
        """
        method = method.upper()
        url = resolve(self._cloud, path, params=params, beta=beta)
        checked = checked_headers(headers)
        outgoing = Outgoing(method, url, *(_encoded(json, checked) if content is None else (checked, content)))

        async def admit() -> None:
            await self._limiter.acquire(method, _below_version(self._cloud, url))

        answer = await self._send(outgoing, admit, safe=method in SAFE_METHODS, app_only=app_only, timeout=timeout)
        return _response(answer, safe=method in SAFE_METHODS)

    async def pages(
        self,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        max_pages: int = 20,
        app_only: bool = False,
    ) -> AsyncIterator[list[dict[str, Any]]]:
        """Iterate over at most ``max_pages`` pages; next links are followed verbatim, and on Graph's host only."""
        seen: set[str] = set()
        for _ in range(max_pages):
            response = await self.request("GET", path, params=params, headers=headers, app_only=app_only)
            body = response.body if isinstance(response.body, Mapping) else {}
            value = body.get("value")
            yield [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
            link = body.get("@odata.nextLink")
            if not isinstance(link, str) or not link:
                return
            if link in seen or link.startswith("/"):
                raise GraphError("Microsoft Graph's next link leads nowhere new.", remedy="Try again later.")
            seen.add(link)
            path, params = link, None

    async def batch(self, requests: Sequence[BatchRequest]) -> list[GraphResponse | GraphError]:
        """Send any number of requests in batches of 20; a part that Graph throttles is repeated on its own.

        Returns one answer per request, in order; failures are values. Raises `AuthError` when there is no token, and
        `GraphError` for a malformed path, before anything is sent.
        """
        batch = Batch(
            send=self._send_batch,
            clock=self._clock,
            sleep=self._sleep,
            service_clock=self._service_clock,
            deadline=self._clock() + BATCH_SECONDS,
            jitter=self._jitter,
        )
        return await batch.run(parts_of(self._cloud, requests))

    async def _send_batch(self, group: list[Part]) -> GraphResponse:
        url = resolve(self._cloud, "/$batch")
        outgoing = Outgoing("POST", url, *_encoded({"requests": [part.item for part in group]}, {}))
        safe = all(part.safe for part in group)

        async def admit() -> None:
            await self._limiter.acquire_all([(part.method, part.path) for part in group])

        answer = await self._send(outgoing, admit, safe=safe, app_only=False, timeout=BATCH_REQUEST_SECONDS)
        return _response(answer, safe=safe)

    def download(self, url: str, *, max_bytes: int) -> AsyncIterator[bytes]:
        """Stream the body of a pre-signed https URL, without the token, redirects followed.

        Raises `GraphError` when it is larger than ``max_bytes`` or refused, `GraphUnavailable` when it breaks off.
        """
        return self._transfer.download(url, max_bytes=max_bytes)

    async def upload(
        self, url: str, content: bytes | AsyncIterable[bytes], *, headers: Mapping[str, str], timeout: float = 60.0
    ) -> GraphResponse:
        """PUT to a pre-signed https URL, without the token, within ``timeout`` seconds. Statuses are returned.

        Raises `GraphUnavailable` when there is no answer; ``outcome_unknown`` says whether it may have arrived.
        """
        answer = await self._transfer.upload(url, content, headers=headers, timeout=timeout)
        return _response(answer, safe=False)

    async def discard(self, url: str, *, timeout: float = 4.0) -> bool:
        """DELETE a pre-signed https URL, without the token: an upload session that is given up.

        It is done although the caller is being cancelled, within ``timeout`` seconds. Returns whether Microsoft
        confirmed it; what stays ends by itself. Raises nothing.
        """
        return await self._transfer.discard(url, timeout=timeout)

    async def _send(
        self, outgoing: Outgoing, admit: Callable[[], Awaitable[None]], *, safe: bool, app_only: bool, timeout: float
    ) -> Answer:
        """Return an answer of below 400, repeating what may be repeated until ``timeout`` is over."""
        deadline = self._clock() + timeout
        retry = Retry(safe, self._jitter)
        tries = 0
        while True:
            tries += 1
            outcome = await self._attempt(outgoing, admit, app_only=app_only, deadline=deadline)
            if isinstance(outcome, Answer) and outcome.status < 400:
                return outcome
            asked: float | None = None
            if isinstance(outcome, Answer):
                asked = self._service_clock.retry_after(outcome.headers.get("retry-after", ""))
                pause = retry.after_answer(outcome.status, asked, tries)
            else:
                pause = retry.after_failure(outcome, tries)
            if pause is None or self._clock() + pause >= deadline:
                raise _error(outcome, safe=safe, wait=asked)
            await self._sleep(pause)

    async def _attempt(
        self, outgoing: Outgoing, admit: Callable[[], Awaitable[None]], *, app_only: bool, deadline: float
    ) -> Answer | WireFailure:
        try:
            await self._take_turn(admit, deadline - self._clock())
            headers = {**outgoing.headers, "client-request-id": str(uuid.uuid4())}
            once = Outgoing(outgoing.method, outgoing.url, headers, outgoing.content)
            auth = bearer(self._cloud, self._tokens, app_only=app_only)
            answer = await self._wire.exchange(once, seconds=deadline - self._clock(), max_bytes=MAX_BODY, auth=auth)
        except WireFailure as failure:
            log.debug("%s got no answer: %s", outgoing.method, failure.reason.value)
            return failure
        self._service_clock.note(answer.headers.get("date", ""))
        log.debug("%s %d (client-request-id %s)", once.method, answer.status, headers["client-request-id"])
        return answer

    async def _take_turn(self, admit: Callable[[], Awaitable[None]], seconds: float) -> None:
        """Wait until the limits allow the request and the connections exist."""
        try:
            async with asyncio.timeout(seconds):
                await admit()
                await self._wire.ready()
        except TimeoutError:
            raise WireFailure(Reason.QUEUED, sent=False) from None


def _encoded(json: Any, headers: dict[str, str]) -> tuple[dict[str, str], bytes]:
    if json is None:
        return headers, b""
    if not any(name.lower() == "content-type" for name in headers):
        headers["Content-Type"] = "application/json"
    return headers, jsonlib.dumps(json, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _below_version(cloud: Cloud, url: str) -> str:
    """The path below ``/v1.0`` or ``/beta``, for the limits."""
    return url.removeprefix(cloud.graph_url).partition("?")[0].lstrip("/").partition("/")[2]


def _response(answer: Answer, *, safe: bool) -> GraphResponse:
    body = None
    if answer.content and "json" in answer.headers.get("content-type", ""):
        try:
            body = jsonlib.loads(answer.content)
        except (ValueError, RecursionError):
            raise GraphUnavailable(
                "Microsoft Graph's answer could not be read.", outcome_unknown=not safe, status=answer.status
            ) from None
    return GraphResponse(answer.status, answer.headers, body, answer.content)


def _error(outcome: Answer | WireFailure, *, safe: bool, wait: float | None) -> GraphError:
    if isinstance(outcome, WireFailure):
        return unreachable(outcome, safe=safe)
    return refusal(outcome.status, outcome.headers, outcome.content, safe=safe, wait=wait)
