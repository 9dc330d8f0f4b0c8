"""Misbehaviour on demand: delays, refusals and cut connections for chosen requests."""

from __future__ import annotations

import asyncio
import random
import re
from dataclasses import dataclass, field
from typing import Any

from entrabot_sandbox.errors import ConnectionDroppedError, ControlError, GraphError

KINDS = ("latency", "status", "drop_before", "drop_after")

_CODES = {
    401: "InvalidAuthenticationToken",
    403: "Forbidden",
    404: "NotFound",
    429: "TooManyRequests",
    500: "InternalServerError",
    502: "BadGateway",
    503: "ServiceUnavailable",
    504: "GatewayTimeout",
}


@dataclass
class Fault:
    """One rule. ``count`` None means until removed; the first ``after`` matches pass unharmed."""

    id: int
    kind: str
    method: str = ""
    pattern: re.Pattern[str] = field(default_factory=lambda: re.compile(".*"))
    count: int | None = None
    after: int = 0
    probability: float = 1.0
    seconds: float = 0.0
    status: int = 0
    code: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    hits: int = 0

    def strikes(self, method: str, path: str) -> bool:
        """Whether this request is hit; counts it if so."""
        if self.method not in ("", method) or not self.pattern.fullmatch(path) or self.count == 0:
            return False
        if self.after > 0:
            self.after -= 1
            return False
        if random.random() >= self.probability:
            return False
        self.hits += 1
        self.count = None if self.count is None else self.count - 1
        return True

    def describe(self) -> dict[str, Any]:
        """The rule as the control API shows it."""
        shown = ("id", "kind", "method", "count", "after", "probability", "seconds", "status", "hits")
        return {name: getattr(self, name) for name in shown} | {"regex": self.pattern.pattern}


class Faults:
    """The rules in force."""

    def __init__(self) -> None:
        self._rules: dict[int, Fault] = {}
        self._last = 0

    def add(self, wish: dict[str, Any]) -> Fault:
        """Make a rule of a control API body. Raises ControlError naming what is wrong with it."""
        fault = _parse(self._last + 1, wish)
        self._last = fault.id
        self._rules[fault.id] = fault
        return fault

    def remove(self, fault_id: int) -> None:
        """Remove a rule. Raises ControlError when there is none of that id."""
        if self._rules.pop(fault_id, None) is None:
            raise ControlError(404, f"There is no fault {fault_id}.")

    def clear(self) -> None:
        """Remove every rule."""
        self._rules.clear()

    def describe(self) -> list[dict[str, Any]]:
        """Every rule, oldest first."""
        return [fault.describe() for fault in self._rules.values()]

    async def before(self, method: str, path: str) -> bool:
        """Suffer what happens before the request is handled; True if the answer is to be lost afterwards.

        Raises GraphError for a refusal, ConnectionDroppedError for a cut connection.
        """
        struck = [fault for fault in list(self._rules.values()) if fault.strikes(method, path)]
        for fault in struck:
            await asyncio.sleep(fault.seconds)
        for fault in struck:
            if fault.kind == "drop_before":
                raise ConnectionDroppedError
            if fault.kind == "status":
                code = fault.code or _CODES.get(fault.status, "UnknownError")
                raise GraphError(fault.status, code, "The sandbox was asked to refuse this request.", fault.headers)
        return any(fault.kind == "drop_after" for fault in struck)


def _parse(fault_id: int, wish: dict[str, Any]) -> Fault:
    known = {"kind", "method", "path", "regex", "count", "after", "probability", "seconds", "status", "code"}
    unknown = set(wish) - known - {"retry_after", "headers"}
    if unknown:
        raise ControlError(400, f"A fault has no '{sorted(unknown)[0]}'.")
    kind = wish.get("kind")
    if kind not in KINDS:
        raise ControlError(400, f"kind must be one of {', '.join(KINDS)}.")
    fault = Fault(fault_id, kind, str(wish.get("method") or "").upper(), _pattern(wish))
    fault.count = _number(wish, "count", int, None)
    fault.after = _number(wish, "after", int, 0)
    fault.probability = _number(wish, "probability", float, 1.0)
    fault.seconds = _number(wish, "seconds", float, 0.0)
    fault.status = _number(wish, "status", int, 0)
    fault.code = str(wish.get("code") or "")
    fault.headers = _headers(wish)
    if kind == "status" and not 400 <= fault.status <= 599:
        raise ControlError(400, "status must be from 400 to 599.")
    if kind == "latency" and not fault.seconds:
        raise ControlError(400, "latency needs seconds.")
    return fault


def _number(wish: dict[str, Any], name: str, kind: type, default: Any) -> Any:
    value = wish.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise ControlError(400, f"{name} must be a number, not below 0.")
    return kind(value)


def _headers(wish: dict[str, Any]) -> dict[str, str]:
    headers = wish.get("headers") or {}
    if not isinstance(headers, dict):
        raise ControlError(400, "headers must be an object.")
    result = {str(name): str(value) for name, value in headers.items()}
    if wish.get("retry_after") is not None:
        result["Retry-After"] = str(wish["retry_after"])
    if wish.get("status") == 401 and "WWW-Authenticate" not in result:
        result["WWW-Authenticate"] = 'Bearer realm=""'
    return result


def _pattern(wish: dict[str, Any]) -> re.Pattern[str]:
    try:
        if wish.get("regex") is not None:
            return re.compile(str(wish["regex"]))
    except re.error as error:
        raise ControlError(400, f"regex is not one: {error}.") from error
    return re.compile(_from_glob(str(wish.get("path") or "**")))


def _from_glob(glob: str) -> str:
    parts = re.split(r"(\*\*|\*)", glob)
    return "".join({"**": ".*", "*": "[^/]*"}.get(part, re.escape(part)) for part in parts)
