"""One line of JSON to one JSON-RPC message and back. Needs the SDK's types, so it is imported late."""

from __future__ import annotations

import json
from typing import Any, Final

from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCNotification
from mcp_types.jsonrpc import RequestId, jsonrpc_message_adapter
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, from_json

_RESCUE_LIMIT: Final = 1024 * 1024  # bytes; the second parser is slow, and only reads the id of a broken request


class InvalidLineError(Exception):
    """A line that is no JSON-RPC message; knows the answer it gets, which never repeats the input."""

    def __init__(self, code: int, message: str, request_id: RequestId | None = None) -> None:
        super().__init__(message)
        self.answer = JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=message))


def overlong(limit: int) -> InvalidLineError:
    """Return the error for a line longer than ``limit`` bytes."""
    return InvalidLineError(INVALID_REQUEST, f"the line is longer than {limit} bytes and was skipped")


def parse(line: bytes) -> Any:
    """Return the JSON value of a line.

    Raises:
        InvalidLineError: not JSON, or not UTF-8.
    """
    try:
        return from_json(line, allow_inf_nan=False)
    except ValueError:
        request_id = _readable_id(_reparse(line))
    raise InvalidLineError(PARSE_ERROR, "the line is not valid JSON in UTF-8", request_id)


def to_message(value: Any) -> JSONRPCMessage:
    """Return the message that a JSON value spells.

    Raises:
        InvalidLineError: not a JSON-RPC 2.0 request, notification, result or error.
    """
    if isinstance(value, list):
        raise InvalidLineError(INVALID_REQUEST, "batches are not supported: send one message per line")
    try:
        message = jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValidationError:
        message = None
    if message is None:
        raise InvalidLineError(INVALID_REQUEST, "the line is not a JSON-RPC 2.0 message", _readable_id(value))
    if isinstance(message, JSONRPCNotification) and "id" in value:
        raise InvalidLineError(INVALID_REQUEST, "the id of a request must be a string or an integer")
    return message


def encode(message: JSONRPCMessage) -> bytes:
    """Return the message as one line, newline included."""
    try:
        return jsonrpc_message_adapter.dump_json(message, by_alias=True, exclude_unset=True) + b"\n"
    except PydanticSerializationError:
        # Half a surrogate pair in a text (an emoji cut in two) has no UTF-8; it is replaced instead of losing the line.
        text = json.dumps(message.model_dump(by_alias=True, exclude_unset=True), ensure_ascii=False)
        return text.encode("utf-8", "replace") + b"\n"


def _reparse(line: bytes) -> Any:
    """Read a rejected line with the tolerant parser: it takes half surrogate pairs and broken UTF-8."""
    if len(line) > _RESCUE_LIMIT:
        return None
    try:
        return json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def _readable_id(value: Any) -> RequestId | None:
    """Return a broken request's id; without a method it would be somebody's answer, whose ids are not ours to use."""
    if not isinstance(value, dict) or "method" not in value:
        return None
    request_id = value.get("id")
    if isinstance(request_id, str):
        return request_id.encode("utf-8", "replace").decode("utf-8")
    return request_id if isinstance(request_id, int) and not isinstance(request_id, bool) else None
