"""Entrabot's API for plugin authors. Importing it stays light: no MCP SDK, no HTTP, no Entra library.

A plugin is a module with hook implementations, named by an entry point in the group ``entrabot.plugins``::

    from typing import Annotated
    from pydantic import Field
    from entrabot_host import Hints, Tool, hookimpl

    async def greet(name: Annotated[str, Field(description="Whom to greet")]) -> dict:
        '''Greet somebody.'''
        return {"greeting": f"Hello, {name}!"}

    @hookimpl
    def register_tools(host):
        local = Hints(read_only=True, destructive=False, idempotent=True, open_world=False)
        return [Tool(greet, title="Greet", hints=local)]
"""

from entrabot_host.auth.provider import Attribution, AuthProvider, Principal, Token
from entrabot_host.errors import (
    AttributionError,
    AuthError,
    AuthorizationError,
    ConcurrencyError,
    EntrabotError,
    GraphError,
    GraphForbidden,
    GraphNotFound,
    GraphThrottled,
    GraphUnavailable,
    InvalidArgument,
    NoActiveSponsorChannelError,
    NotSignedIn,
    NotStarted,
    PluginError,
    RequesterNotInChatError,
    RequesterNotSponsorError,
    SettingsError,
    SponsorChannelMismatchError,
    StorageConfigError,
    StorageError,
    TokenAudienceError,
)
from entrabot_host.hookspecs import hookimpl
from entrabot_host.host import (
    BatchRequest,
    Conversation,
    ConversationKind,
    Delivery,
    Direction,
    Entry,
    Graph,
    GraphResponse,
    Host,
    Identity,
    Inbox,
    Interaction,
    Message,
    Outcome,
    Position,
    Received,
    Records,
    Settings,
    Sponsor,
    Store,
)
from entrabot_host.prompt.fragment import PromptFragment
from entrabot_host.tasks import BackgroundTask, Gate, Health, HealthCheck
from entrabot_host.tools import Audit, Hints, Image, Outbound, Tool, ToolContext, ToolData, ToolResult
from entrabot_host.wrappers import Band, ToolCall, Wrapper

__all__ = [
    "Attribution",
    "AttributionError",
    "Audit",
    "AuthError",
    "AuthProvider",
    "AuthorizationError",
    "BackgroundTask",
    "Band",
    "BatchRequest",
    "ConcurrencyError",
    "Conversation",
    "ConversationKind",
    "Delivery",
    "Direction",
    "EntrabotError",
    "Entry",
    "Gate",
    "Graph",
    "GraphError",
    "GraphForbidden",
    "GraphNotFound",
    "GraphResponse",
    "GraphThrottled",
    "GraphUnavailable",
    "Health",
    "HealthCheck",
    "Hints",
    "Host",
    "Identity",
    "Image",
    "Inbox",
    "Interaction",
    "InvalidArgument",
    "Message",
    "NoActiveSponsorChannelError",
    "NotSignedIn",
    "NotStarted",
    "Outbound",
    "Outcome",
    "PluginError",
    "Position",
    "Principal",
    "PromptFragment",
    "Received",
    "Records",
    "RequesterNotInChatError",
    "RequesterNotSponsorError",
    "Settings",
    "SettingsError",
    "Sponsor",
    "SponsorChannelMismatchError",
    "StorageConfigError",
    "StorageError",
    "Store",
    "Token",
    "TokenAudienceError",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolData",
    "ToolResult",
    "Wrapper",
    "hookimpl",
]
