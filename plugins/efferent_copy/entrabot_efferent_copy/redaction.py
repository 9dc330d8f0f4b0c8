"""What may leave in a copy: JSON data, without the values of keys whose name says that they are secret.

Nothing here changes what it is given; every function returns a copy. Redaction goes by the names of keys alone: a
secret under an innocent name is not found.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from entrabot_host.security.redaction import redact

REDACTED: Final = "<redacted>"
TOO_DEEP: Final = "<nested too deeply to be copied>"
CYCLE: Final = "<a part of itself>"

DENIED: Final = re.compile(
    r"token|secret|password|passwd|authorization|api[-_. ]?key|bearer|credential|private[-_. ]?key", re.IGNORECASE
)
"""Parts of a key's name that make its value secret, so ``access_token`` and ``client_secret``, too."""

_HINTS: Final = ("token", "secret", "passw", "authorization", "api", "bearer", "credential", "private")
"""Every name that `DENIED` finds contains one of these."""

LONGEST_TEXT: Final = 1_000_000
"""Characters. A longer string (an uploaded file, say) is replaced by a note that tells its length."""
_DEEPEST: Final = 64

Leaf = Callable[[Any], Any]


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with every one of its keys, also the repeated ones that a dict would hide."""


class _Walk:
    """One pass over one value. ``size`` is the number of characters met, a measure of the copy."""

    def __init__(self, leaf: Leaf) -> None:
        self._leaf = leaf
        self._path: set[int] = set()
        self.size = 0

    def copy(self, value: Any, depth: int = 0) -> Any:
        if isinstance(value, str):
            self.size += len(value)
            return self._text(value, depth)
        if value is None or isinstance(value, bool | int | float):
            self.size += 8
            return value
        if not isinstance(value, Mapping | list | tuple):
            found = self._leaf(value)
            return found if found is value else self.copy(found, depth + 1) if depth < _DEEPEST else TOO_DEEP
        if depth >= _DEEPEST:
            return TOO_DEEP
        if id(value) in self._path:
            return CYCLE
        self._path.add(id(value))
        try:
            return self._container(value, depth + 1)
        finally:
            self._path.discard(id(value))

    def _container(self, value: Any, depth: int) -> Any:
        if isinstance(value, Mapping):
            return self._items(value.items(), depth)
        if isinstance(value, _Pairs):
            return self._items(value, depth)
        copies = [self.copy(item, depth) for item in value]
        return tuple(copies) if isinstance(value, tuple) else copies

    def _items(self, items: Any, depth: int) -> dict[str, Any]:
        copied: dict[str, Any] = {}
        for key, value in items:
            name = key if isinstance(key, str) else str(key)
            self.size += len(name)
            copied[name] = REDACTED if DENIED.search(name) else self.copy(value, depth)
        return copied

    def _text(self, text: str, depth: int) -> str:
        """Redact inside a string that is JSON; any other stays as it is."""
        if len(text) > LONGEST_TEXT:
            return f"<{len(text)} characters left out>"
        start = text.lstrip("\ufeff \t\r\n")
        if not start.startswith(("{", "[", '"')) or not _may_hide(start):
            return text
        try:
            # Lenient about control characters, as other parsers are: what anybody can read as JSON is searched.
            parsed = json.loads(start, object_pairs_hook=_Pairs, strict=False)
        except ValueError:
            return text
        except RecursionError:
            return TOO_DEEP
        if depth >= _DEEPEST:
            return TOO_DEEP
        copied = self.copy(parsed, depth + 1)
        return text if _same(copied, parsed) else json.dumps(copied, ensure_ascii=False)


def _may_hide(text: str) -> bool:
    """Whether a denied key can be in there at all: to look for words is quick, to parse a long text is not."""
    if "\\" in text:  # a letter of the name may be written as an escape
        return True
    folded = text.casefold()
    return any(hint in folded for hint in _HINTS)


def _same(copied: Any, parsed: Any) -> bool:
    """Whether nothing was taken out, so that the string can stay exactly as it is."""
    if isinstance(parsed, _Pairs):
        if not isinstance(copied, dict) or len(copied) != len(parsed):
            return False
        return all(_same(copied[key], value) for key, value in parsed)
    if isinstance(parsed, list):
        return isinstance(copied, list) and all(map(_same, copied, parsed))
    return copied is parsed


def _redact_sensitive(value: Any) -> Any:
    """Return a copy with ``"<redacted>"`` for the value of every denied key, at any depth, also in JSON strings."""
    return _Walk(lambda leaf: leaf).copy(value)


def _json_safe(value: Any) -> Any:
    """Return ``value`` if JSON can hold it, else the data of a dataclass or pydantic model, else its ``repr``."""
    if _is_json(value):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    for method in ("model_dump", "dict"):
        dump = getattr(value, method, None)
        if callable(dump) and not isinstance(value, type):
            dumped = dump()
            if _is_json(dumped):
                return dumped
    return repr(value)


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _leaf(value: Any) -> Any:
    """Turn what JSON cannot hold into data that the walk goes on with, or into a scrubbed ``repr``."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    for method in ("model_dump", "dict"):
        dump = getattr(value, method, None)
        if callable(dump) and not isinstance(value, type):
            dumped = dump()
            if isinstance(dumped, Mapping | list):
                return dumped
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes left out>" if len(value) > 256 else redact(repr(bytes(value)))
    return redact(repr(value))


def safe_copy(value: Any) -> tuple[Any, int]:
    """Return a redacted copy that JSON can hold, and its approximate size in characters.

    Raises whatever the methods of a foreign object raise.
    """
    walk = _Walk(_leaf)
    return walk.copy(value), walk.size


def _wrap_result(result: Any) -> dict[str, Any]:
    """Return what observers get for a result: a dict as it is, anything else as ``{"value": ...}``; redacted."""
    copied, _ = safe_copy(result if isinstance(result, dict) else {"value": result})
    return dict(copied)


def failure(error: BaseException) -> dict[str, str]:
    """Return what observers get when a tool raised: its text without tokens, and its type."""
    return {"error": redact(str(error))[:LONGEST_TEXT], "error_type": type(error).__name__}


def _collect_kwargs(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by their names, redacted; a server's own context object is left out."""
    named = {name: value for name, value in _bound(fn, args, kwargs).items() if not _is_context(value)}
    copied, _ = safe_copy(named)
    return dict(copied)


def _bound(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    if not args:
        return dict(kwargs)
    try:
        bound = inspect.signature(fn).bind_partial(*args, **kwargs)
    except (TypeError, ValueError):  # no signature, or a call that is about to fail
        return {**{str(position): value for position, value in enumerate(args)}, **kwargs}
    named = dict(bound.arguments)
    for name, parameter in bound.signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            named.update(named.pop(name, {}))
    return named


def _is_context(value: Any) -> bool:
    kind = type(value)
    return kind.__name__ == "Context" and kind.__module__.partition(".")[0] == "mcp"
