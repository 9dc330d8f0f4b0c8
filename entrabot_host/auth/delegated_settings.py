"""Settings of a person's own sign-in, and which of Entra's addresses it goes to."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, Field

from entrabot_host.errors import SettingsError
from entrabot_host.identity.settings import Guid
from entrabot_host.security.clouds import Cloud
from entrabot_host.security.urls import origin

CLIENT_ID = "ENTRABOT_CLIENT_ID"
AUTHORITY = "ENTRABOT_AUTHORITY"
TOKEN_CACHE = "ENTRABOT_TOKEN_CACHE"  # noqa: S105 - the variable's name
HEADLESS = "ENTRABOT_HEADLESS"

CacheChoice = Literal["auto", "keystore", "memory"]

ANY_ORGANISATION = "organizations"
_COMMON = "common"
_PERSONAL = "consumers"


class DelegatedSettings(BaseModel):
    """What a person signs in with, where no agent identity is at hand."""

    client_id: Guid = Field(
        default="",
        alias="ENTRABOT_CLIENT_ID",
        description="App id of a public client in Entra with which a person signs in; the agent then acts in that "
        "person's name",
    )
    authority: str = Field(
        default="",
        alias="ENTRABOT_AUTHORITY",
        description="Sign-in address as https://login.microsoftonline.com/<tenant>; default: the tenant of "
        "ENTRABOT_TENANT_ID, else any organisation",
    )
    token_cache: CacheChoice = Field(
        default="auto",
        alias="ENTRABOT_TOKEN_CACHE",
        description="Where a person's tokens are kept: auto (the operating system's keystore, else a file for the "
        "owner only), keystore (nowhere else) or memory (a new sign-in at every start)",
    )
    headless: bool | None = Field(
        default=None,
        alias="ENTRABOT_HEADLESS",
        description="Whether there is no browser here, so that a code is shown for another device; default: found out",
    )


def sign_in_tenant(settings: DelegatedSettings, cloud: Cloud, tenant_id: str) -> str:
    """Return the part of the authority after the host. Raises `SettingsError`.

    ``common``, the default, stands for the tenant that is configured, else for every organisation: Entra refuses
    device codes under ``common``, and personal accounts have no Teams.
    """
    tenant = _tenant_of(settings.authority, cloud) if settings.authority else _COMMON
    if tenant == _PERSONAL:
        raise SettingsError(
            f"{AUTHORITY} names personal accounts, which have neither Teams nor a tenant.",
            remedy="Name the tenant in it, by its id or its domain.",
        )
    return (tenant_id or ANY_ORGANISATION) if tenant == _COMMON else tenant


def _tenant_of(authority: str, cloud: Cloud) -> str:
    remedy = f"Write it as {cloud.login_url}/<tenant>, or unset it."
    try:
        own = origin(authority) in {cloud.login_url, *_addresses(cloud)}
        parts = urlsplit(authority)
    except ValueError as error:
        raise SettingsError(f"{AUTHORITY} is {error}.", remedy=remedy) from None
    if not own:
        raise SettingsError(f"{AUTHORITY} is not at the sign-in service of the cloud {cloud.name!r}.", remedy=remedy)
    tenant = parts.path.strip("/").lower()
    if not tenant or not all(character.isalnum() or character in ".-" for character in tenant) or parts.query:
        raise SettingsError(f"{AUTHORITY} names no tenant.", remedy=remedy)
    return tenant


def _addresses(cloud: Cloud) -> frozenset[str]:
    return frozenset(f"https://{host}" for host in cloud.login_hosts) if cloud.is_microsoft else frozenset()
