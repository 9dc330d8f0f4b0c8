"""To and from pre-signed addresses: no token goes along, and the address is in no error."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import anyio

from entrabot_host.errors import GraphError
from entrabot_host.graph.clock import ServiceClock
from entrabot_host.graph.failures import Reason, WireFailure, unreachable
from entrabot_host.graph.paths import checked_headers
from entrabot_host.graph.retry import Retry
from entrabot_host.graph.wire import Answer, Outgoing, Progress, Wire
from entrabot_host.security.urls import origin

if TYPE_CHECKING:
    import httpx

MAX_REDIRECTS = 5
CHUNK_SECONDS = 30.0
DOWNLOAD_SECONDS = 900.0
MAX_ANSWER = 4 * 1024 * 1024
WHAT = "The file's address"

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_REPEATED_WHOLE = frozenset({307, 308})
_GONE = frozenset({200, 204, 404, 410})


class Transfer:
    """Downloads and uploads over the process's connections."""

    def __init__(
        self,
        wire: Wire,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        jitter: Callable[[float, float], float],
    ) -> None:
        self._wire = wire
        self._clock = clock
        self._sleep = sleep
        self._retry = Retry(True, jitter)

    async def download(self, url: str, *, max_bytes: int) -> AsyncIterator[bytes]:
        """Stream the body. What goes wrong before its first byte is repeated; later it is an error."""
        deadline = self._clock() + DOWNLOAD_SECONDS
        tries = size = 0
        error: GraphError
        while True:
            tries += 1
            try:
                async with self._opened(url) as response:
                    if response.status_code < 300:
                        _check_size(int(response.headers.get("content-length", "0")), max_bytes)
                        async for chunk in response.aiter_bytes():
                            size += len(chunk)
                            _check_size(size, max_bytes)
                            self._check_time(deadline)
                            yield chunk
                        return
                    wait = ServiceClock().retry_after(response.headers.get("retry-after", ""))
                    pause = self._retry.after_answer(response.status_code, wait, tries)
                    error = _refused(response.status_code, wait)
            except WireFailure as failure:
                pause = None if size else self._retry.after_failure(failure, tries)
                error = unreachable(failure, safe=True, what=WHAT)
            if pause is None or self._clock() + pause >= deadline:
                raise error
            await self._sleep(pause)

    @asynccontextmanager
    async def _opened(self, url: str) -> AsyncIterator[httpx.Response]:
        """Open ``url``, following redirects to other https addresses."""
        for _ in range(MAX_REDIRECTS + 1):
            outgoing = Outgoing("GET", checked_url(url), {"Accept-Encoding": "identity"})
            async with self._wire.open(outgoing, seconds=CHUNK_SECONDS, progress=Progress()) as response:
                location = response.headers.get("location", "")
                if response.status_code not in _REDIRECTS or not location:
                    yield response
                    return
            url = urljoin(url, location)
        raise WireFailure(Reason.MALFORMED, sent=True)

    def _check_time(self, deadline: float) -> None:
        if self._clock() > deadline:
            raise WireFailure(Reason.TIMEOUT, sent=True)

    async def upload(
        self, url: str, content: bytes | AsyncIterable[bytes], *, headers: Mapping[str, str], timeout: float
    ) -> Answer:
        """PUT and return the answer, whatever its status. Raises `GraphUnavailable` when there is none."""
        outgoing = Outgoing("PUT", checked_url(url), checked_headers(headers), content)
        try:
            return await self._put(outgoing, self._clock() + timeout)
        except WireFailure as failure:
            raise unreachable(failure, safe=False, what=WHAT) from None

    async def _put(self, outgoing: Outgoing, deadline: float) -> Answer:
        replayable = isinstance(outgoing.content, bytes)
        redirects, tries = 0, 0
        while True:
            tries += 1
            try:
                answer = await self._wire.exchange(outgoing, seconds=deadline - self._clock(), max_bytes=MAX_ANSWER)
            except WireFailure as failure:
                pause = Retry(False, self._retry.jitter).after_failure(failure, tries)
                if pause is None or not replayable or self._clock() + pause >= deadline:
                    raise
                await self._sleep(pause)
                continue
            location = answer.headers.get("location", "")
            if answer.status not in _REPEATED_WHOLE or not (replayable and location) or redirects >= MAX_REDIRECTS:
                return answer
            redirects += 1
            target = checked_url(urljoin(outgoing.url, location))
            outgoing = Outgoing("PUT", target, outgoing.headers, outgoing.content)

    async def discard(self, url: str, *, timeout: float) -> bool:
        """DELETE, also while the caller is being cancelled. Returns whether it is confirmed; raises nothing."""
        with anyio.CancelScope(shield=True):
            try:
                outgoing = Outgoing("DELETE", checked_url(url))
                answer = await self._wire.exchange(outgoing, seconds=timeout, max_bytes=MAX_ANSWER)
            except (GraphError, WireFailure):
                return False
        return answer.status in _GONE


def checked_url(url: str) -> str:
    """Return ``url`` if it is https. Raises `GraphError` that does not hold it."""
    try:
        origin(url)
    except ValueError as error:
        raise GraphError(
            f"{WHAT} was not used: it is {error}.", remedy="Use the address that Microsoft Graph gave, unchanged."
        ) from None
    return url


def _check_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise GraphError(f"The file is larger than the {max_bytes} bytes allowed.", remedy="Choose a smaller file.")


def _refused(status: int, wait: float | None) -> GraphError:
    return GraphError(
        f"{WHAT} answered {status}.",
        status=status,
        retry_after=wait,
        remedy="Such an address lives for some minutes only: ask for the file again to get a new one.",
    )
