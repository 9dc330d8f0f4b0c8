"""Which keys a store takes, the same for every backend."""

from __future__ import annotations

import hashlib
from urllib.parse import quote

from entrabot_host.errors import StorageError

MAX_PART_BYTES = 200
MAX_KEY_BYTES = 900
_DIGEST_CHARACTERS = 32


def check_key(key: str) -> str:
    """Return ``key`` when it is a plain relative path that every backend can hold. Raises `StorageError`.

    Parts are divided by ``/``. A part may not be empty, begin with a dot (the store's own files do), end with a dot or
    a space, or hold control characters, ``\\``, ``:`` or lone surrogates.
    """
    problem = _problem(key)
    if problem:
        raise StorageError(
            f"The storage key {_shown(key)} {problem}.", remedy="Use a relative path such as 'notes/today.json'."
        )
    return key


def check_prefix(prefix: str) -> str:
    """Return ``prefix`` when the folder it names can be. Raises `StorageError`."""
    if folder := prefix.rpartition("/")[0]:
        check_key(folder)
    return prefix


def is_key(text: str) -> bool:
    """Whether `check_key` takes it."""
    return not _problem(text)


def check_line(key: str, line: bytes) -> bytes:
    """Return ``line`` when it is one. Raises `StorageError`."""
    if b"\n" in line or b"\r" in line:
        raise StorageError(f"A line for {key!r} holds a line break.", remedy="Append one line at a time.")
    return bytes(line)


def quoted(name: str) -> str:
    """Return any text as one key part: percent-quoted, and ending in a digest when it would be too long."""
    text = quote(name, safe="", errors="surrogatepass")
    if text.startswith("."):
        text = "%2E" + text[1:]
    if text.endswith("."):
        text = text[:-1] + "%2E"
    if len(text) <= MAX_PART_BYTES - len(".jsonl"):
        return text
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARACTERS]
    return f"{text[:100]}~{digest}"


def _problem(key: str) -> str:
    try:
        size = len(key.encode("utf-8"))
    except UnicodeEncodeError:
        return "is not valid Unicode"
    if size > MAX_KEY_BYTES:
        return f"is longer than {MAX_KEY_BYTES} bytes"
    if any(character in "\\:" or not character.isprintable() for character in key):
        return "holds a control character, a backslash or a colon"
    return next((problem for problem in map(_part_problem, key.split("/")) if problem), "")


def _part_problem(part: str) -> str:
    if not part:
        return "has an empty part"
    if part.startswith("."):
        return "has a part that begins with a dot"
    if part[-1] in ". ":
        return "has a part that ends with a dot or a space"
    if len(part.encode("utf-8")) > MAX_PART_BYTES:
        return f"has a part longer than {MAX_PART_BYTES} bytes"
    return ""


def _shown(key: str) -> str:
    return ascii(key if len(key) <= 80 else key[:80] + "...")
