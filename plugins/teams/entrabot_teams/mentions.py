"""Checking mentions against the tags in the text, both ways, before Graph sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from entrabot_host import InvalidArgument
from entrabot_teams.ids import is_guid

_REQUIRED = frozenset({"id", "name", "user_id"})
_OPTIONAL = frozenset({"tenant_id"})
_REMEDY = (
    'Give every mention {"id": 0, "name": "...", "user_id": "<object id>"} and mark its place in the text with '
    '<at id="0">Name</at>; list_chat_members tells user_id.'
)


def graph_mentions(mentions: Sequence[dict[str, Any]], tags: Sequence[str]) -> list[dict[str, Any]]:
    """Return Graph's form of the mentions.

    tags: the ids of the ``<at>`` tags in the text. Raises `InvalidArgument` unless every mention has exactly one tag
    and every tag its mention.
    """
    found = [_checked(position, mention) for position, mention in enumerate(mentions)]
    ids = [mention["id"] for mention in found]
    numbers = [_number(tag) for tag in tags]
    if len(set(ids)) < len(ids):
        raise _wrong("two mentions have the same id")
    if len(set(numbers)) < len(numbers):
        raise _wrong("two <at> tags have the same id; give each its own mention")
    if missing := sorted(set(ids) - set(numbers)):
        raise _wrong(f'the text has no <at id="{missing[0]}"> tag for mention {missing[0]}')
    if missing := sorted(set(numbers) - set(ids)):
        raise _wrong(f'the tag <at id="{missing[0]}"> has no mention')
    return found


def _checked(position: int, mention: dict[str, Any]) -> dict[str, Any]:
    where = f"mention number {position + 1}"
    if not _REQUIRED <= mention.keys() <= _REQUIRED | _OPTIONAL:
        raise _wrong(f"{where} must have id, name and user_id, and may have tenant_id, nothing else")
    number, name, user_id, tenant_id = (mention.get(key, "") for key in ("id", "name", "user_id", "tenant_id"))
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise _wrong(f"the id of {where} must be an integer from 0")
    if not isinstance(name, str) or not name.strip():
        raise _wrong(f"the name of {where} must be a text that is not empty")
    if not isinstance(user_id, str) or not is_guid(user_id):
        raise _wrong(f"the user_id of {where} must be an Entra object id")
    if not isinstance(tenant_id, str) or (tenant_id and not is_guid(tenant_id)):
        raise _wrong(f"the tenant_id of {where} must be an Entra tenant id")
    user = {"id": user_id, "displayName": name, "userIdentityType": "aadUser"}
    if tenant_id:
        user["tenantId"] = tenant_id
    return {"id": number, "mentionText": name, "mentioned": {"user": user}}


def _number(tag: str) -> int:
    if not (tag.isascii() and tag.isdigit() and len(tag) < 10):
        raise _wrong('an <at> tag needs an id that is an integer, like <at id="0">Name</at>')
    return int(tag)


def _wrong(problem: str) -> InvalidArgument:
    return InvalidArgument(f"mentions: {problem}.", remedy=_REMEDY)
