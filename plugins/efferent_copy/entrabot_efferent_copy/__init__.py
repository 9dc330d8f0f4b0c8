"""A copy of every tool call for observers: for the Entrabot server as a plugin, for any `MCPServer` by these functions.

Importing this stays light: the MCP SDK is imported when the first session is opened.
"""

from entrabot_efferent_copy.channel import DISCOVERY_TIMEOUT_S, OBSERVE_TIMEOUT_S
from entrabot_efferent_copy.redaction import _collect_kwargs, _json_safe, _redact_sensitive, _wrap_result
from entrabot_efferent_copy.selfref import _is_self_referential_peer, _wrapper_self_ref_target
from entrabot_efferent_copy.sinks import WARN_THROTTLE_S, Sink, discover_sinks, fire_observe
from entrabot_efferent_copy.transports import _has_compatible_observe
from entrabot_efferent_copy.wrapping import install_into_fastmcp, wrap_tool_fn

__all__ = [
    "DISCOVERY_TIMEOUT_S",
    "OBSERVE_TIMEOUT_S",
    "WARN_THROTTLE_S",
    "Sink",
    "_collect_kwargs",
    "_has_compatible_observe",
    "_is_self_referential_peer",
    "_json_safe",
    "_redact_sensitive",
    "_wrap_result",
    "_wrapper_self_ref_target",
    "discover_sinks",
    "fire_observe",
    "install_into_fastmcp",
    "wrap_tool_fn",
]
