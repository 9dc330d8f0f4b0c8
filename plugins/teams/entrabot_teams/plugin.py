"""What the Teams plugin offers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from entrabot_host import (
    Audit,
    BackgroundTask,
    Gate,
    HealthCheck,
    Hints,
    Host,
    Outbound,
    PromptFragment,
    Tool,
    Wrapper,
    hookimpl,
)
from entrabot_teams.cards import SEND_CARD
from entrabot_teams.discipline import wrapper_for
from entrabot_teams.domain import Teams
from entrabot_teams.prompt import FRAGMENT
from entrabot_teams.reading import EXTERNAL as READ_EXTERNAL
from entrabot_teams.replies import EXTERNAL
from entrabot_teams.sending import SEND
from entrabot_teams.thinking import ANNOUNCE, RESOLVE

_READS = Hints(read_only=True, destructive=False, idempotent=True, open_world=True)
_HEARS = Hints(read_only=True, destructive=False, idempotent=False, open_world=True)
_OPENS = Hints(read_only=False, destructive=False, idempotent=True, open_world=True)
_SENDS = Hints(read_only=False, destructive=False, idempotent=False, open_world=True)
_REPLACES = Hints(read_only=False, destructive=True, idempotent=True, open_world=True)
_RESOLVES = Hints(read_only=False, destructive=True, idempotent=False, open_world=True)
_SEND = ("ChatMessage.Send", "Chat.Read")
_CHANGE = ("Chat.ReadWrite",)


@hookimpl
def register_tools(host: Host) -> Iterable[Tool]:
    """Chats and messages."""
    teams = host.shared(Teams)
    return [
        Tool(
            teams.sending.send_teams_message,
            title="Send Teams message",
            hints=_SENDS,
            permissions=_SEND,
            external=EXTERNAL,
            audit=Audit(action=SEND.action, resource="chat_id"),
            outbound=Outbound(text="message", conversation="chat_id"),
        ),
        Tool(
            teams.thinking.post_thinking_placeholder,
            title="Post placeholder",
            hints=_SENDS,
            permissions=_SEND,
            external=(),
            audit=Audit(action=ANNOUNCE.action, resource="chat_id"),
            outbound=Outbound(text="text", conversation="chat_id"),
        ),
        Tool(
            teams.thinking.update_placeholder,
            title="Update placeholder",
            hints=_REPLACES,
            permissions=_CHANGE,
            external=(),
            audit=Audit(action="teams.update_placeholder", resource=_message_of),
            outbound=Outbound(text="progress_text", conversation="chat_id"),
        ),
        Tool(
            teams.thinking.resolve_placeholder,
            title="Resolve placeholder",
            hints=_RESOLVES,
            permissions=(*_CHANGE, "ChatMessage.Send"),
            external=(),
            audit=Audit(action=RESOLVE.action, resource=_message_of),
            outbound=Outbound(text="final_message", conversation="chat_id"),
        ),
        Tool(
            teams.sending.delete_teams_message,
            title="Delete Teams message",
            hints=_REPLACES,
            permissions=_CHANGE,
            external=(),
            audit=Audit(action="teams.delete_message", resource=_message_of),
        ),
        Tool(
            teams.cards.send_card,
            title="Send card",
            hints=_SENDS,
            permissions=_SEND,
            external=(),
            audit=Audit(action=SEND_CARD.action, resource="chat_id"),
            outbound=Outbound(text="title", conversation="chat_id"),
        ),
        Tool(
            teams.chats.list_chat_members,
            title="List chat members",
            hints=_READS,
            permissions=("Chat.Read",),
            external=("members[].name", "members[].email"),
        ),
        Tool(
            teams.membership.add_teams_member,
            title="Add chat member",
            hints=_SENDS,
            permissions=("ChatMember.ReadWrite", "Chat.Read"),
            external=(),
            audit=Audit(action="teams.add_member", resource=lambda given: f"{given['chat_id']} {given['email']}"),
            needs=("sponsor-presence",),
        ),
        Tool(
            teams.chats.create_chat,
            title="Open 1:1 Teams chat",
            hints=_OPENS,
            permissions=("Chat.Create", "Chat.Read"),
            external=(),
            audit=Audit(action="teams.create_chat", resource="target_email"),
        ),
        Tool(
            teams.reading.read_teams_messages,
            title="Read Teams messages",
            hints=_READS,
            permissions=("Chat.Read",),
            external=READ_EXTERNAL,
        ),
        Tool(
            teams.waiting.watch_teams_replies,
            title="Watch Teams chat",
            hints=_HEARS,
            permissions=("Chat.Read",),
            external=("messages[].content", "messages[].from"),
        ),
        Tool(
            teams.waiting.wait_for_sponsor_dm,
            title="Wait for sponsor",
            hints=_HEARS,
            permissions=("Chat.Read",),
            external=EXTERNAL,
        ),
        Tool(
            teams.images.view_image,
            title="View image",
            hints=_READS,
            permissions=("Chat.Read",),
            external=(),
        ),
    ]


def _message_of(given: Mapping[str, Any]) -> str:
    """What the audit log names for a change to a message: the chat, and the message in it."""
    return f"{given['chat_id']} {given.get('placeholder_id') or given.get('message_id')}"


@hookimpl
def wrap_tool(tool: Tool, host: Host) -> Wrapper | None:
    """Reminding the agent of placeholders."""
    return wrapper_for(tool, host)


@hookimpl
def background_tasks(host: Host) -> Iterable[BackgroundTask]:
    """Hearing people in watched chats, and finding new chats."""
    teams = host.shared(Teams)
    return [
        BackgroundTask(
            name="teams-poll",
            run=teams.changes.beat,
            interval=teams.settings.poll_seconds,
            description="Looks for new messages in all watched chats",
            gate=Gate.SIGNED_IN,
            provides=("sponsor-presence",),
        ),
        BackgroundTask(
            name="teams-discovery",
            run=teams.changes.discover,
            interval=120.0,
            description="Finds chats that are not watched yet and watches them",
            gate=Gate.AGENT_USER,
        ),
    ]


@hookimpl
def lifespan(host: Host) -> AbstractAsyncContextManager[None]:
    """Waits leave no reading behind at shutdown."""
    return host.shared(Teams).lifespan()


@hookimpl
def prompt_fragments() -> PromptFragment:
    """How to talk in Teams."""
    return FRAGMENT


@hookimpl
def body_state(host: Host) -> Mapping[str, Callable[[], Awaitable[Any]]]:
    """How many chats are watched, and what is wrong with them."""
    return {"teams": host.shared(Teams).state}


@hookimpl
def health_checks(host: Host) -> Iterable[HealthCheck]:
    """Whether Teams can be reached."""
    return [HealthCheck("teams", host.shared(Teams).reachable)]
