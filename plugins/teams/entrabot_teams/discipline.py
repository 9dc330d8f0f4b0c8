"""Reminds the agent of placeholders: people should not wait in silence for a long answer."""

from __future__ import annotations

import re
from typing import Any

import anyio.to_thread

from entrabot_host import Band, EntrabotError, Host, Tool, ToolCall, Wrapper
from entrabot_teams.domain import Teams
from entrabot_teams.text import html_to_text

MAX_CHARACTERS = 200
MAX_SENTENCES = 2
FRESH_SECONDS = 300.0

WARNING = (
    "A long message without a placeholder before it: when an answer takes work, call post_thinking_placeholder first "
    "and resolve_placeholder with the answer, so that people do not wait in silence."
)
_END_OF_SENTENCE = re.compile(r"[.!?…]+[\"')\]]*(?=\s|$)|[。！？]+")


class PlaceholderMissing(EntrabotError):
    """The operator wants a placeholder before every long message. Nothing was sent."""

    default_remedy = "Call post_thinking_placeholder, then resolve_placeholder with this message."


def is_substantive(text: str) -> bool:
    """Whether a text is more than a short remark: over 200 characters or over two sentences."""
    text = text.strip()
    ends = list(_END_OF_SENTENCE.finditer(text))
    unfinished = bool(ends) and ends[-1].end() < len(text)
    return len(text) > MAX_CHARACTERS or len(ends) + unfinished > MAX_SENTENCES


def wrapper_for(tool: Tool, host: Host) -> Wrapper | None:
    """Return the wrapper of a tool, if it is the one that sends and the operator did not switch the discipline off."""
    if tool.tool_name != "send_teams_message":
        return None
    teams = host.shared(Teams)
    if teams.settings.placeholders == "off" or tool.fn != teams.sending.send_teams_message:
        return None
    return Wrapper(lambda call: _disciplined(call, teams), Band.ENRICH)


def _disciplined(call: ToolCall, teams: Teams) -> ToolCall:
    async def disciplined(**arguments: Any) -> Any:
        missing = await _is_missing(arguments, teams)
        if missing and teams.settings.placeholders == "refuse":
            raise PlaceholderMissing(
                "This is a long message, and the chat got no placeholder in the last five minutes."
            )
        result = await call(**arguments)
        if missing and isinstance(result, dict):
            return {**result, "_warnings": [*result.get("_warnings", ()), WARNING]}
        return result

    return disciplined


async def _is_missing(arguments: dict[str, Any], teams: Teams) -> bool:
    if teams.placeholders.since(arguments["chat_id"]) <= FRESH_SECONDS:
        return False
    text = arguments["message"]
    if arguments.get("content_type") == "html":
        text = await anyio.to_thread.run_sync(html_to_text, text)
    return is_substantive(text)
