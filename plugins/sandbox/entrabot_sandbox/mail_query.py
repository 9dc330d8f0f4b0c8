"""Query options of mail collections: what Exchange takes, in which order, and how it pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import quote

from entrabot_sandbox.errors import GraphError, bad_request
from entrabot_sandbox.odata import Comparison, Options, comparisons

Json = dict[str, Any]

MAX_PAGE = 1000
DEFAULT_PAGE = 10
_TIMES = ("receivedDateTime", "sentDateTime", "createdDateTime", "lastModifiedDateTime")
_WORDS = ("subject", "importance", "conversationId", "internetMessageId", "from/emailAddress/address")
_FLAGS = ("isRead", "isDraft", "hasAttachments")
_SORTABLE = (*_TIMES, "subject", "importance", "from/emailAddress/address", "from/emailAddress/name", *_FLAGS)
_OPERATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda one, other: one == other,
    "ne": lambda one, other: one != other,
    "gt": lambda one, other: one > other,
    "ge": lambda one, other: one >= other,
    "lt": lambda one, other: one < other,
    "le": lambda one, other: one <= other,
}


def chosen(rows: Iterable[Json], options: Options) -> list[Json]:
    """The rows that the filter lets through, in order. Raises GraphError (400) as Exchange does."""
    filters, order = _filters(options), _order(options)
    _check_together(filters, [name for name, _ in order])
    found = [row for row in rows if all(_holds(row, one) for one in filters)]
    for name, descending in reversed(order or [("receivedDateTime", True)]):
        found.sort(key=partial(_value, name=name), reverse=descending)
    return found


def page(rows: list[Json], options: Options, url: str) -> tuple[list[Json], str | None]:
    """One page, and the link to the next one, which counts rows as Exchange's do."""
    top, skip = options.top(MAX_PAGE, DEFAULT_PAGE), _number(options.get("$skip") or "0")
    chunk = rows[skip : skip + top]
    if skip + top >= len(rows):
        return chunk, None
    kept = [f"{name}={quote(value, safe='')}" for name, value in options.values.items() if name != "$skip"]
    return chunk, f"{url}?{'&'.join([*kept, f'$skip={skip + top}'])}"


def unknown_property(name: str) -> GraphError:
    """400, as the parser of addresses says it."""
    message = f"Could not find a property named '{name}' on type 'Microsoft.OutlookServices.Message'."
    return GraphError(400, "RequestBroker--ParseUri", message)


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise bad_request("Invalid value for $skip.")
    return int(text)


def _filters(options: Options) -> list[Comparison]:
    text = options.get("$filter")
    if text is None:
        return []
    found = comparisons(text)
    for one in found:
        if one.name not in (*_TIMES, *_WORDS, *_FLAGS):
            raise unknown_property(one.name)
        if one.name in _TIMES:
            one.moment()
    return found


def _order(options: Options) -> list[tuple[str, bool]]:
    text = options.get("$orderby")
    if text is None:
        return []
    found = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*([\w/]+)(?:\s+(asc|desc))?\s*", part, re.IGNORECASE)
        if match is None or match[1] not in _SORTABLE:
            raise GraphError(400, "ErrorInvalidUrlQuery", "OrderBy not supported.")
        found.append((match[1], (match[2] or "").lower() == "desc"))
    return found


def _check_together(filters: list[Comparison], order: list[str]) -> None:
    """With a filter, what is sorted by must be filtered by, first and in the same order."""
    names = list(dict.fromkeys(one.name for one in filters))
    if filters and order and names[: len(order)] != order:
        message = "The restriction or sort order is too complex for this operation."
        raise GraphError(400, "InefficientFilter", message)


def _value(row: Json, name: str) -> Any:
    value: Any = row
    for step in name.split("/"):
        value = value.get(step) if isinstance(value, dict) else None
    if name in _TIMES:
        return datetime.fromisoformat(value)
    return value if isinstance(value, bool) else str(value or "").lower()


def _holds(row: Json, one: Comparison) -> bool:
    if one.name in _TIMES:
        wanted: Any = one.moment()
    elif one.name in _FLAGS:
        wanted = one.value.lower() == "true"
    else:
        wanted = one.value.strip("'").replace("''", "'").lower()
    return _OPERATIONS[one.operator](_value(row, one.name), wanted)
