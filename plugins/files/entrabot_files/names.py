"""Which names and paths OneDrive and SharePoint take, checked before anything is sent."""

from __future__ import annotations

import re
from urllib.parse import quote

from entrabot_host import InvalidArgument

MAX_NAME = 255
MAX_PATH = 400

_FORBIDDEN = re.compile(r'["*:<>?/\\|]')
_UNSAFE = re.compile("[\x00-\x1f\x7f\x80-\x9f\u2028\u2029\ud800-\udfff]")
_RESERVED = re.compile(r"(\.lock|con|prn|aux|nul|com[0-9]|lpt[0-9]|desktop\.ini)", re.IGNORECASE)


def check_name(parameter: str, name: str) -> None:
    """Raise `InvalidArgument` unless ``name`` may be a file's or a folder's name."""
    if problem := _problem(name):
        raise InvalidArgument(
            f"{parameter}: {problem}.",
            remedy="Choose another name; OneDrive and SharePoint refuse this one.",
            details={"parameter": parameter},
        )


def _problem(name: str) -> str:
    if not name:
        return "a name is empty"
    if len(name) > MAX_NAME:
        return f"a name is longer than {MAX_NAME} characters"
    if _FORBIDDEN.search(name):
        return 'a name holds one of the characters " * : < > ? / \\ |'
    if _UNSAFE.search(name):
        return "a name holds a control character"
    if name != name.strip() or name.endswith("."):
        return "a name begins or ends with a blank, or ends with a full stop"
    if _RESERVED.fullmatch(name) or name.startswith("~$") or "_vti_" in name.lower():
        return "a name is reserved"
    return ""


def folders(folder_path: str) -> list[str]:
    """Return the names of a folder path, ``/`` for none. Raises `InvalidArgument`."""
    names = folder_path.strip("/").split("/") if folder_path.strip("/") else []
    for name in names:
        check_name("folder_path", name)
    if names and names[0].lower() == "forms":
        raise InvalidArgument("folder_path: a folder at the top may not be called forms.", remedy="Choose another one.")
    return names


def item_path(names: list[str]) -> str:
    """Return the part of a Graph path that stands for these names below a root, percent-encoded.

    Raises `InvalidArgument` when the whole is longer than Microsoft allows.
    """
    if len("/".join(names)) > MAX_PATH:
        raise InvalidArgument(
            f"folder_path and file_name together are longer than {MAX_PATH} characters.", remedy="Use shorter ones."
        )
    return "/".join(quote(name, safe="") for name in names)
