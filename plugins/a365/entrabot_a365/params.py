"""Parameters that several tools share, and their checks. Descriptions are short: they stand in every tool."""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import quote, urlsplit

from pydantic import Field

from entrabot_host import InvalidArgument

MAX_URL = 4096
MAX_COMMENT = 32_000

Url = Annotated[str, Field(description="https address or sharing link")]
DriveId = Annotated[str, Field(description="From read_word_document")]
DocumentId = Annotated[str, Field(description="From read_word_document")]
CommentText = Annotated[str, Field(description="Plain text")]
LibraryId = Annotated[str, Field(description="document_library_id, or me: your OneDrive")]
FileId = Annotated[str, Field(description="item_id")]

_ID = re.compile(r"[\x21-\x7e]{1,512}")
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\\<>\ud800-\udfff\u2028\u2029]")
_HOST = re.compile(r"([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9-]{2,63}", re.IGNORECASE)
_NAME = re.compile(r'[^\x00-\x1f\x7f"*:<>?/\\|\ud800-\udfff]{1,255}')


def checked_url(url: str) -> str:
    """Return an address as servers take it. Raises `InvalidArgument` for anything but a plain https address."""
    url = url.strip()
    try:
        parts = urlsplit(url)
        host, port, user = parts.hostname or "", parts.port, parts.username
    except ValueError:
        raise _bad_url() from None
    plain = parts.scheme.lower() == "https" and user is None and "@" not in parts.netloc
    # An address of another port is nobody's sharing link, and a host's foreign letters may be somebody else's.
    if not plain or port not in (None, 443) or not _HOST.fullmatch(host) or len(url) > MAX_URL or _UNSAFE.search(url):
        raise _bad_url()
    return quote(url, safe="%/:?#[]@!$&'()*+,;=~-._")


def _bad_url() -> InvalidArgument:
    return InvalidArgument(
        "url is not a plain https address.",
        remedy="Pass the whole address of the file or sharing link, as the browser or the chat shows it.",
        details={"parameter": "url"},
    )


def checked_ids(**ids: str) -> None:
    """Raise `InvalidArgument` for an id that cannot be one."""
    for name, value in ids.items():
        if not _ID.fullmatch(value):
            raise InvalidArgument(
                f"{name} is not an id.", remedy="Take ids from what the tools returned.", details={"parameter": name}
            )


def checked_comment(content: str) -> None:
    """Raise `InvalidArgument` for a comment that is empty or too long."""
    if not content.strip() or len(content) > MAX_COMMENT:
        raise InvalidArgument(
            f"content must be a text of at most {MAX_COMMENT:,} characters.",
            remedy="Write a comment, or a shorter one.",
            details={"parameter": "content"},
        )


def checked_name(name: str) -> str:
    """Return a new document's name, which may be empty. Raises `InvalidArgument` for one that Microsoft refuses."""
    name = name.strip()
    if name and (not _NAME.fullmatch(name) or name.startswith("~$") or name.strip(".") == ""):
        raise InvalidArgument(
            'file_name may not contain " * : < > ? / \\ | and be at most 255 characters long.',
            remedy="Choose a plain name that ends in .docx.",
            details={"parameter": "file_name"},
        )
    return name
