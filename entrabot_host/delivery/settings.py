"""Settings of delivery."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field

_SWITCH = {"true": "on", "1": "on", "yes": "on", "false": "off", "0": "off", "no": "off"}


def _word(value: Any) -> Any:
    if isinstance(value, bool):
        return "on" if value else "off"
    return _SWITCH.get(value.lower(), value.lower()) if isinstance(value, str) else value


class DeliverySettings(BaseModel):
    """How people's messages reach the MCP host."""

    push: Annotated[Literal["auto", "on", "off"], BeforeValidator(_word)] = Field(
        default="auto",
        alias="ENTRABOT_PUSH",
        description="Whether the MCP host shows channel pushes: on, off, or auto to find out",
    )
    inbox: Annotated[Literal["on", "off"], BeforeValidator(_word)] = Field(
        default="on",
        alias="ENTRABOT_INBOX",
        description="Add messages that the MCP host may not have shown to tool results, as a last block named _inbox",
    )
