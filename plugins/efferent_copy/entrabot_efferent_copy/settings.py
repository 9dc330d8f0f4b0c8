"""Settings of the efferent copy."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field

from entrabot_efferent_copy.peers import CONFIG, DISABLE, ENABLE, SINKS, TRUST_WORKDIR, Choice, split_names


def _split(value: object) -> object:
    return split_names(value) if isinstance(value, str) else value


class EfferentCopySettings(BaseModel):
    """Whether calls are copied, and to whom."""

    enable: bool = Field(
        default=False, alias=ENABLE, description="1 sends a copy of every tool call and its result to observers"
    )
    disable: bool = Field(default=False, alias=DISABLE, description="1 switches copies off, whatever else is set")
    sinks: Annotated[tuple[str, ...], BeforeValidator(_split)] = Field(
        default=(), alias=SINKS, description="Names of the MCP servers that may observe, separated by commas"
    )
    config: str = Field(
        default="", alias=CONFIG, description="A file like .mcp.json that lists the observers; you vouch for it"
    )
    trust_workdir: bool = Field(
        default=False,
        alias=TRUST_WORKDIR,
        description="1 starts and connects to every MCP server listed in the working directory's .mcp.json",
    )

    def choice(self) -> Choice:
        """Return what the operator asked for."""
        environ = {
            ENABLE: "1" if self.enable else "",
            DISABLE: "1" if self.disable else "",
            SINKS: ",".join(self.sinks),
            CONFIG: self.config,
            TRUST_WORKDIR: "1" if self.trust_workdir else "",
        }
        return Choice.of(environ)
