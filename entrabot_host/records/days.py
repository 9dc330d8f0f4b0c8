"""Files of one day each, and for how long they are kept."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field

READABLE_DAYS = 7
"""How far back `read_interactions` looks."""
_NAME = re.compile(r"(?:.*/)?(\d{4}-\d{2}-\d{2})\.jsonl")


def _at_least_readable(days: int) -> int:
    if 0 < days < READABLE_DAYS:
        raise ValueError(f"must be 0 or at least {READABLE_DAYS}")
    return days


Days = Annotated[int, Field(ge=0, le=36_500), AfterValidator(_at_least_readable)]


class RetentionSettings(BaseModel):
    """For how many days records are kept."""

    audit_days: Days = Field(
        default=0,
        alias="ENTRABOT_AUDIT_RETENTION_DAYS",
        description="Delete files of the audit log after so many days, 7 or more; 0 keeps all",
    )
    interaction_days: Days = Field(
        default=0,
        alias="ENTRABOT_INTERACTIONS_RETENTION_DAYS",
        description="Delete files of the interaction log after so many days, 7 or more; 0 keeps all",
    )


def days_before(keys: Iterable[str], first_kept: date) -> list[str]:
    """Return the keys that are named after a day before ``first_kept``; other names are nobody's to delete."""
    return [key for key in keys if (day := _day(key)) is not None and day < first_kept]


def _day(key: str) -> date | None:
    match = _NAME.fullmatch(key)
    try:
        return date.fromisoformat(match[1]) if match else None
    except ValueError:
        return None
