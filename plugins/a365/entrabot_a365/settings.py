"""Settings of the Agent 365 plugin."""

from pydantic import BaseModel, Field

MAX_FILE_BYTES = 5 * 1024 * 1024
"""Work IQ reads and writes no larger files."""


class A365Settings(BaseModel):
    """Where the servers are named, and how much they may take."""

    manifest: str = Field(
        default="",
        alias="ENTRABOT_A365_TOOLING_MANIFEST",
        description="Path of ToolingManifest.json; without it ./ToolingManifest.json and ./.a365/ToolingManifest.json "
        "of the working directory are looked for",
    )
    timeout_seconds: float = Field(
        default=30.0,
        ge=1,
        le=600,
        alias="ENTRABOT_A365_TIMEOUT_SECONDS",
        description="Seconds that a call of a Work IQ server may take, connecting included",
    )
    max_result_characters: int = Field(
        default=400_000,
        ge=1_000,
        le=20_000_000,
        alias="ENTRABOT_A365_MAX_RESULT_CHARACTERS",
        description="Characters of the longest text, or base64, that an Agent 365 tool returns; more is refused",
    )
    platform_endpoint: str = Field(
        default="https://agent365.svc.cloud.microsoft",
        alias="MCP_PLATFORM_ENDPOINT",
        description="Where servers are that the manifest gives no address of",
    )
    platform_scope: str = Field(
        default="ea9ffc3e-8a23-4a7d-836d-234d7c7565c1/.default",
        alias="MCP_PLATFORM_AUTHENTICATION_SCOPE",
        description="Scope for servers that the manifest gives no audience of",
    )
    ca_bundle: str = Field(
        default="",
        alias="ENTRABOT_CA_BUNDLE",
        description="PEM file with a certificate authority to trust besides the operating system's",
    )
