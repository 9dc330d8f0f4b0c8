"""Reading what servers return: JSON whose keys are spelled in several ways, or text; an error, or not."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pydantic_core

from entrabot_a365.errors import A365CallError, A365ConsentMissingError, A365Error, A365ResultTooLargeError
from entrabot_a365.failures import one_line
from entrabot_a365.session import Answer

_DEPTH = 4
_ID = re.compile(r"[A-Za-z0-9._:@!{}+/=,-]{1,512}")
_URL = re.compile(r"https://[\x21-\x7e]{1,4000}")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ][0-9:.+Z-]{4,30}")
_CORRELATION = re.compile(r"CorrelationId:\s*([0-9A-Fa-f-]{8,64})")
_COMMENT = re.compile(r"WordCommentInfo\s*\[\s*CommentId\s*=\s*([^,\]\s]{1,512})\s*,\s*Content=(.*)\]", re.DOTALL)
_SUCCESS = re.compile(r"\b(successfully|success)\b", re.IGNORECASE)
_FAILURE = re.compile(
    r"\A[a-z]+[A-Z]\w+: |"  # Graph's code, as in "itemNotFound: The resource could not be found."
    r"(?i:not found|not exist|no longer exists|denied|forbidden|unauthori[sz]ed|too large|more than|exceed|invalid|"
    r"\bfail|\berror|AADSTS\d|unable to|can(no|')t|could(n't| not)|not supported|\bis (not|a folder)\b|\blocked\b|"
    r"consent)"
)
_LONGEST_FAILURE = 400
_CODE = re.compile(r"[a-z]+[A-Z][A-Za-z]{1,60}(?=[: ]|\Z)")
_KINDS = (
    (re.compile(r"AADSTS9010010"), "Work IQ was not ready.", "Try again in half a minute."),
    (
        re.compile(r"too large|exceed|\b5 ?MB\b|size limit", re.IGNORECASE),
        "The file is larger than the 5 MB that Work IQ reads.",
        "read_file and download_file read larger files, where this server has them; or ask for a smaller one.",
    ),
    (
        re.compile(r"access ?denied|forbidden|unauthori[sz]ed|\b403\b", re.IGNORECASE),
        "You may not do this with the file.",
        "Ask its owner to share it with your account, for editing if you want to comment.",
    ),
    (
        re.compile(r"\blocked\b", re.IGNORECASE),
        "The file is locked: somebody has it open or checked out.",
        "Try again later, or ask them.",
    ),
    (
        re.compile(r"not found|not exist|no longer exists|\b404\b|itemNotFound", re.IGNORECASE),
        "There is no such file, document or comment, or you may not see it.",
        "Check the address and the ids; ask the owner to share it with your account.",
    ),
)
_CONSENT = re.compile(r"\bconsent|\blicen[cs]e|AADSTS65001", re.IGNORECASE)


def parsed(answer: Answer) -> Any:
    """Return the JSON of an answer: of its first text, else its structured content; None when there is none.

    Raises `A365Error` when the tool says that it failed, in whatever way.
    """
    text = answer.texts[0] if answer.texts else ""
    if answer.is_error:
        raise failed(answer, text)
    data = _json(text)
    if not isinstance(data, dict | list):
        data = answer.structured if isinstance(answer.structured, dict | list) else None
    if isinstance(data, dict) and (said := _error_in(data)):
        raise failed(answer, said)
    return data


def failed(answer: Answer, said: str) -> A365Error:
    """Return the error for what a tool said of its failure.

    An answer that is not marked as an error may be a file's own text. Errors stand in no envelope, so no words of it
    are repeated.
    """
    correlation = _CORRELATION.search("\n".join(answer.texts[:4])[:2000])
    marked = correlation.group(1) if correlation else ""
    message = f"The Work IQ server reported a failure: {_reason(answer, said)}"
    if _CONSENT.search(said[:2000]):
        return A365ConsentMissingError(message, details={"correlation_id": marked} if marked else None)
    for pattern, known, remedy in _KINDS:
        if pattern.search(said[:2000]):
            return A365CallError(known, correlation_id=marked, remedy=remedy)
    return A365CallError(message, correlation_id=marked, remedy="Check the address and the ids, then try once more.")


def _reason(answer: Answer, said: str) -> str:
    if answer.is_error:
        return one_line(said) or "it gave no reason"
    code = _CODE.match(said)
    return code.group() if code else "a remark came in place of what was asked for"


def sounds_failed(text: str) -> bool:
    """Whether a text that came in place of a result is a failure, by its words."""
    return is_remark(text) and bool(_FAILURE.search(text.strip()))


def is_remark(text: str) -> bool:
    """Whether it is a short line, as no document is."""
    return len(text.strip()) <= _LONGEST_FAILURE and "\n" not in text.strip()


def find(data: Any, *names: str) -> Any:
    """Return the first value under one of these keys, the outermost first; case does not count. None if missing."""
    wanted = {name.lower() for name in names}
    for level in _levels(data):
        for mapping in level:
            for key, value in mapping.items():
                if isinstance(key, str) and key.lower() in wanted and value is not None:
                    return value
    return None


def _levels(data: Any) -> Iterator[list[Mapping[Any, Any]]]:
    level = [data] if isinstance(data, Mapping) else []
    for _ in range(_DEPTH):
        if not level:
            return
        yield level
        level = [value for mapping in level for value in mapping.values() if isinstance(value, Mapping)]


def identifier(value: Any) -> str:
    """Return an id; empty when it is none, since ids are shown as they are."""
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    return text if _ID.fullmatch(text) else ""


def address(value: Any) -> str:
    """Return an address; empty when it is not a plain one."""
    return value if isinstance(value, str) and _URL.fullmatch(value) else ""


def moment(value: Any) -> str:
    """Return a time as the server wrote it; empty when it is none."""
    return value if isinstance(value, str) and _TIME.fullmatch(value) else ""


def string(value: Any) -> str:
    """Return a text, empty when it is none."""
    return value if isinstance(value, str) else ""


def comment_id(answer: Answer) -> tuple[str, bool]:
    """Return the id of a comment that was made, and whether the server confirmed that it was. Raises `A365Error`."""
    data = parsed(answer)
    if found := identifier(find(data, "commentId", "id")):
        return found, True
    text = "\n".join(answer.texts)
    if match := _COMMENT.search(text):
        return identifier(match.group(1)), True
    first = answer.texts[0] if answer.texts else ""
    if not _SUCCESS.search(first[:_LONGEST_FAILURE]) and sounds_failed(first):
        raise failed(answer, first)
    return "", bool(_SUCCESS.search(first[:_LONGEST_FAILURE]))


def is_base64(text: str) -> bool:
    """Whether it is base64 as it stands."""
    try:
        base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return False
    return True


def check_size(characters: int, limit: int) -> None:
    """Raise `A365ResultTooLargeError` for what is longer than the limit."""
    if characters > limit:
        raise A365ResultTooLargeError(
            f"It is {characters:,} characters long, more than the {limit:,} that are returned.",
            remedy="read_file shows the beginning of a long text and download_file stores a file, where this server "
            "has them; the operator can raise ENTRABOT_A365_MAX_RESULT_CHARACTERS. Work IQ itself reads at most 5 MB.",
        )


def _json(text: str) -> Any:
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return pydantic_core.from_json(text)
    except ValueError:
        return None


def _error_in(data: Mapping[str, Any]) -> str:
    """Return what an error document says: Graph's, which is nothing but its error; empty for anything else."""
    lower = {key.lower(): value for key, value in data.items() if isinstance(key, str)}
    error = lower.get("error")
    if isinstance(error, Mapping):
        code, message = find(error, "code"), find(error, "message")
        return " ".join(str(part) for part in (code, message) if isinstance(part, str | int)) or "no reason given"
    known = {"content", "contentinhtml", "driveitem", "id", "documentid", "commentid"}
    return error if isinstance(error, str) and error and not known & set(lower) else ""
