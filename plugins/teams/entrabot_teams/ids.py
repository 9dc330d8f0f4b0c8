"""Chat ids: their forms, and where they stand in paths and logs."""

from __future__ import annotations

import re
from urllib.parse import quote

from entrabot_host import InvalidArgument

_CHAT_ID = re.compile(r"19:[A-Za-z0-9_.=+-]{1,300}@[A-Za-z0-9.]{1,60}")
_GUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_MESSAGE_ID = re.compile(r"[0-9]{1,20}")
_ONE_ON_ONE = "@unq.gbl.spaces"
_GROUP = "@thread.v2"

CHAT_ID_REMEDY = (
    "Take the chat_id from a channel message's meta, from create_chat or from another tool's result; "
    "it looks like 19:...@unq.gbl.spaces or 19:...@thread.v2."
)


def is_chat_id(text: str) -> bool:
    """Whether ``text`` has the form of a chat id."""
    return bool(_CHAT_ID.fullmatch(text))


def check_chat_id(chat_id: str) -> None:
    """Raise `InvalidArgument` unless the argument has the form of a chat id. There is no default chat."""
    if not chat_id.strip():
        raise InvalidArgument("chat_id is required: there is no default chat.", remedy=CHAT_ID_REMEDY)
    if not is_chat_id(chat_id):
        raise InvalidArgument("chat_id does not have the form of a Teams chat id.", remedy=CHAT_ID_REMEDY)


def check_message_id(message_id: str, argument: str = "message_id") -> None:
    """Raise `InvalidArgument` unless the argument has the form of a message id: digits."""
    if not _MESSAGE_ID.fullmatch(message_id):
        raise InvalidArgument(
            f"{argument} does not have the form of a Teams message id.",
            remedy="Take it from the result of the tool that sent the message; it consists of digits.",
        )


def is_one_on_one(chat_id: str) -> bool:
    """Whether this is the chat of two people, which takes no third."""
    return chat_id.endswith(_ONE_ON_ONE)


def is_guid(text: str) -> bool:
    """Whether ``text`` is an object or tenant id."""
    return bool(_GUID.fullmatch(text))


def chat_path(chat_id: str, *rest: str) -> str:
    """Return the Graph path of a chat, or of something below it."""
    return "/".join(["/chats", quote(chat_id, safe=""), *rest])


def interaction_channel(chat_id: str) -> str:
    """Return the interaction log's word for the kind of chat."""
    if is_one_on_one(chat_id):
        return "teams_dm"
    return "teams_group" if chat_id.endswith(_GROUP) else "teams_unknown"
