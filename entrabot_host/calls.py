"""One tool call: validated, audited, run through the wrappers, its result made into text at one place.

Order, outermost first: this boundary, audit, the plugins' wrappers, the envelope around outside text, the tool. A call
that is refused before its ``pending`` line leaves one line, with nothing of what was passed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Protocol

import anyio
import pydantic_core

from entrabot_host.assembly import AssembledTool
from entrabot_host.delivery.cargo import CURRENT, Cargo
from entrabot_host.errors import EntrabotError, InvalidArgument
from entrabot_host.host import Outcome
from entrabot_host.records.deeds import DONE
from entrabot_host.security.envelope import wrap_fields
from entrabot_host.security.redaction import redact
from entrabot_host.security.text import neutralise
from entrabot_host.tools import Audit, Image, ToolContext, ToolResult
from entrabot_host.wrappers import ToolCall

log = logging.getLogger(__name__)
_AUDIT_SECONDS = 5.0
_REFUSAL_SECONDS = 15.0
"""How long a refused call waits for its line, which itself may wait for a sign-in under way."""
_LONGEST_ERROR = 4000

Ready = Callable[[str], Awaitable[None]]
"""Waits until a plugin has started. Raises `PluginError` when it could not."""
WriteAudit = Callable[[str, str, str, Outcome, Mapping[str, Any]], Awaitable[str]]
"""``(plugin, action, resource, outcome, metadata) -> event id``. Raises `AttributionError` when nobody can be named."""


class WriteLine(Protocol):
    """Writes an audit line of one call."""

    async def __call__(self, outcome: Outcome, **more: str) -> None:
        """Write it. Raises what `WriteAudit` does."""
        ...


class Carrier(Protocol):
    """What of delivery a call meets: people's messages that its result carries. Implemented by `InboxService`."""

    def load(self, arguments: Mapping[str, Any]) -> Cargo:
        """A call has come in with these arguments: return its cargo, still empty."""
        ...

    def riders(self) -> bool:
        """Whether something may ride along on a result now."""
        ...

    async def ride(self, cargo: Cargo) -> str:
        """Add to the cargo what may ride along; return the block for the result, or nothing."""
        ...

    def answered(self, text: str) -> None:
        """A result goes out with this text."""
        ...


def _no_carrier() -> Carrier | None:
    return None


@dataclass(frozen=True)
class Answer:
    """What the client gets: one JSON text, images, and whether it is an error.

    aside: a text block of its own that comes last. cargo: the messages that the answer carries; whoever writes it says
    what became of them.
    """

    text: str
    images: Sequence[Image] = ()
    is_error: bool = False
    aside: str = ""
    cargo: Cargo | None = None


class Calls:
    """Runs tools. Holds nothing about a single call but its context, which lives in a context variable."""

    def __init__(self, *, write_audit: WriteAudit, ready: Ready | None = None, envelope: bool = True) -> None:
        self.carrier: Callable[[], Carrier | None] = _no_carrier
        """Returns what puts people's messages into results; set once a client is connected."""
        self._write_audit = write_audit
        self._ready = ready
        self._envelope = envelope
        self._context: ContextVar[ToolContext] = ContextVar("entrabot-call")

    def innermost(self, assembled: AssembledTool) -> ToolCall:
        """Make the call next to the tool: it hands over the context and puts outside text into its envelope.

        The envelope is applied here, inside all wrappers, so that no wrapper can move a field out of its reach.
        """
        tool, parameter = assembled.tool, assembled.signature.context_parameter
        external = tool.external if tool.external is not None or tool.hints.open_world else ()

        async def call(**arguments: Any) -> Any:
            if parameter:
                arguments[parameter] = self._context.get()
            result = await tool.fn(**arguments)
            if external == ():
                return result
            # As plain data first: the envelope looks into dictionaries, lists and strings, not into other objects.
            data = pydantic_core.to_jsonable_python(result.data if isinstance(result, ToolResult) else result)
            wrapped = wrap_fields(data, external, assembled.name, enabled=self._envelope)
            return ToolResult(wrapped, result.images) if isinstance(result, ToolResult) else wrapped

        return call

    async def run(self, assembled: AssembledTool, arguments: Mapping[str, Any], context: ToolContext) -> Answer:
        """Run one call to its end. Every failure becomes an answer; only cancellation passes."""
        carrier = self.carrier()
        if carrier is None:
            return await self._answered(assembled, arguments, context)
        cargo = carrier.load(arguments)
        token = CURRENT.set(cargo)
        try:
            answer = await self._answered(assembled, arguments, context)
            if answer.is_error:
                cargo.lost()
                return answer
            aside = await carrier.ride(cargo) if carrier.riders() else ""
            carrier.answered(answer.text)
            return replace(answer, aside=aside, cargo=cargo) if cargo.pieces else answer
        except BaseException:
            cargo.lost()
            raise
        finally:
            CURRENT.reset(token)

    async def _answered(self, assembled: AssembledTool, arguments: Mapping[str, Any], context: ToolContext) -> Answer:
        token = self._context.set(context)
        try:
            validated = await self._admitted(assembled, arguments, context)
            result = await self._audited(assembled, validated, context)
            return _answer(result)
        except EntrabotError as error:
            return refusal(error)
        except BaseException as error:  # SystemExit and the like, too: nothing of a tool may end the server
            if isinstance(error, asyncio.CancelledError) and _being_cancelled():
                raise
            return _bug(assembled.name, error)
        finally:
            self._context.reset(token)

    async def _admitted(
        self, assembled: AssembledTool, arguments: Mapping[str, Any], context: ToolContext
    ) -> dict[str, Any]:
        """Return the validated arguments once the plugin has started. A refusal is recorded like a failed deed."""
        try:
            validated = assembled.signature.validate(arguments)
            if self._ready is not None:
                await self._ready(assembled.plugin)
        except EntrabotError as error:
            if audit := _audit_of(assembled):
                await self._record_refusal(assembled, audit, context, error)
            raise
        return validated

    async def _record_refusal(
        self, assembled: AssembledTool, audit: Audit, context: ToolContext, error: EntrabotError
    ) -> None:
        """Write the line. Nothing was done, so a record that fails or takes long keeps nobody from his answer."""
        more = {"refused": "before it began", "error": type(error).__name__}
        parameter = str(error.details.get("parameter", "")).partition(".")[0]
        if parameter in assembled.signature.parameters:
            more["parameter"] = parameter
        try:
            async with asyncio.timeout(_REFUSAL_SECONDS):
                await self._line(assembled, audit.action, "", context)(Outcome.FAILURE, **more)
        except (EntrabotError, TimeoutError) as failure:
            log.warning("a refused call of %s could not be audited: %s", assembled.name, type(failure).__name__)

    async def _audited(self, assembled: AssembledTool, arguments: dict[str, Any], context: ToolContext) -> Any:
        audit = _audit_of(assembled)
        if audit is None:
            return await assembled.call(**arguments)
        write = self._line(assembled, audit.action, _resource(audit, arguments), context)
        await write(Outcome.PENDING)
        done: set[str] = set()
        token = DONE.set(done)
        try:
            result = await assembled.call(**arguments)
        except EntrabotError as error:
            await _to_its_end(write(Outcome.FAILURE, error=type(error).__name__))
            raise
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and audit.action in done:
                raise  # cancelled after its deed, as the tool has recorded
            with anyio.move_on_after(_AUDIT_SECONDS, shield=True):
                await write(Outcome.FAILURE, error=type(error).__name__)
            raise
        finally:
            DONE.reset(token)
        await _to_its_end(write(Outcome.SUCCESS))
        return result

    def _line(self, assembled: AssembledTool, action: str, resource: str, context: ToolContext) -> WriteLine:
        """Return what writes this call's audit lines, given an outcome and more metadata."""
        metadata = {"tool": assembled.name, "call_id": context.call_id, "client": context.client_name}

        async def write(outcome: Outcome, **more: str) -> None:
            await self._write_audit(assembled.plugin, action, resource, outcome, {**metadata, **more})

        return write


