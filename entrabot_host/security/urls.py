"""Reading URLs strictly: one that means different things to different parsers is refused, not guessed at."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST = re.compile(rf"{_LABEL}(\.{_LABEL})*|[0-9a-f:.]+:[0-9a-f:.]*")
"""A name that no client decodes or rewrites, or an IPv6 address."""
_PLAIN_HTTPS = re.compile(r"https://[^/?#\\@\s\x00-\x20\x7f]+(?:[/?#][^\\\s\x00-\x20\x7f]*)?", re.IGNORECASE)


def origin(url: str) -> str:
    """Return ``https://host[:port]`` in lower case, the default port left out.

    Raises `ValueError`, whose text never holds the URL, unless it is an https URL without user name or password.
    """
    if not url.isascii() or not _PLAIN_HTTPS.fullmatch(url):
        raise ValueError("not a plain https URL")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("not a URL with a valid host and port") from None
    if not _HOST.fullmatch(host):
        raise ValueError("the host name is malformed")
    shown = f"[{host}]" if ":" in host else host
    return f"https://{shown}" if port in (None, 443) else f"https://{shown}:{port}"


def host_of(url: str) -> str:
    """Return the host of an https URL in lower case, without its port. Raises `ValueError` as `origin` does."""
    return urlsplit(origin(url)).hostname or ""


def is_below(host: str, domain: str) -> bool:
    """Whether ``host`` is ``domain`` or lies below it."""
    return host == domain or host.endswith(f".{domain}")
