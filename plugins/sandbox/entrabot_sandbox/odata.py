"""Query options and paging, as far as the Teams routes take them."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote

from entrabot_sandbox.errors import GraphError, bad_request

T = TypeVar("T")

DEFAULT_PAGE = 20
MAX_PAGE = 50


@dataclass(frozen=True)
class Options:
    """The ``$`` options of one request, as written."""

    values: dict[str, str]

    @classmethod
    def read(cls, query: Iterable[tuple[str, str]], allowed: Iterable[str]) -> Options:
        """Take the options of a query string. Raises GraphError (400) for one that the route does not take."""
        values = {name.lower(): value for name, value in query if name.startswith("$")}
        for name in values:
            if name not in allowed and name != "$skiptoken":
                raise bad_request(f"Query option '{name[1:]}' is not allowed.")
        return cls(values)

    def get(self, name: str) -> str | None:
        """An option's text, None when absent."""
        return self.values.get(name)

    def top(self, maximum: int = MAX_PAGE, default: int = DEFAULT_PAGE) -> int:
        """The page size. Raises GraphError (400) when it is no number from 1 to the maximum."""
        text = self.values.get("$top")
        if text is None:
            return default
        if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= maximum:
            raise bad_request(f"Invalid value for $top: it must be a number from 1 to {maximum}.")
        return int(text)

    def expand(self, allowed: Iterable[str]) -> list[str]:
        """The properties to expand. Raises GraphError (400) for others."""
        names = [name.strip() for name in self.values.get("$expand", "").split(",") if name.strip()]
        for name in names:
            if name not in allowed:
                raise bad_request(f"Could not expand '{name}'.")
        return names

    def order(self) -> tuple[str, str] | None:
        """``$orderby`` as (property, direction or ''), None when absent. Raises GraphError (400) for several."""
        text = self.values.get("$orderby")
        if text is None:
            return None
        words = text.split()
        if not 1 <= len(words) <= 2 or "," in text:
            raise bad_request("Invalid $orderby.")
        return words[0], words[1].lower() if len(words) == 2 else ""


@dataclass(frozen=True)
class Comparison:
    """One ``property operator value`` of a ``$filter``."""

    name: str
    operator: str
    value: str

    def moment(self) -> datetime:
        """The value as a time. Raises GraphError (400) when it is none."""
        try:
            moment = datetime.fromisoformat(self.value)
        except ValueError as error:
            raise bad_request(f"Invalid filter clause: '{self.value}' is not a DateTimeOffset.") from error
        if moment.tzinfo is None:
            raise bad_request(f"Invalid filter clause: '{self.value}' has no offset.")
        return moment


_CLAUSE = re.compile(r"^\s*([\w/]+)\s+(eq|ne|gt|ge|lt|le)\s+('(?:[^']|'')*'|\S+)\s*$", re.IGNORECASE)


def comparisons(text: str) -> list[Comparison]:
    """The comparisons of a ``$filter`` joined by ``and``. Raises GraphError (400) for anything else."""
    found = []
    for part in re.split(r"\s+and\s+(?=(?:[^']*'[^']*')*[^']*$)", text.strip()):
        match = _CLAUSE.match(part)
        if match is None:
            raise bad_request("Invalid filter clause.")
        found.append(Comparison(match[1], match[2].lower(), match[3]))
    return found


def page(rows: list[T], options: Options, key: Callable[[T], Any], url: str, *, top: int) -> tuple[list[T], str | None]:
    """One page of rows, sorted descending by key, and the link to the next page if there is one.

    The link remembers the last row's key, so rows that appear meanwhile shift nothing.
    """
    token = options.get("$skiptoken")
    ordered = sorted(rows, key=key, reverse=True)
    if token is not None:
        after = _open(token)
        ordered = [row for row in ordered if _comparable(key(row)) < after]
    chunk = ordered[:top]
    if len(ordered) <= top:
        return chunk, None
    kept = [f"{name}={quote(value, safe='')}" for name, value in options.values.items() if name != "$skiptoken"]
    return chunk, f"{url}?{'&'.join([*kept, '$skiptoken=' + _seal(key(chunk[-1]))])}"


def _comparable(key: Any) -> list[str]:
    return [str(part) for part in key]


def _seal(key: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(_comparable(key)).encode()).decode().rstrip("=")


def _open(token: str) -> list[str]:
    try:
        padded = token + "=" * (-len(token) % 4)
        parts: list[str] = json.loads(base64.urlsafe_b64decode(padded))
    except (binascii.Error, ValueError) as error:
        raise bad_request("Invalid $skiptoken.") from error
    return parts


def collection(context: str, rows: list[Any], next_link: str | None) -> dict[str, Any]:
    """The body of a collection; ``@odata.count`` is the page's own number of items."""
    body: dict[str, Any] = {"@odata.context": context, "@odata.count": len(rows)}
    if next_link:
        body["@odata.nextLink"] = next_link
    return {**body, "value": rows}


def words(text: str) -> list[str]:
    """The names in a text, separated by spaces."""
    return text.split()


def json_body(body: bytes, content_type: str) -> Any:
    """The JSON document of a request. Raises GraphError (400) as Graph does."""
    if not content_type.strip():
        raise bad_request("A missing or empty content type header was found when trying to read a message.")
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise GraphError(415, "UnsupportedMediaType", "Only application/json is read here.")
    try:
        return json.loads(body)
    except ValueError as error:
        raise bad_request("Unable to read JSON request payload.") from error