async def _to_its_end(writing: Coroutine[Any, Any, None]) -> None:
    """Write an outcome; a cancellation meanwhile is passed on once it is written, or after a while."""
    task = asyncio.create_task(writing)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        with anyio.move_on_after(_AUDIT_SECONDS, shield=True):
            await asyncio.wait({task})
        task.cancel()
        raise


def _being_cancelled() -> bool:
    """Whether this call itself is cancelled, not something that it awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _audit_of(assembled: AssembledTool) -> Audit | None:
    audit = assembled.tool.audit
    if isinstance(audit, Audit):
        return audit
    return Audit(action=assembled.name) if audit and not assembled.tool.hints.read_only else None


def _resource(audit: Audit, arguments: Mapping[str, Any]) -> str:
    if callable(audit.resource):
        return audit.resource(arguments)
    return str(arguments.get(audit.resource, "")) if audit.resource else ""


def _answer(result: Any) -> Answer:
    data, images = (result.data, result.images) if isinstance(result, ToolResult) else (result, ())
    return Answer(_to_text(data), images)


def _to_text(data: Any) -> str:
    """Make the JSON text: the one place where data becomes text. Half a surrogate pair becomes a question mark."""
    try:
        return pydantic_core.to_json(data, inf_nan_mode="null").decode()
    except pydantic_core.PydanticSerializationError:
        text = json.dumps(pydantic_core.to_jsonable_python(data), ensure_ascii=False)
        return text.encode("utf-8", "replace").decode()


def refusal(error: EntrabotError) -> Answer:
    """Make an expected failure into an answer."""
    shown = {key: _shown(value) for key, value in error.to_dict().items()}
    return Answer(_to_text({"error": shown}), is_error=True)


def _shown(value: Any) -> Any:
    """Texts of errors may quote what a service said: no secrets, and nothing invisible."""
    return neutralise(redact(value[:_LONGEST_ERROR])) if isinstance(value, str) else value


def unknown_tool(name: str, known: Sequence[str]) -> Answer:
    """Answer a call of a tool that is not offered. The name is the caller's text and is not repeated."""
    return refusal(
        InvalidArgument(
            "There is no tool of this name on this server.", remedy=f"Tools are: {', '.join(known) or 'none'}."
        )
    )


def _bug(tool: str, error: BaseException) -> Answer:
    """Log an unexpected failure under an id and tell the client the id only."""
    correlation = secrets.token_hex(6)
    detail = "".join(traceback.format_exception(error))
    log.error("tool %s failed unexpectedly, correlation id %s\n%s", tool, correlation, redact(detail))
    body = {
        "error": {
            "type": "InternalError",
            "message": f"The tool failed unexpectedly (correlation id {correlation}).",
            "remedy": "The server's stderr has the details under this id. Whether anything was done is not known.",
            "correlation_id": correlation,
        }
    }
    return Answer(_to_text(body), is_error=True)
