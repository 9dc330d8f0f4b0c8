"""What the files plugin offers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from entrabot_files import commenting, saving, sharing, writing
from entrabot_files.domain import Files
from entrabot_files.prompt import FRAGMENT
from entrabot_host import Audit, HealthCheck, Hints, Host, PromptFragment, Tool, hookimpl

_READS = Hints(read_only=True, destructive=False, idempotent=True, open_world=True)
_ADDS = Hints(read_only=False, destructive=False, idempotent=False, open_world=True)
_SHARES = Hints(read_only=False, destructive=False, idempotent=True, open_world=True)
_WRITES = Hints(read_only=False, destructive=True, idempotent=False, open_world=True)
_READ = ("Files.Read.All",)
_WRITE = ("Files.ReadWrite.All",)


@hookimpl
def register_tools(host: Host) -> Iterable[Tool]:
    """Finding, reading, commenting, writing and sharing; files of this machine where the operator allows folders."""
    files = host.shared(Files)
    tools = [
        Tool(
            files.finding.resolve_file_url,
            title="Find file by address",
            hints=_READS,
            permissions=_READ,
            external=("name",),
        ),
        Tool(
            files.finding.list_recent_files,
            title="List files shared with the agent",
            hints=_READS,
            permissions=_READ,
            external=("files[].name", "files[].shared_by"),
        ),
        Tool(
            files.reading.read_file,
            title="Read file as text",
            hints=_READS,
            permissions=_READ,
            external=("text", "name"),
        ),
        Tool(
            files.commenting.add_file_comment,
            title="Comment on file",
            hints=_ADDS,
            permissions=_WRITE,
            external=(),
            audit=Audit(action=commenting.AUDIT_ACTION, resource=_item),
        ),
        Tool(
            files.writing.write_text_file,
            title="Write text file",
            hints=_WRITES,
            permissions=_WRITE,
            external=(),
            audit=Audit(action="files.write_text", resource=writing.resource),
        ),
        Tool(
            files.writing.upload_file,
            title="Upload file",
            hints=_WRITES,
            permissions=_WRITE,
            external=(),
            audit=Audit(action="files.upload", resource=writing.resource),
        ),
        Tool(
            files.sharing.share_file,
            title="Share file",
            hints=_SHARES,
            permissions=_WRITE,
            external=("name", "on_behalf_of"),
            audit=Audit(action=sharing.AUDIT_ACTION, resource=_shared),
            needs=("sponsor-presence",),
        ),
    ]
    return [*tools, *_local_tools(files)] if files.settings.local_roots else tools


def _local_tools(files: Files) -> list[Tool]:
    return [
        Tool(
            files.writing.upload_local_file,
            title="Upload local file",
            hints=_WRITES,
            permissions=_WRITE,
            external=(),
            audit=Audit(action="files.upload_local", resource=writing.resource),
        ),
        Tool(
            files.saving.download_file,
            title="Download file",
            hints=_WRITES,
            permissions=_READ,
            external=("name",),
            audit=Audit(action="files.download", resource=saving.resource),
        ),
    ]


def _item(arguments: Mapping[str, Any]) -> str:
    return f"{arguments['drive_id']}/{arguments['item_id']}"


def _shared(arguments: Mapping[str, Any]) -> str:
    return f"{_item(arguments)} to {arguments['recipient_email']} ({arguments['role']})"


@hookimpl
def prompt_fragments() -> PromptFragment:
    """How to deal with files."""
    return FRAGMENT


@hookimpl
def health_checks(host: Host) -> Iterable[HealthCheck]:
    """Whether the agent's own drive can be reached."""
    return [HealthCheck("files", host.shared(Files).reachable)]
