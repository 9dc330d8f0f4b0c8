"""A session with the persona's server: streamable HTTP or SSE, bounded in time and in bytes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from entrabot_host.persona.failure import PersonaFailed, RemoteFailed
from entrabot_host.persona.quiet import silenced
from entrabot_host.persona.settings import PersonaSettings
from entrabot_host.security.tls import ssl_context

if TYPE_CHECKING:
    import httpx2

SECONDS: Final = 30.0
TOOL: Final = "get_system_prompt"
_MOST_BYTES: Final = 1024 * 1024
_SESSION_ID: Final = "mcp-session-id"
_GOODBYE_SECONDS: Final = 2.0

Use = Callable[[Any], Awaitable[str]]


class PersonaServer:
    """Opens a session for each question: tokens are short-lived, and questions are minutes apart."""

    def __init__(self, settings: PersonaSettings, ca_bundle: str) -> None:
        self._settings = settings
        self._ca_bundle = ca_bundle

    async def prompt(self, token: str) -> str:
        """Return the text of ``get_system_prompt``. Raises `RemoteFailed`, `SettingsError`."""
        return await self._ask(token, _prompt)

    async def check(self, token: str) -> None:
        """Ask what the server offers. Raises `RemoteFailed` when it does not answer or has no such tool."""
        await self._ask(token, _check)

    async def _ask(self, token: str, use: Use) -> str:
        import mcp.client.sse
        import mcp.client.streamable_http  # noqa: F401 - their loggers must be there to be silenced

        line = Line(token, proxies=not self._settings.loopback)
        try:
            async with asyncio.timeout(SECONDS) as limit:
                line.give_up = lambda: limit.reschedule(0)
                line.trust = await asyncio.to_thread(ssl_context, self._ca_bundle)
                with silenced():
                    return await self._anywhere(line, use)
        except TimeoutError:
            if line.too_long:
                raise _too_long() from None
            raise RemoteFailed(f"The persona's server did not answer within {SECONDS:g} seconds.") from None

    async def _anywhere(self, line: Line, use: Use) -> str:
        """Ask over the first transport that the server does not refuse."""
        first: RemoteFailed | None = None
        for transport, url in _places(self._settings.url):
            line.status = 0
            try:
                return await _over(transport(line, url), line, use)
            except RemoteFailed as error:
                if not line.refused:
                    raise
                first = first or error
        raise first or RemoteFailed("The persona's server has no address.")


class Line:
    """Makes HTTP clients for one question, and watches what comes back: its statuses, its sessions, its size.

    ``give_up`` ends the question at once: the SDK does not always pass on what ends a stream.
    """

    def __init__(self, token: str, *, proxies: bool) -> None:
        self.trust: ssl.SSLContext | bool = True
        self.give_up: Callable[[], None] = lambda: None
        self.status = 0
        self.connected = False
        self.session_id = ""
        self.too_long = False
        self._left = _MOST_BYTES
        self._token = token
        self._proxies = proxies

    def client(self, headers: Any = None, timeout: Any = None, auth: Any = None) -> httpx2.AsyncClient:
        """Make a client that carries the token. It follows no redirect to another origin: nor does the SDK."""
        import httpx2

        return httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {self._token}", "Accept-Encoding": "identity"},
            timeout=httpx2.Timeout(SECONDS),
            verify=self.trust,
            trust_env=self._proxies,  # on loopback a proxy would only get to see the token
            event_hooks={"response": [self._saw]},
        )

    @property
    def refused(self) -> bool:
        """Whether the server answered, but not as one does that speaks this transport."""
        odd = 200 <= self.status < 500 and self.status not in (401, 403, 429)
        return odd and not self.connected and not self.too_long

    async def _saw(self, response: httpx2.Response) -> None:
        self.status = response.status_code
        self.session_id = response.headers.get(_SESSION_ID, self.session_id)
        response.stream = _counted(self, response)

    def take(self, size: int) -> None:
        """Count bytes that came. Raises `TooLong`."""
        self._left -= size
        if self._left < 0:
            self.too_long = True
            self.give_up()
            raise TooLong


class TooLong(Exception):
    """The server sent more than a persona may need."""


def _counted(line: Line, response: httpx2.Response) -> httpx2.AsyncByteStream:
    import httpx2

    original: Any = response.stream
    if response.headers.get("content-encoding", "identity") != "identity":
        line.take(_MOST_BYTES + 1)  # unpacked it may have any size

    class Counted(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for part in original:
                line.take(len(part))
                yield part

        async def aclose(self) -> None:
            await original.aclose()

    return Counted()


Transport = Callable[[Line, str], AbstractAsyncContextManager[Any]]


def _places(url: str) -> Iterator[tuple[Transport, str]]:
    """Where to ask. An address that does not say SSE may still be that of a server which speaks nothing else."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    if path.endswith("/sse"):
        yield _sse, url
        return
    yield _http, url
    yield _sse, parts._replace(path=f"{path}/sse").geturl()
    yield _sse, url


