"""Microsoft's clouds, and which sign-in service may go with which Graph."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, Field

from entrabot_host.errors import SettingsError
from entrabot_host.security.urls import host_of, is_below, origin

CloudName = Literal["global", "usgov", "dod", "china"]

LOGIN_URL = "ENTRABOT_LOGIN_URL"
GRAPH_URL = "ENTRABOT_GRAPH_URL"


@dataclass(frozen=True)
class Cloud:
    """Where to sign in and where the services are. URLs have no trailing slash.

    graph_audience, exchange_audience: what tokens are asked for; they stay the named cloud's when the URLs are
    overridden. storage_suffix: the domain below which storage accounts live. login_hosts: all names of the cloud's
    sign-in service. work_iq_hosts: Microsoft's hosts of Work IQ in this cloud.
    """

    name: str
    login_url: str
    graph_url: str
    graph_audience: str
    storage_suffix: str
    exchange_audience: str
    login_hosts: frozenset[str]
    work_iq_hosts: frozenset[str] = frozenset()

    @property
    def is_microsoft(self) -> bool:
        """Whether the sign-in service is Microsoft's own, so that its tokens open real data."""
        return is_microsoft_host(host_of(self.login_url))

    @property
    def work_iq_origins(self) -> frozenset[str]:
        """Where tokens for Work IQ may go: its hosts at Microsoft, or the stand-in's own two origins."""
        if self.is_microsoft:
            return frozenset(f"https://{host}" for host in self.work_iq_hosts)
        own = {self.login_url, self.graph_url}
        return frozenset(url for url in own if not is_microsoft_host(host_of(url)))


def _cloud(name: CloudName, login_hosts: tuple[str, ...], graph: str, storage: str, exchange: str = "") -> Cloud:
    return Cloud(
        name=name,
        login_url=f"https://{login_hosts[0]}",
        graph_url=f"https://{graph}",
        graph_audience=f"https://{graph}",
        storage_suffix=storage,
        exchange_audience=f"api://AzureADTokenExchange{exchange}",
        login_hosts=frozenset(login_hosts),
        work_iq_hosts=frozenset({"agent365.svc.cloud.microsoft"}) if name == "global" else frozenset(),
    )


_GLOBAL_LOGIN = ("login.microsoftonline.com", "login.microsoft.com", "login.windows.net", "sts.windows.net")
_USGOV_LOGIN = ("login.microsoftonline.us",)
_CHINA_LOGIN = ("login.partner.microsoftonline.cn", "login.chinacloudapi.cn")
_USGOV_STORAGE = "blob.core.usgovcloudapi.net"

CLOUDS: dict[str, Cloud] = {
    cloud.name: cloud
    for cloud in (
        _cloud("global", _GLOBAL_LOGIN, "graph.microsoft.com", "blob.core.windows.net"),
        _cloud("usgov", _USGOV_LOGIN, "graph.microsoft.us", _USGOV_STORAGE, "USGov"),
        _cloud("dod", _USGOV_LOGIN, "dod-graph.microsoft.us", _USGOV_STORAGE, "USGov"),
        _cloud("china", _CHINA_LOGIN, "microsoftgraph.chinacloudapi.cn", "blob.core.chinacloudapi.cn", "China"),
    )
}

_MICROSOFT_DOMAINS = (
    "microsoftonline.com",
    "microsoftonline.us",
    "microsoftonline.cn",
    "microsoftonline.de",
    "microsoftonline-p.com",
    "microsoft.com",
    "microsoft.us",
    "cloud.microsoft",
    "azure.com",
    "windows.net",
    "usgovcloudapi.net",
    "chinacloudapi.cn",
    "b2clogin.com",
    "ciamlogin.com",
)


def is_microsoft_host(host: str) -> bool:
    """Whether ``host`` belongs to Microsoft: any name under which its sign-in service or its services are known."""
    return any(is_below(host, domain) for domain in _MICROSOFT_DOMAINS)


class CloudSettings(BaseModel):
    """Which cloud, or which stand-in for one, and which extra certificate authority to trust."""

    cloud: CloudName = Field(
        default="global", alias="ENTRABOT_CLOUD", description="Microsoft's cloud: global, usgov, dod or china"
    )
    login_url: str = Field(
        default="",
        alias="ENTRABOT_LOGIN_URL",
        description=f"Sign-in service as https://host:port, together with {GRAPH_URL}",
    )
    graph_url: str = Field(
        default="",
        alias="ENTRABOT_GRAPH_URL",
        description=f"Microsoft Graph as https://host:port, together with {LOGIN_URL}",
    )
    ca_bundle: str = Field(
        default="",
        alias="ENTRABOT_CA_BUNDLE",
        description="PEM file of certificate authorities trusted besides those of the operating system",
    )


def resolve_cloud(settings: CloudSettings) -> Cloud:
    """Return the chosen cloud, with overridden URLs where both are set. Raises `SettingsError`."""
    cloud = CLOUDS[settings.cloud]
    if not settings.login_url and not settings.graph_url:
        return cloud
    if not (settings.login_url and settings.graph_url):
        missing = GRAPH_URL if settings.login_url else LOGIN_URL
        raise SettingsError(
            f"{LOGIN_URL} and {GRAPH_URL} go together, and {missing} is not set.",
            remedy=f"Set {missing} too, or unset the other one.",
        )
    login = _bare_origin(LOGIN_URL, settings.login_url)
    graph = _bare_origin(GRAPH_URL, settings.graph_url)
    _check_pair(cloud, login, graph)
    return replace(cloud, login_url=login, graph_url=graph)


def _bare_origin(name: str, url: str) -> str:
    try:
        found = origin(url)
        parts = urlsplit(url)
    except ValueError as error:
        raise SettingsError(f"{name} is {error}.", remedy="Write it as https://host or https://host:port.") from None
    if parts.path not in ("", "/") or "?" in url or "#" in url:
        raise SettingsError(f"{name} may not have a path.", remedy="Write it as https://host or https://host:port.")
    return found


def _check_pair(cloud: Cloud, login: str, graph: str) -> None:
    """A token of a real Microsoft authority opens real data, so it may go to that cloud's own Graph alone."""
    login_host = host_of(login)
    if not is_microsoft_host(login_host):
        return
    if login_host not in cloud.login_hosts:
        raise SettingsError(
            f"{LOGIN_URL} names a Microsoft sign-in service that is not the one of the cloud {cloud.name!r}.",
            remedy=f"Set ENTRABOT_CLOUD to the cloud you mean and unset {LOGIN_URL} and {GRAPH_URL}.",
        )
    if graph != cloud.graph_url:
        raise SettingsError(
            f"{LOGIN_URL} is Microsoft's own, but {GRAPH_URL} is not the Graph of the cloud {cloud.name!r}: "
            "its tokens may not go there.",
            remedy=f"Unset {LOGIN_URL} and {GRAPH_URL}, or set both to your stand-in.",
        )
