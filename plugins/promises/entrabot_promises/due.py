"""Due times: a day, or a moment."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta

from entrabot_host import InvalidArgument

_FORM = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|z|[+-]\d\d:?\d\d)?)?", re.ASCII)
_DAY_LENGTH = 10
_REMEDY = (
    "Write a day (2026-12-24) or a moment with its offset (2026-12-24T17:00:00Z, 2026-12-24T17:00:00+01:00; without an "
    "offset it is UTC), or leave it empty."
)
_SLACK = timedelta(minutes=5)


def check_due(text: str, now: datetime) -> str:
    """Return the stored form: a day as it is, a moment in UTC, nothing for nothing.

    Raises `InvalidArgument` for anything else, and for what lies in the past. A day is taken as long as it lasts
    anywhere on Earth.
    """
    text = text.strip()
    if not text:
        return ""
    moment = _parse(text)
    if moment is None:
        raise InvalidArgument("due_by is neither a day nor a moment in ISO 8601.", remedy=_REMEDY)
    is_day = len(text) == _DAY_LENGTH
    if moment < now - (timedelta(hours=12) if is_day else _SLACK):
        raise InvalidArgument(f"due_by lies in the past: it is {iso(now)} now.", remedy=_REMEDY)
    return text if is_day else iso(moment)


def deadline(due_by: str) -> datetime | None:
    """Return the moment after which a stored due time is missed: a day lasts to its end in UTC. None without one."""
    return _parse(due_by.strip()) if due_by else None


def iso(moment: datetime) -> str:
    """Write a moment in UTC, to the second."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def _parse(text: str) -> datetime | None:
    if not _FORM.fullmatch(text):
        return None
    try:
        if len(text) == _DAY_LENGTH:
            return datetime.combine(date.fromisoformat(text), time.max, UTC)
        moment = datetime.fromisoformat(text.upper())
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
