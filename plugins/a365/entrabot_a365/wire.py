"""What a session's requests pass on their way out: one address only, a token for it, and every failure explained.

The SDK ends a whole session, with all its calls, when a single request fails. So nothing fails in here: what went wrong
is noted in the exchange of the call whose request it was, and the SDK is given an answer that it can pass on.
"""

from __future__ import annotations

import json
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from entrabot_a365.errors import A365CallError
from entrabot_a365.failures import Failure, by_status, from_token, unreachable
from entrabot_a365.manifest import Server
from entrabot_host import AuthError, EntrabotError

if TYPE_CHECKING:
    import httpx2

MAX_BODY = 16 * 1024 * 1024
"""Bytes of the largest answer: a file of 5 MB in base64, and JSON around it."""
_MAX_REFUSAL = 64 * 1024
_CONNECT_SECONDS = 10.0
_ASIDE = {"connect": 2.0, "read": 3.0, "write": 3.0, "pool": 2.0}
"""Seconds for what nobody waits for, such as word that a call was given up: others wait behind it."""

Forward = Callable[..., Awaitable["httpx2.Response"]]


@dataclass
class Exchange:
    """What became of the requests of one call. ``sent`` is false only if none has left since the last refusal."""

    sent: bool = False
    failure: Failure | None = field(default=None, repr=False)

    async def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Hear what the connection does; asking a proxy for a tunnel does not count."""
        if event.endswith(".send_request_headers.started") and info["request"].method != b"CONNECT":
            self.sent = True


CURRENT: ContextVar[Exchange | None] = ContextVar("entrabot-a365-exchange", default=None)
"""The exchange of the running call. The SDK's transport sends each request in the context that it was asked in."""


class Tokens(Protocol):
    """As much of `entrabot_host.Identity` as is needed here."""

    async def token(
        self, audience: str, *, url: str, work_iq: bool = False, rejected: str = "", challenge: str = ""
    ) -> str:
        """Return a token for an address, if it may go there."""
        ...


class Passage:
    """The only way out to one server."""

    def __init__(self, server: Server, tokens: Tokens) -> None:
        self._server = server
        self._tokens = tokens

    async def check(self) -> None:
        """Get a token, so that a server which may have none is never connected to. Raises what says why."""
        try:
            await self._token()
        except AuthError as error:
            raise from_token(error) from None

    async def send(self, request: httpx2.Request, forward: Forward) -> httpx2.Response:
        """Send a request and return its answer, or one that stands for a failure."""
        import httpx2

        exchange = CURRENT.get() or Exchange()
        if request.method == "GET" and "last-event-id" not in request.headers:
            return httpx2.Response(405, request=request)  # nothing that the server says unasked is of use
        if request.method == "GET":
            exchange = Exchange()  # the rest of an answer is asked for: whatever comes of it, the call itself was sent
        if not _is_request(request):
            exchange = Exchange()
            request.extensions["timeout"] = _ASIDE
        try:
            return await self._answered(request, forward, exchange)
        except AuthError as error:
            exchange.failure = Failure(from_token(error))
        except EntrabotError as error:
            exchange.failure = Failure(error)
        except Failure as failure:
            exchange.failure = failure
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, ssl.SSLError, OSError) as error:
            exchange.failure = unreachable(error, sent=exchange.sent)
        return _stand_in(request)

    async def _answered(self, request: httpx2.Request, forward: Forward, exchange: Exchange) -> httpx2.Response:
        response = await self._authorized(request, forward, exchange)
        if response.is_redirect or 300 <= response.status_code < 400:
            await response.aclose()
            raise Failure(A365CallError("The Work IQ server answered with a redirect, which is never followed."))
        if response.status_code >= 400:
            body = await _read(response, _MAX_REFUSAL, whole=False)
            raise by_status(response.status_code, response.headers, body, in_session=_in_session(request))
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "application/json":
            return _copy(response, await _read(response, MAX_BODY))
        if response.status_code not in (202, 204) and kind != "text/event-stream" and _is_request(request):
            await response.aclose()
            raise Failure(A365CallError("The Work IQ server answered with something that is not MCP."), unknown=True)
        return response

    async def _authorized(self, request: httpx2.Request, forward: Forward, exchange: Exchange) -> httpx2.Response:
        """Send with a token; once more with another one when it is refused."""
        import httpx2

        if request.url != httpx2.URL(self._server.url):
            raise A365CallError("A request to another address than the server's was not sent.")
        request.extensions["trace"] = exchange.trace
        token = await self._token()
        response = await _with(token, request, forward)
        if response.status_code != 401:
            return response
        challenge = response.headers.get("www-authenticate", "")
        await response.aclose()
        exchange.sent = False  # refused before anything was done
        return await _with(await self._token(rejected=token, challenge=challenge), request, forward)

    async def _token(self, *, rejected: str = "", challenge: str = "") -> str:
        server = self._server
        return await self._tokens.token(
            server.audience, url=server.url, work_iq=True, rejected=rejected, challenge=challenge
        )


