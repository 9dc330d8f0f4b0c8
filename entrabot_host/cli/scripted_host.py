"""Moved to `entrabot_host.testing`."""

from entrabot_host.testing.agent import Agent as ScriptedHost
from entrabot_host.testing.agent import Push as ChannelParams
from entrabot_host.testing.agent import ToolFailed
from entrabot_host.testing.process import launched

__all__ = ["ChannelParams", "ScriptedHost", "ToolFailed", "launched"]
