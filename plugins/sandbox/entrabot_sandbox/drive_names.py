"""Which names and paths OneDrive and SharePoint take."""

from __future__ import annotations

from entrabot_sandbox.drive_errors import refused

_CHARACTERS = frozenset('"*:<>?/\\|')
_NAMES = frozenset(
    [".lock", "con", "prn", "aux", "nul", "desktop.ini", "_vti_"]
    + [f"{port}{number}" for port in ("com", "lpt") for number in range(10)]
)
MAX_NAME = 255
MAX_PATH = 400


def check_name(name: str, *, in_root: bool) -> None:
    """Raise GraphError (400) for a name that is not taken. in_root: it is to lie at the root of a library."""
    bad = (
        not name
        or name in (".", "..")
        or name != name.strip(" ")
        or name.endswith(".")
        or any(char in _CHARACTERS or ord(char) < 32 or ord(char) == 127 for char in name)
        or name.lower() in _NAMES
        or name.startswith("~$")
        or "_vti_" in name.lower()
        or (in_root and name.lower() == "forms")
    )
    if bad:
        raise refused(400, "invalidRequest", "The provided name cannot contain reserved characters.", "invalidPath")
    if len(name) > MAX_NAME:
        raise refused(400, "invalidRequest", "The provided name is too long.", "pathIsTooLong")


def check_path(path: str) -> None:
    """Raise GraphError (400) for a path below a root with a name that is not taken, or that is too long."""
    steps = [step for step in path.split("/") if step]
    for number, step in enumerate(steps):
        check_name(step, in_root=number == 0)
    if len(path.strip("/")) > MAX_PATH:
        raise refused(400, "invalidRequest", "The path is too long.", "pathIsTooLong")