def make_client(passage: Passage, seconds: float, ca_bundle: str) -> httpx2.AsyncClient:
    """Return a client whose requests go through the passage. Reads files: for a worker thread.

    It trusts the operating system's authorities and the file's, honours proxy variables and keeps no cookies. Raises
    `A365CallError` when the file is of no use.
    """
    from http.cookiejar import CookieJar, DefaultCookiePolicy

    import httpx2

    class Client(httpx2.AsyncClient):
        async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
            async def forward() -> httpx2.Response:
                return await super(Client, self).send(request, **{**options, "stream": True, "follow_redirects": False})

            return await passage.send(request, forward)

    for name in ("httpx2", "httpcore2"):  # they log addresses
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("mcp.client.streamable_http").setLevel(logging.CRITICAL)  # it quotes what a server sent
    context = httpx2.create_ssl_context()
    if ca_bundle:
        try:
            context.load_verify_locations(ca_bundle)
        except OSError as error:  # an SSLError is one, too
            raise A365CallError(
                "The file that ENTRABOT_CA_BUNDLE names cannot be used.",
                remedy="Tell the operator: it must be a readable PEM file with a certificate authority.",
            ) from error
    return Client(
        verify=context,
        headers={"User-Agent": "entrabot-a365"},
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        timeout=httpx2.Timeout(seconds, connect=min(_CONNECT_SECONDS, seconds)),
        limits=httpx2.Limits(max_connections=20, max_keepalive_connections=5, keepalive_expiry=15.0),
        follow_redirects=False,
    )


async def _with(token: str, request: httpx2.Request, forward: Forward) -> httpx2.Response:
    request.headers["Authorization"] = f"Bearer {token}"
    return await forward()


async def _read(response: httpx2.Response, limit: int, *, whole: bool = True) -> bytes:
    """Read a body; of one beyond the limit nothing is of use, or, unless ``whole``, its beginning is."""
    found = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            found += chunk
            if len(found) > limit and whole:
                raise Failure(A365CallError("The Work IQ server sent more than 16 MB, which is refused."), unknown=True)
            if len(found) > limit:
                break
    finally:
        await response.aclose()
    return bytes(found)


def _copy(response: httpx2.Response, body: bytes) -> httpx2.Response:
    """Return the answer with its body read, so that nothing can break any more."""
    import httpx2

    kept = {name: value for name, value in response.headers.items() if name in ("content-type", "mcp-session-id")}
    return httpx2.Response(response.status_code, headers=kept, content=body, request=response.request)


def _stand_in(request: httpx2.Request) -> httpx2.Response:
    """Return an answer that fails this one request and not the session."""
    import httpx2

    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32603, "message": "The request failed."}}
    return httpx2.Response(502, json=error, request=request)


def _is_request(request: httpx2.Request) -> bool:
    """Whether somebody waits for an answer: it is not a notification."""
    if request.method != "POST":
        return True
    message = json.loads(request.content)
    return isinstance(message, dict) and "method" in message and "id" in message


def _in_session(request: httpx2.Request) -> bool:
    return "mcp-session-id" in request.headers
