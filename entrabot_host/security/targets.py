"""To which hosts a token of which audience may go. Whoever is about to send one asks here first."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from entrabot_host.errors import TokenAudienceError
from entrabot_host.security.clouds import CLOUDS, Cloud, is_microsoft_host
from entrabot_host.security.urls import host_of, is_below, origin

STORAGE_AUDIENCE = "https://storage.azure.com"

_GRAPH_APP = "00000003-0000-0000-c000-000000000000"
_STORAGE_APP = "e406a681-f3d4-42a8-90b6-c2b029497af1"
_GRAPH_AUDIENCES = frozenset(cloud.graph_audience for cloud in CLOUDS.values())
_NEVER_APPS = frozenset(
    {
        _GRAPH_APP,
        _STORAGE_APP,
        "797f4846-ba00-4fd7-ba43-dac1f8f63013",  # Azure Resource Manager
        "cfa8b339-82a2-471a-a3c9-0fc0be7a4093",  # Key Vault
        "00000002-0000-0000-c000-000000000000",  # the directory before Graph
        "00000002-0000-0ff1-ce00-000000000000",  # Exchange
        "00000003-0000-0ff1-ce00-000000000000",  # SharePoint
    }
)
_APP_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_APP_URI = re.compile(r"api://[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*")
_PLAIN_PATH = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+")


def check_target(cloud: Cloud, audience: str, url: str) -> None:
    """Raise `TokenAudienceError` unless a token of ``audience`` may be sent to ``url``.

    Always https. A Graph token goes to the cloud's Graph URL alone; a storage token to storage accounts of the cloud;
    one of an app of its own to Work IQ; one of any other service nowhere. A stand-in's tokens (the sign-in service is
    not Microsoft's) open nothing real: its storage tokens may go to any host that is not Microsoft's, and its Work IQ
    is served by itself.
    """
    try:
        target, host = origin(url), host_of(url)
    except ValueError as error:
        raise TokenAudienceError(f"A token was not sent: the target is {error}.") from None
    if not _allowed(cloud, _canonical(audience), target, host):
        raise TokenAudienceError(
            f"A token for {audience} was not sent to {host}: it may not go there in the cloud {cloud.name!r}.",
            remedy="Correct the address, or ENTRABOT_CLOUD, or ENTRABOT_LOGIN_URL together with ENTRABOT_GRAPH_URL.",
        )


def check_work_iq(cloud: Cloud, audience: str, url: str) -> None:
    """Raise `TokenAudienceError` unless both are Work IQ's: an app of its own, at a plain address of its servers.

    For an audience and an address that a file names which anybody may have written. Neither is repeated in the error.
    """
    if not _is_own_app(audience.lower()):
        raise TokenAudienceError("No token was asked for: its audience is not an app of Work IQ.", remedy=_MANIFEST)
    try:
        known = origin(url) in cloud.work_iq_origins
    except ValueError:
        known = False
    if not known or not _is_plain(url):
        raise TokenAudienceError(
            "No token was asked for: the address is not one of Work IQ's servers in this cloud.", remedy=_MANIFEST
        )


_MANIFEST = "Do not use the file that names it. Tell the operator; a repository may bring such a file to steal access."


def _allowed(cloud: Cloud, audience: str, target: str, host: str) -> bool:
    if audience in (cloud.graph_audience, _GRAPH_APP, f"api://{_GRAPH_APP}"):
        return target == cloud.graph_url and (not cloud.is_microsoft or target in _GRAPH_AUDIENCES)
    if audience in (_STORAGE_APP, f"api://{_STORAGE_APP}") or _is_storage(cloud, audience):
        return _is_storage_target(cloud, target, host)
    return _is_own_app(audience) and target in cloud.work_iq_origins


def _is_storage_target(cloud: Cloud, target: str, host: str) -> bool:
    if not cloud.is_microsoft:
        return not is_microsoft_host(host)
    return target == f"https://{host}" and host != cloud.storage_suffix and is_below(host, cloud.storage_suffix)


def _is_own_app(audience: str) -> bool:
    """Whether it names an app, by its id or its ``api://`` name, and none of Microsoft's known services.

    The other ways in which Entra lets a service be named (its address, ``spn:``, a client id with an address) are not
    among them.
    """
    if not _APP_ID.fullmatch(audience) and not _APP_URI.fullmatch(audience):
        return False
    parts = audience.removeprefix("api://").split("/")
    return not any(part in _NEVER_APPS or is_microsoft_host(part) for part in parts)


def _is_plain(url: str) -> bool:
    """Whether its path means the same to everybody, and nothing comes after it."""
    return bool(_PLAIN_PATH.fullmatch(urlsplit(url).path)) and not {"?", "#"} & set(url)


def _canonical(audience: str) -> str:
    return audience.strip().lower().removesuffix("/.default").rstrip("/")


def _is_storage(cloud: Cloud, audience: str) -> bool:
    if audience == STORAGE_AUDIENCE:
        return True
    try:
        return is_below(host_of(audience), cloud.storage_suffix)
    except ValueError:
        return False
