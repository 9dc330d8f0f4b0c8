"""What the email plugin offers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from entrabot_email import reading
from entrabot_email.domain import Email
from entrabot_email.prompt import FRAGMENT
from entrabot_email.sending import AUDIT_ACTION
from entrabot_email.summary import daily, schedule
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
    hookimpl,
)

_READS = Hints(read_only=True, destructive=False, idempotent=True, open_world=True)
_SENDS = Hints(read_only=False, destructive=False, idempotent=False, open_world=True)


@hookimpl
def register_tools(host: Host) -> Iterable[Tool]:
    """Sending and reading mail, and the daily summary."""
    email = host.shared(Email)
    return [
        Tool(
            email.sending.send_email,
            title="Send email",
            hints=_SENDS,
            permissions=("Mail.Send", "Mail.Read"),
            external=(),
            audit=Audit(action=AUDIT_ACTION, resource=lambda given: given["to"] or given["reply_to_message_id"]),
            outbound=Outbound(text="body", conversation="to"),
        ),
        Tool(
            email.reading.read_email,
            title="Read email",
            hints=_READS,
            permissions=("Mail.Read",),
            external=reading.EXTERNAL,
        ),
        Tool(
            email.daily.run_daily_summary,
            title="Daily summary",
            hints=_SENDS,
            permissions=("Mail.Send",),
            external=daily.EXTERNAL,
            audit=Audit(action=daily.ACTION, resource="day"),
        ),
    ]


@hookimpl
def background_tasks(host: Host) -> Iterable[BackgroundTask]:
    """Hearing mail, and the summary of the day."""
    email = host.shared(Email)
    tasks = [
        BackgroundTask(
            name="email-poll",
            run=email.changes.look,
            interval=email.settings.poll_seconds,
            description="Looks for new mail in the inbox",
            gate=Gate.AGENT_USER,
        )
    ]
    if email.settings.summary:
        tasks.append(
            BackgroundTask(
                name="daily-summary",
                run=email.clock.beat,
                interval=schedule.LONGEST_PAUSE,
                description="Mails the first sponsor a summary of the day",
                gate=Gate.AGENT_USER,
            )
        )
    return tasks


@hookimpl
def prompt_fragments() -> PromptFragment:
    """How to deal with mail."""
    return FRAGMENT


@hookimpl
def body_state(host: Host) -> Mapping[str, Callable[[], Awaitable[Any]]]:
    """Whose mailbox it is, and what was left out."""
    return {"email": host.shared(Email).state}


@hookimpl
def health_checks(host: Host) -> Iterable[HealthCheck]:
    """Whether the mailbox can be reached."""
    return [HealthCheck("email", host.shared(Email).reachable)]
