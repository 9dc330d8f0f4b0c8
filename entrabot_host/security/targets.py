"""To which hosts a token of which audience may go. Whoever is about to send one asks here first."""

from __future__ import annotations

from entrabot_host.errors import TokenAudienceError
from entrabot_host.security.clouds import CLOUDS, Cloud, is_microsoft_host
from entrabot_host.security.urls import host_of, is_below, origin

STORAGE_AUDIENCE = "https://storage.azure.com"

_GRAPH_APP = "00000003-0000-0000-c000-000000000000"
_STORAGE_APP = "e406a681-f3d4-42a8-90b6-c2b029497af1"
_GRAPH_AUDIENCES = frozenset(cloud.graph_audience for cloud in CLOUDS.values())
_NEVER = frozenset(
    {
        "https://management.azure.com",
        "https://management.core.windows.net",
        "https://management.usgovcloudapi.net",
        "https://management.chinacloudapi.cn",
        "797f4846-ba00-4fd7-ba43-dac1f8f63013",
        "https://vault.azure.net",
        "https://vault.usgovcloudapi.net",
        "https://vault.azure.cn",
        "cfa8b339-82a2-471a-a3c9-0fc0be7a4093",
    }
)


def check_target(cloud: Cloud, audience: str, url: str) -> None:
    """Raise `TokenAudienceError` unless a token of ``audience`` may be sent to ``url``.

    Always https. A Graph token goes to the cloud's Graph URL alone; a storage token to storage accounts of the cloud;
    one of another audience to Work IQ. A stand-in's tokens (the sign-in service is not Microsoft's) open nothing
    real, so those other than Graph's may go to any host that is not Microsoft's.
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


def _allowed(cloud: Cloud, audience: str, target: str, host: str) -> bool:
    if audience in (cloud.graph_audience, _GRAPH_APP):
        return target == cloud.graph_url and (not cloud.is_microsoft or target in _GRAPH_AUDIENCES)
    if audience in _GRAPH_AUDIENCES or audience in _NEVER:
        return False
    if not cloud.is_microsoft:
        return not is_microsoft_host(host)
    default_port = target == f"https://{host}"
    if audience == _STORAGE_APP or _is_storage(cloud, audience):
        return default_port and host != cloud.storage_suffix and is_below(host, cloud.storage_suffix)
    return default_port and host in cloud.work_iq_hosts


def _canonical(audience: str) -> str:
    return audience.strip().lower().removesuffix("/.default").rstrip("/").removeprefix("api://")


def _is_storage(cloud: Cloud, audience: str) -> bool:
    if audience == STORAGE_AUDIENCE:
        return True
    try:
        return is_below(host_of(audience), cloud.storage_suffix)
    except ValueError:
        return False
