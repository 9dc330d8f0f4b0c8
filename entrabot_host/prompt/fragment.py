"""What one plugin adds to the instructions."""

from __future__ import annotations

from dataclasses import dataclass

SHORT_LIMIT = 200


@dataclass(frozen=True, kw_only=True)
class PromptFragment:
    """``short``: at most 200 characters, shown within the first 2,048. ``full``: Markdown, starting with ``## ``."""

    short: str
    full: str = ""
