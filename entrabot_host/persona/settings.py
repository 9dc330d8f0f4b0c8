"""Settings of the persona."""

from __future__ import annotations

import shlex

from pydantic import BaseModel, Field, field_validator

from entrabot_host.security.urls import host_of

URL = "PERSONA_SATI_MCP_URL"
TOKEN_COMMAND = "PERSONA_SATI_MCP_TOKEN_COMMAND"  # noqa: S105 - the variable's name
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class PersonaSettings(BaseModel):
    """Where the persona comes from. Without both address and command there is none."""

    url: str = Field(
        default="",
        alias="PERSONA_SATI_MCP_URL",
        repr=False,
        description="Address of the persona's MCP server (https; http on loopback only); with the token command, its "
        "text is added to the instructions",
    )
    token_command: str = Field(
        default="",
        alias="PERSONA_SATI_MCP_TOKEN_COMMAND",
        repr=False,
        description="Command that prints a token for the persona's server; it is run without a shell",
    )
    wait_seconds: float = Field(
        default=2.0,
        ge=0,
        le=30,
        alias="ENTRABOT_PERSONA_WAIT_SECONDS",
        description="Seconds that the very first start with a persona may wait for its text; later ones wait for "
        "nothing",
    )

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        host = host_of(_as_https(value))
        if value.lower().startswith("http://") and host not in _LOOPBACK:
            raise ValueError("it must be an https address; http is for loopback only")
        return value

    @field_validator("token_command")
    @classmethod
    def _check_command(cls, value: str) -> str:
        words = shlex.split(value)
        if not words:
            raise ValueError("it names no command")
        if "/" in words[0] and not words[0].startswith(("/", "~/")):
            raise ValueError("name the command by its absolute path, or by a name that PATH leads to")
        return value

    @property
    def loopback(self) -> bool:
        """Whether the server is on this machine."""
        return host_of(_as_https(self.url)) in _LOOPBACK


def _as_https(url: str) -> str:
    """The address as the strict reader of https addresses takes it."""
    return f"https://{url[7:]}" if url.lower().startswith("http://") else url
