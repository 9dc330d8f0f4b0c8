"""The envelope around text from outside, so that a model can tell what it was told from what it read.

Each envelope carries a random id that nobody outside can know beforehand. What looks like the envelope's own marker
inside the text is removed, and characters that could hide one are neutralised.
"""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from entrabot_host.security.text import neutralise

MARKER = "external-content-envelope"

_FORGED = re.compile(r"external[\W_]{0,8}content[\W_]{0,8}envelope", re.IGNORECASE)
_REMOVED = "[removed: forged marker]"
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_.:@-]+")

_Tree = dict[str, "_Tree"]
_WHOLE = ""  # as a key of a tree: everything from here on


def wrap(text: str, source: str, *, enabled: bool = True) -> str:
    """Return ``text`` in an envelope that names ``source``; an empty text stays empty."""
    return _wrapper(source)(text) if enabled else text


def wrap_fields(data: Any, paths: Iterable[str] | None, source: str, *, enabled: bool = True) -> Any:
    """Return a copy of ``data`` in which the strings that ``paths`` name are in envelopes.

    ``"text"``, ``"messages[].content"``, ``"a.b[].c"``; a path to a list or an object wraps every string below it, and
    ``None`` wraps every string there is. Keys stay as they are. A path that matches nothing is no error.
    """
    if not enabled:
        return data
    tree: _Tree = {_WHOLE: {}} if paths is None else _tree(paths)
    return _walk(data, tree, _wrapper(source))


def _wrapper(source: str) -> Callable[[str], str]:
    name = secrets.token_hex(6)
    opening = f'<{MARKER} {name} source="{_NOT_PLAIN.sub("_", source)[:60]}">'
    closing = f"</{MARKER} {name}>"
    return lambda text: f"{opening}\n{_defang(text)}\n{closing}" if text else text


def _defang(text: str) -> str:
    text = neutralise(text)
    compatible = unicodedata.normalize("NFKC", text)
    if _FORGED.search(compatible):
        text = compatible
    return _FORGED.sub(_REMOVED, text)


def _tree(paths: Iterable[str]) -> _Tree:
    root: _Tree = {}
    for path in paths:
        node = root
        for key in filter(None, path.replace("[]", "").split(".")):
            node = node.setdefault(key, {})
        node[_WHOLE] = {}
    return root


def _walk(data: Any, node: _Tree, wrapped: Callable[[str], str]) -> Any:
    """Lists are transparent: a path goes through them whether it says ``[]`` or not."""
    whole = _WHOLE in node
    if isinstance(data, str):
        return wrapped(data) if whole else data
    if isinstance(data, Mapping):
        return {
            key: _walk(value, node if whole else node[key], wrapped) if whole or key in node else value
            for key, value in data.items()
        }
    if isinstance(data, list | tuple):
        return [_walk(value, node, wrapped) for value in data]
    return data