@asynccontextmanager
async def _http(line: Line, url: str) -> AsyncIterator[Any]:
    from mcp.client import Client
    from mcp.client.streamable_http import streamable_http_client

    async with (
        line.client() as http,
        Client(streamable_http_client(url, http_client=http, terminate_on_close=False), mode="auto") as client,
    ):
        line.connected = True
        yield client.session
        if line.session_id:  # said here, not while leaving: leaving may be in a hurry
            with suppress(TimeoutError):
                async with asyncio.timeout(_GOODBYE_SECONDS):
                    await http.delete(url, headers={_SESSION_ID: line.session_id})


@asynccontextmanager
async def _sse(line: Line, url: str) -> AsyncIterator[Any]:
    from mcp.client import Client
    from mcp.client.sse import sse_client

    async with Client(sse_client(url, httpx_client_factory=line.client), mode="legacy") as client:
        line.connected = True
        yield client.session


async def _over(transport: AbstractAsyncContextManager[Any], line: Line, use: Use) -> str:
    """Use one session. Whatever fails in it, in any of its tasks, is a `RemoteFailed`."""
    answer: str | None = None
    failure: PersonaFailed | None = None
    try:
        async with transport as session:
            try:
                answer = await use(session)
            except PersonaFailed as error:
                failure = error
    except Exception as error:
        if answer is None and failure is None:
            raise _explained(error, line) from None
    if failure is not None:
        raise failure
    if answer is None:
        raise RemoteFailed("The session with the persona's server ended early.")
    return answer


async def _prompt(session: Any) -> str:
    from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult

    request = CallToolRequest(params=CallToolRequestParams(name=TOOL, arguments={}))
    # Not `session.call_tool`: that also checks the answer against the tool's output schema, for nothing.
    answer = await session.send_request(request, CallToolResult)
    if answer.is_error:
        raise RemoteFailed(f"The tool {TOOL} of the persona's server failed.")
    text = "\n".join(block.text for block in answer.content if getattr(block, "type", "") == "text")
    if not text.strip():
        raise RemoteFailed(f"The tool {TOOL} of the persona's server returned no text.")
    return text


async def _check(session: Any) -> str:
    offered = await session.list_tools()
    if not any(tool.name == TOOL for tool in offered.tools) and not offered.next_cursor:
        raise RemoteFailed(f"The persona's server offers no tool {TOOL}.")
    return "ok"


def _explained(error: Exception, line: Line) -> RemoteFailed:
    """Say what went wrong, in our own words."""
    if line.too_long:
        return _too_long()
    if line.status in (401, 403):
        return RemoteFailed(
            f"The persona's server refused the token (status {line.status}).",
            remedy="Check that the token command gets a token for this server.",
        )
    if line.status >= 300:
        return RemoteFailed(f"The persona's server answered with status {line.status}.")
    if line.status:
        return RemoteFailed("The persona's server answered, but not as an MCP server does.")
    if "CERTIFICATE_VERIFY_FAILED" in "".join(map(str, _leaves(error))):
        return RemoteFailed(
            "The certificate of the persona's server is not trusted.",
            remedy="Name the certificate authority in ENTRABOT_CA_BUNDLE.",
        )
    return RemoteFailed("The persona's server cannot be reached.")


def _too_long() -> RemoteFailed:
    return RemoteFailed(f"The persona's server sent more than {_MOST_BYTES // 1024} KiB, or packed its answer.")


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from _leaves(part)
    else:
        yield error
