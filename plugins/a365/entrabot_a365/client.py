"""Calls of Work IQ servers: under the name that a server knows, within the time, repeated only where that is safe."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from entrabot_a365.catalog import Operation, Request
from entrabot_a365.errors import A365CallError
from entrabot_a365.failures import LOOK_FIRST, Again, Failure, one_line
from entrabot_a365.session import Answer, Held, Sessions, opener
from entrabot_a365.settings import A365Settings
from entrabot_a365.wire import Exchange, Passage, Tokens
from entrabot_host import EntrabotError, Host

_ATTEMPTS = 3
_PAUSE = 0.3
_UNKNOWN_TOOL = re.compile(r"\s*(unknown tool|tool\b.{0,120}\bnot found)", re.IGNORECASE | re.DOTALL)
_METHOD_NOT_FOUND, _INVALID_PARAMS, _INTERNAL = -32601, -32602, -32603


class WorkIq:
    """The way to the servers, for one host."""

    def __init__(self, host: Host, settings: A365Settings) -> None:
        self._log = host.log
        self._seconds = settings.timeout_seconds
        self._sessions = Sessions(
            lambda server: opener(
                server, Passage(server, _Identity(host)), settings.timeout_seconds, settings.ca_bundle
            ),
            settings.timeout_seconds,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Allow sessions in the block, and end them after it."""
        try:
            yield
        finally:
            await self._sessions.aclose()

    async def call(self, request: Request) -> Answer:
        """Call a tool and return its answer, which may be the tool's own error.

        Raises `A365Error` and `AuthError`; `A365CallError` says ``outcome_unknown`` where what was to be made may
        exist.
        """
        exchange = Exchange()
        try:
            async with asyncio.timeout(self._seconds):
                return await self._attempts(request, exchange)
        except Failure as failure:
            raise _final(failure, request.operation) from None
        except TimeoutError:
            error = A365CallError(f"The Work IQ server did not answer within {self._seconds:g} seconds.")
            raise _final(Failure(error, unknown=exchange.sent), request.operation) from None

    async def _attempts(self, request: Request, exchange: Exchange) -> Answer:
        for attempt in range(1, _ATTEMPTS + 1):
            exchange.sent, exchange.failure = False, None
            held = self._sessions.of(request.server)
            try:
                async with held.used():
                    return await self._once(held, request, exchange)
            except Failure as failure:
                if failure.session_lost:
                    held.let_go()
                if attempt == _ATTEMPTS or not _repeatable(failure, request.operation):
                    raise
                self._log.info("a call of %s is repeated: %s", request.server.name, failure)
                exchange.sent = False  # so that running out of time while waiting leaves no doubt
                await asyncio.sleep(failure.wait or _PAUSE * attempt)
        raise AssertionError("unreachable")

    async def _once(self, held: Held, request: Request, exchange: Exchange) -> Answer:
        name = _known(request.operation, await held.tools())
        if name is None:
            name = _known(request.operation, await held.tools(anew=True))
        if name is None:
            raise _not_offered(request)
        answer = await self._called(held, name, request, exchange)
        if answer is not None:
            return answer
        renamed = _known(request.operation, await held.tools(anew=True))
        if renamed in (None, name):
            raise _not_offered(request)
        answer = await self._called(held, str(renamed), request, exchange)
        if answer is None:
            raise _not_offered(request)
        return answer

    async def _called(self, held: Held, name: str, request: Request, exchange: Exchange) -> Answer | None:
        """Call a tool; return None when the server does not know it."""
        from mcp import MCPError

        try:
            answer = await held.call(name, request.arguments, exchange)
        except MCPError as error:
            if error.code == _METHOD_NOT_FOUND or (
                error.code == _INVALID_PARAMS and _UNKNOWN_TOOL.match(error.message)
            ):
                return None
            message = f"The Work IQ server refused the call: {one_line(error.message)}"
            refusal = A365CallError(message, remedy="Check the arguments; take ids from what the tools returned.")
            raise Failure(refusal, unknown=error.code == _INTERNAL) from None
        text = answer.texts[0] if answer.is_error and answer.texts else ""
        return None if _UNKNOWN_TOOL.match(text) else answer


class _Identity:
    """The host's identity, looked up when a token is needed: before that there is none."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def token(
        self, audience: str, *, url: str, work_iq: bool = False, rejected: str = "", challenge: str = ""
    ) -> str:
        identity: Tokens = self._host.identity
        return await identity.token(audience, url=url, work_iq=work_iq, rejected=rejected, challenge=challenge)


def _known(operation: Operation, tools: frozenset[str]) -> str | None:
    """Return the newest name of an operation that a server has."""
    return next((name for name in operation.names if name in tools), None)


def _not_offered(request: Request) -> A365CallError:
    return A365CallError(
        f"The server {request.server.name} offers no tool {' or '.join(request.operation.names)}.",
        remedy="Tell the operator: Microsoft may have renamed or withdrawn it.",
    )


def _repeatable(failure: Failure, operation: Operation) -> bool:
    return failure.again is Again.ALWAYS or (failure.again is Again.IF_IT_ONLY_READS and not operation.makes)


def _final(failure: Failure, operation: Operation) -> EntrabotError:
    error = failure.error
    if not failure.unknown or not operation.makes or not isinstance(error, A365CallError):
        return error
    return A365CallError(
        f"Whether the {operation.makes} was made is not known. {error.message}",
        status=error.status,
        outcome_unknown=True,
        remedy=f"Do not simply repeat it. {LOOK_FIRST}",
    )
