"""What the Agent 365 plugin offers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from entrabot_a365.domain import A365
from entrabot_a365.prompt import FRAGMENT
from entrabot_host import Audit, HealthCheck, Hints, Host, Outbound, PromptFragment, Tool, hookimpl

_READS = Hints(read_only=True, destructive=False, idempotent=True, open_world=True)
_ADDS = Hints(read_only=False, destructive=False, idempotent=False, open_world=True)
_COMMENTS = tuple(f"comments[].{field}" for field in ("author", "content", "replies[].author", "replies[].content"))
_COMMENT = Outbound(text="content", conversation="document_id")
_WORD = ("McpServers.Word.All (Agent 365)",)
_FILES = ("McpServers.OneDriveSharepoint.All (Agent 365)",)


@hookimpl
def register_tools(host: Host) -> Iterable[Tool]:
    """Word documents and their comments; small files. Their permissions are Work IQ's, not Graph's."""
    a365 = host.shared(A365)
    return [
        Tool(
            a365.word.read_word_document,
            title="Read Word document",
            hints=_READS,
            permissions=_WORD,
            external=("name", "content_html", *_COMMENTS, "raw"),
        ),
        Tool(
            a365.word.create_word_document,
            title="Create Word document",
            hints=_ADDS,
            permissions=_WORD,
            external=("raw",),
            audit=Audit(action="a365.word.create", resource=lambda _: "own OneDrive"),
        ),
        Tool(
            a365.word.add_word_comment,
            title="Comment in Word",
            hints=_ADDS,
            permissions=_WORD,
            external=(),
            audit=Audit(action="a365.word.comment", resource=_document),
            outbound=_COMMENT,
        ),
        Tool(
            a365.word.reply_to_word_comment,
            title="Reply in Word",
            hints=_ADDS,
            permissions=_WORD,
            external=(),
            audit=Audit(action="a365.word.reply", resource=_thread),
            outbound=_COMMENT,
        ),
        Tool(
            a365.files.get_a365_file_metadata_by_url,
            title="Find file through Work IQ",
            hints=_READS,
            permissions=_FILES,
            external=("name",),
        ),
        Tool(
            a365.files.read_a365_text_file,
            title="Read text file through Work IQ",
            hints=_READS,
            permissions=_FILES,
            external=("content",),
        ),
        Tool(
            a365.files.read_a365_binary_file,
            title="Read binary file through Work IQ",
            hints=_READS,
            permissions=_FILES,
            external=(),
        ),
    ]


def _document(arguments: Mapping[str, Any]) -> str:
    return f"{arguments['drive_id']}/{arguments['document_id']}"[:400]


def _thread(arguments: Mapping[str, Any]) -> str:
    return f"{_document(arguments)}/{arguments['comment_id']}"[:600]


@hookimpl
def lifespan(host: Host) -> AbstractAsyncContextManager[None]:
    """Sessions with the servers, each opened when first needed."""
    return host.shared(A365).running()


@hookimpl
def prompt_fragments() -> PromptFragment:
    """How to deal with Word documents."""
    return FRAGMENT


@hookimpl
def health_checks(host: Host) -> Iterable[HealthCheck]:
    """Which servers are known."""
    return [HealthCheck("a365", host.shared(A365).configured)]
