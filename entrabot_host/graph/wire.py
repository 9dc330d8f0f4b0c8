"""One HTTP exchange with kept connections, and what its failures mean. Knows nothing of tokens or retries."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from entrabot_host.graph.failures import Reason, WireFailure
from entrabot_host.security.tls import ssl_context

if TYPE_CHECKING:
    import httpx

CONNECT_SECONDS = 10.0
CLOSE_SECONDS = 1.0
MAX_CONNECTIONS = 20
KEPT_CONNECTIONS = 10
KEPT_SECONDS = 30.0


class Headers(dict[str, str]):
    """Header names in lower case. Shown without values: one of them may be a pre-signed address."""

    def __repr__(self) -> str:
        return f"Headers({', '.join(self)})"


@dataclass(frozen=True)
class Outgoing:
    """A request as it goes out. The address may be a secret, so it is not shown."""

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    content: bytes | AsyncIterable[bytes] = field(default=b"", repr=False)


@dataclass(frozen=True)
class Answer:
    """An answer, whole."""

    status: int
    headers: Headers
    content: bytes = field(repr=False)


class Progress:
    """How far a request came.

    sent: it has begun to leave this machine. unsound: the client that carried it may count a connection as busy for
    ever, so it is not to be used again.
    """

    def __init__(self) -> None:
        self.sent = False
        self.unsound = False
        self._raw: Any = None

    async def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Hear what httpcore does; asking a proxy for a tunnel does not count as sending."""
        if event.endswith(".send_request_headers.started") and info["request"].method != b"CONNECT":
            self.sent = True
        elif event.endswith(".connect_tcp.complete"):
            self._raw = info["return_value"]
        elif event.endswith(".start_tls.failed"):
            # httpcore leaves the socket open when a handshake is cancelled, and a tunnel's connection busy
            self.unsound = True
            if self._raw is not None:
                await self._raw.aclose()


class Wire:
    """The connections of one process, made at first use. Proxy variables count; cookies are not kept."""

    def __init__(self, ca_bundle: str, user_agent: str) -> None:
        self._ca_bundle = ca_bundle
        self._user_agent = user_agent
        self._making = asyncio.Lock()
        self._context: ssl.SSLContext | None = None
        self._client: httpx.AsyncClient | None = None
        self._users: dict[httpx.AsyncClient, int] = {}
        self._closed = False
        for name in ("httpx", "httpcore"):  # they log whole addresses at INFO and DEBUG
            logging.getLogger(name).setLevel(logging.WARNING)

    async def ready(self) -> None:
        """Make the client if there is none. Raises `SettingsError`, and `WireFailure` after `aclose`."""
        await self._get()

    async def exchange(self, outgoing: Outgoing, *, seconds: float, max_bytes: int, auth: Any = None) -> Answer:
        """Send a request and read its answer, redirects included, within ``seconds``. Raises `WireFailure`."""
        progress = auth.progress if auth else Progress()
        with suppress(TimeoutError):
            async with (
                asyncio.timeout(max(seconds, 0.0)),
                self.open(outgoing, seconds=seconds, progress=progress, auth=auth) as response,
            ):
                content = await read(response, max_bytes)
                return Answer(response.status_code, lower(response.headers), content)
        raise WireFailure(Reason.TIMEOUT, sent=progress.sent)

    @asynccontextmanager
    async def open(
        self, outgoing: Outgoing, *, seconds: float, progress: Progress, auth: Any = None
    ) -> AsyncIterator[httpx.Response]:
        """Send a request and hand over the answer with its body unread. Never follows a redirect.

        ``seconds`` bounds each single wait. Raises `WireFailure`, also for what goes wrong while the body is read.
        """
        async with self._lease(progress) as client:
            import httpx

            try:
                request = client.build_request(
                    outgoing.method,
                    outgoing.url,
                    headers=dict(outgoing.headers),
                    content=outgoing.content or None,
                    timeout=httpx.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds)),
                    extensions={"trace": progress.trace},
                )
                response = await client.send(request, auth=auth, stream=True, follow_redirects=False)
                try:
                    yield response
                finally:
                    await response.aclose()
            except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, ssl.SSLError) as error:
                raise WireFailure(reason_of(error), sent=progress.sent) from None
            except RuntimeError:
                if not client.is_closed:
                    raise
                raise WireFailure(Reason.CLOSED, sent=progress.sent) from None

    @asynccontextmanager
    async def _lease(self, progress: Progress) -> AsyncIterator[httpx.AsyncClient]:
        """Lend the client; one that was replaced meanwhile, or became unsound, is closed by its last user."""
        client = await self._get()
        self._users[client] = self._users.get(client, 0) + 1
        try:
            yield client
        except asyncio.CancelledError:
            progress.unsound = True  # cancelled between two steps of httpcore, a connection stays busy
            raise
        finally:
            self._users[client] -= 1
            if progress.unsound and client is self._client:
                self._client = None
            if not self._users[client]:
                del self._users[client]
                if client is not self._client:
                    await close(client)

    async def _get(self) -> httpx.AsyncClient:
        async with self._making:
            if self._closed:
                raise WireFailure(Reason.CLOSED, sent=False)
            if self._context is None:
                self._context = await asyncio.to_thread(ssl_context, self._ca_bundle)
            if self._client is None:
                client = await asyncio.to_thread(make_client, self._context, self._user_agent)
                if self._closed:  # meanwhile
                    await close(client)
                    raise WireFailure(Reason.CLOSED, sent=False)
                self._client = client
            return self._client

    async def drop_connections(self) -> None:
        """Use no connection again that exists now; requests under way may end on theirs."""
        client, self._client = self._client, None
        if client not in self._users:
            await close(client)

    async def aclose(self) -> None:
        """Close all connections, also under requests that are under way."""
        self._closed = True
        client, self._client = self._client, None
        await close(*({client, *self._users} - {None}))


