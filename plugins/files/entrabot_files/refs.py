"""Addresses of files, and what the tools tell about a file."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from entrabot_files.errors import UrlNotResolvableError

MAX_URL = 4096

_KINDS = {"personal": "onedrive_personal", "business": "onedrive_business", "documentLibrary": "sharepoint"}
_UNSAFE = re.compile(r"[\x00-\x20\x7f\\<>\ud800-\udfff]")
_SHOWN_URL = re.compile(r"https://[\x21-\x7e]{1,4000}")
_SHOWN_TYPE = re.compile(r"[A-Za-z0-9.+/-]{1,200}")


def share_id(url: str) -> str:
    """Return Graph's id for what an address leads to. Raises `UrlNotResolvableError` for a malformed one."""
    url = url.strip()
    try:
        parts = urlsplit(url)
        host, user = parts.hostname or "", parts.username
        _ = parts.port
    except ValueError:
        host, user, parts = "", None, None
    if (
        parts is None
        or parts.scheme.lower() != "https"
        or not host
        or user is not None
        or len(url) > MAX_URL
        or _UNSAFE.search(url)
    ):
        raise UrlNotResolvableError("The address is not a plain https address.")
    return "u!" + base64.urlsafe_b64encode(url.encode("utf-8")).decode("ascii").rstrip("=")


def kind_of(item: Mapping[str, Any]) -> str:
    """Return sharepoint, onedrive_business or onedrive_personal: by the drive's type, else by the address."""
    known = _KINDS.get(str((item.get("parentReference") or {}).get("driveType")))
    return known or _kind_by_address(str(item.get("webUrl") or ""))


def _kind_by_address(url: str) -> str:
    parts = urlsplit(url)
    host = parts.netloc.lower()
    if host.partition(".")[0].endswith("-my") and parts.path.startswith("/personal/"):
        return "onedrive_business"
    personal = host.endswith(("onedrive.live.com", "1drv.ms"))
    return "onedrive_personal" if personal else "sharepoint"


def file_ref(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the tools pass on about a file or folder. Raises `UrlNotResolvableError` without its ids."""
    parent = item.get("parentReference") or {}
    drive_id, item_id = parent.get("driveId"), item.get("id")
    if not isinstance(drive_id, str) or not isinstance(item_id, str) or not drive_id or not item_id:
        raise UrlNotResolvableError("Microsoft Graph's answer does not say where the file lies.")
    return {
        "drive_id": drive_id,
        "item_id": item_id,
        "name": str(item.get("name") or ""),
        "kind": kind_of(item),
        "site_id": str(parent.get("siteId") or ""),
        "mime_type": mime_type(item),
        "size_bytes": size_of(item),
        "is_folder": is_folder(item),
        "web_url": web_url(item),
    }


def size_of(item: Mapping[str, Any]) -> int:
    """Return a file's bytes; 0 when they are not known."""
    size = item.get("size")
    return size if isinstance(size, int) and size > 0 else 0


def is_folder(item: Mapping[str, Any]) -> bool:
    """Whether it is a folder, or a notebook, which has no content of its own either."""
    return "file" not in item and ("folder" in item or "package" in item)


def mime_type(item: Mapping[str, Any]) -> str:
    """Return the media type that Graph tells; empty for what is no file."""
    found = (item.get("file") or {}).get("mimeType")
    return found if isinstance(found, str) and _SHOWN_TYPE.fullmatch(found) else ""


def web_url(item: Mapping[str, Any]) -> str:
    """Return the address in a browser; empty when it is not a plain one, since it is shown as it is."""
    url = item.get("webUrl")
    return url if isinstance(url, str) and _SHOWN_URL.fullmatch(url) else ""


def extension(name: str) -> str:
    """Return the ending of a name in lower case with its dot; empty without one."""
    stem, dot, ending = name.rpartition(".")
    return f".{ending.lower()}" if dot and stem else ""
