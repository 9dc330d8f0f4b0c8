"""Settings of the agent's identity, its sponsors and how sponsors authorize. Aliases are the variables' names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal
from uuid import UUID

from pydantic import AfterValidator, AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

from entrabot_host.config import comma_list

CERT_FILE = "ENTRABOT_BLUEPRINT_CERT_FILE"
CERT_PASSWORD = "ENTRABOT_BLUEPRINT_CERT_PASSWORD"  # noqa: S105 - the variable's name
CERT_THUMBPRINT = "ENTRABOT_BLUEPRINT_CERT_THUMBPRINT"


def parse_guid(value: str) -> str:
    """Return a GUID in its lower-case form with hyphens, an empty text as it is. Raises ValueError."""
    if not value:
        return ""
    try:
        guid = str(UUID(value))
    except ValueError:
        guid = ""
    if guid != value.lower():
        raise ValueError("it must be a GUID like 00000000-0000-0000-0000-000000000000")
    return guid


def _aligned_list(text: object) -> object:
    """Split at commas and keep empty entries, since entries belong to those of another list by their position."""
    return tuple(part.strip() for part in text.split(",")) if isinstance(text, str) and text else text


class SponsorHome(BaseModel):
    """The home identity of the sponsor whom ``address`` names."""

    model_config = ConfigDict(frozen=True)

    address: str
    user_id: str
    tenant_id: str


def _home_ids(text: object) -> object:
    return tuple(_home_id(part) for part in comma_list(text)) if isinstance(text, str) else text  # type: ignore[attr-defined]


def _home_id(entry: str) -> SponsorHome:
    address, _, identity = entry.rpartition("=")
    user_id, _, tenant_id = identity.partition("@")
    if "@" not in address or not user_id or not tenant_id:
        raise ValueError("each entry must read address=object-id@tenant-id")
    return SponsorHome(address=address.strip(), user_id=parse_guid(user_id), tenant_id=parse_guid(tenant_id))


def _mode(value: object) -> object:
    if not isinstance(value, str):
        return value
    if value.lower() == "bot":
        raise ValueError("the mode 'bot' is not supported; use auto, agent_user or delegated")
    return value.lower()


Guid = Annotated[str, AfterValidator(parse_guid)]
Words = Annotated[tuple[str, ...], BeforeValidator(comma_list)]
Guids = Annotated[tuple[Guid, ...], BeforeValidator(comma_list)]
AlignedWords = Annotated[tuple[str, ...], BeforeValidator(_aligned_list)]
AlignedGuids = Annotated[tuple[Guid, ...], BeforeValidator(_aligned_list)]


class AgentUserSettings(BaseModel):
    """What the agent user signs in with."""

    tenant_id: Guid = Field(default="", alias="ENTRABOT_TENANT_ID", description="The agent's tenant, as a GUID")
    blueprint_app_id: Guid = Field(
        default="", alias="ENTRABOT_BLUEPRINT_APP_ID", description="App id of the agent identity's blueprint"
    )
    agent_id: Guid = Field(default="", alias="ENTRABOT_AGENT_ID", description="App id of the agent identity")
    agent_user_id: Guid = Field(
        default="", alias="ENTRABOT_AGENT_USER_ID", description="Object id of the agent's user account"
    )
    agent_upn: str = Field(
        default="",
        validation_alias=AliasChoices("ENTRABOT_AGENT_UPN", "ENTRABOT_AGENT_USER_UPN"),
        description="User principal name of the agent's user account",
    )
    cert_file: Path | None = Field(
        default=None,
        alias="ENTRABOT_BLUEPRINT_CERT_FILE",
        description="The blueprint's certificate with its private key, PEM or PFX, readable by its owner only",
    )
    cert_password: SecretStr = Field(
        default=SecretStr(""),
        alias="ENTRABOT_BLUEPRINT_CERT_PASSWORD",
        description=f"Password of the file named by {CERT_FILE}, when it has one",
        json_schema_extra={"secret": True},
    )
    cert_thumbprint: str = Field(
        default="",
        alias="ENTRABOT_BLUEPRINT_CERT_THUMBPRINT",
        description="SHA-256 thumbprint of the certificate (base64url or hex); needed when the key is in the keystore",
    )
    cert_sha1: str = Field(
        default="",
        alias="ENTRABOT_BLUEPRINT_CERT_SHA1",
        description="SHA-1 thumbprint of a certificate in the Windows store; such keys are not supported yet",
    )
    skip_provisioning: bool = Field(
        default=False,
        alias="ENTRABOT_SKIP_PROVISIONING",
        description="Do not sign in as the agent user, even when it is configured (true, 1, yes)",
    )


class SponsorSettings(BaseModel):
    """Who the sponsors are. What the directory says wins; the ``ENTRABOT_HUMAN_*`` lists stand in where it cannot.

    Tenant ids and types belong to the user ids by their position. So do UPNs and mails where they are as many.
    """

    agent_object_id: Guid = Field(
        default="",
        alias="ENTRABOT_AGENT_OBJECT_ID",
        description="Object id of the agent identity's service principal, whose sponsors are read",
    )
    user_ids: Guids = Field(
        default=(),
        validation_alias=AliasChoices("ENTRABOT_HUMAN_USER_IDS", "ENTRABOT_HUMAN_USER_ID"),
        description="Object ids of the sponsors, used when the directory cannot be asked",
    )
    upns: Words = Field(
        default=(),
        validation_alias=AliasChoices("ENTRABOT_HUMAN_UPNS", "ENTRABOT_HUMAN_UPN"),
        description="User principal names of the sponsors",
    )
    mails: Words = Field(
        default=(),
        alias="ENTRABOT_HUMAN_USER_MAILS",
        description="Mail addresses of the sponsors; the first receives the daily summary",
    )
    tenant_ids: AlignedGuids = Field(
        default=(),
        alias="ENTRABOT_HUMAN_USER_TENANT_IDS",
        description="Home tenants of the sponsors, one for each user id; empty means the agent's tenant",
    )
    types: AlignedWords = Field(
        default=(),
        alias="ENTRABOT_HUMAN_USER_TYPES",
        description="Member or Guest, one for each user id; empty means Member",
    )
    home_ids: Annotated[tuple[SponsorHome, ...], BeforeValidator(_home_ids)] = Field(
        default=(),
        alias="ENTRABOT_SPONSOR_HOME_IDS",
        description="Home identities of sponsors from other tenants: address=object-id@tenant-id, separated by commas",
    )


class BehaviourSettings(BaseModel):
    """How identity and authorization behave."""

    mode: Annotated[Literal["auto", "agent_user", "delegated"], BeforeValidator(_mode)] = Field(
        default="auto",
        alias="ENTRABOT_MODE",
        description="auto, agent_user or delegated; checked, but what is configured decides who signs in",
    )
    sponsor_binding_seconds: int = Field(
        default=600,
        ge=1,
        le=86_400,
        alias="ENTRABOT_SPONSOR_BINDING_SECONDS",
        description="For how many seconds a sponsor's message authorizes actions in its chat",
    )