async def close(*clients: httpx.AsyncClient | None) -> None:
    """Close all connections of some clients, also while the caller is being cancelled."""
    tasks = {asyncio.create_task(each.aclose(), name="entrabot:close") for each in clients if each is not None}
    if not tasks:
        return
    ended = asyncio.gather(*tasks)
    try:
        await asyncio.shield(ended)
    except asyncio.CancelledError:
        await asyncio.wait(tasks, timeout=CLOSE_SECONDS)
        raise


def make_client(context: ssl.SSLContext, user_agent: str) -> httpx.AsyncClient:
    """Return a new client. Imports httpx, so it runs in a worker thread."""
    from http.cookiejar import CookieJar, DefaultCookiePolicy

    import httpx

    return httpx.AsyncClient(
        verify=context,
        headers={"User-Agent": user_agent},
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        limits=httpx.Limits(
            max_connections=MAX_CONNECTIONS, max_keepalive_connections=KEPT_CONNECTIONS, keepalive_expiry=KEPT_SECONDS
        ),
        follow_redirects=False,
    )


async def read(response: httpx.Response, max_bytes: int) -> bytes:
    """Read the body, decompressed. Raises `WireFailure` when it is larger than ``max_bytes``."""
    found = bytearray()
    async for chunk in response.aiter_bytes():
        found += chunk
        if len(found) > max_bytes:
            raise WireFailure(Reason.TOO_LARGE, sent=True)
    return bytes(found)


def lower(headers: httpx.Headers) -> Headers:
    """Return headers by lower-case name; repeated ones are joined by commas."""
    return Headers({name.lower(): value for name, value in headers.items()})


def reason_of(error: BaseException) -> Reason:
    """Say what a failure of httpx means, without its text: that may hold the address."""
    import httpx

    if _is_certificate(error):
        return Reason.CERTIFICATE
    if isinstance(error, httpx.ProxyError):
        return Reason.PROXY
    if isinstance(error, httpx.TimeoutException):
        return Reason.TIMEOUT
    if isinstance(error, httpx.ConnectError | ssl.SSLError):
        return Reason.CONNECT
    if isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError):
        return Reason.BROKEN
    return Reason.MALFORMED


def _is_certificate(error: BaseException | None) -> bool:
    """Whether a certificate that is not trusted lies at the bottom of it."""
    for _ in range(8):
        if error is None:
            return False
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False
