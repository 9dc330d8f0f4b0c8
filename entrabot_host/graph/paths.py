"""What may be asked of Graph: paths below its version root, or next links that stay on its host."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote, unquote

from entrabot_host.errors import GraphError
from entrabot_host.security.clouds import Cloud
from entrabot_host.security.targets import check_target

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_OURS = frozenset({"authorization", "host", "transfer-encoding", "cookie"})


def resolve(cloud: Cloud, path: str, *, params: Mapping[str, str] | None = None, beta: bool = False) -> str:
    """Return the absolute URL of ``path``, which is relative to the version root or an absolute next link.

    Raises `GraphError` when it is malformed, `TokenAudienceError` when it would leave Graph's host.
    """
    if path.startswith("/"):
        url = f"{cloud.graph_url}/{'beta' if beta else 'v1.0'}{checked(path)}"
    else:
        check_target(cloud, cloud.graph_audience, path)
        url = path
    return with_params(url, params)


def checked(path: str) -> str:
    """Return ``path`` if it is relative to the version root and cannot climb out of it; else raise `GraphError`."""
    steps = unquote(path.partition("?")[0]).split("/")
    bad = not path.startswith("/") or path.startswith("//") or "\\" in path or "#" in path or _CONTROL.search(path)
    if bad or ".." in steps or "." in steps:
        raise GraphError(
            "A request was not sent: its path is malformed.",
            remedy='Start the path with one "/" and percent-encode each id with urllib.parse.quote(id, safe="").',
        )
    return path


def with_params(url: str, params: Mapping[str, str] | None) -> str:
    """Append a query; blanks are written ``%20``, never ``+``, which OData does not read as a blank."""
    if not params:
        return url
    query = "&".join(f"{quote(name, safe='$@.')}={quote(value, safe='$@/:,()')}" for name, value in params.items())
    return f"{url}{'&' if '?' in url else '?'}{query}"


def checked_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return a copy. Raises `GraphError` for a header that is the client's own business, or that holds a line break."""
    found = dict(headers or {})
    for name, value in found.items():
        if name.lower() in _OURS or _CONTROL.search(name + value) or not (name + value).isascii():
            raise GraphError("A request was not sent: one of its headers is not allowed or malformed.")
    return found


def relative(cloud: Cloud, path: str) -> str:
    """Return ``path`` relative to the version root, as a part of a batch must name it. Raises as `resolve` does."""
    if not path.startswith("/"):
        check_target(cloud, cloud.graph_audience, path)
        path = path.removeprefix(f"{cloud.graph_url}/v1.0")
    return checked(path)
