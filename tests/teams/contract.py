"""The signatures under which the product documents its Teams tools: parameters, types and defaults, in order."""

from __future__ import annotations

REQUIRED = "required"

SIGNATURES: dict[str, list[tuple[str, str, object]]] = {
    "send_teams_message": [
        ("message", "str", REQUIRED),
        ("content_type", "str", "html"),
        ("mentions", "list[dict] | None", None),
        ("chat_id", "str", ""),
        ("ctx", "Context | None", None),
    ],
    "post_thinking_placeholder": [("chat_id", "str", REQUIRED), ("text", "str", "thinking…")],
    "update_placeholder": [
        ("chat_id", "str", REQUIRED),
        ("placeholder_id", "str", REQUIRED),
        ("progress_text", "str", REQUIRED),
    ],
    "resolve_placeholder": [
        ("chat_id", "str", REQUIRED),
        ("placeholder_id", "str", REQUIRED),
        ("final_message", "str", REQUIRED),
        ("content_type", "str", "html"),
        ("mentions", "list[dict] | None", None),
        ("mode", "str", "edit"),
    ],
    "delete_teams_message": [("message_id", "str", REQUIRED), ("chat_id", "str", "")],
    "send_card": [
        ("card_type", "str", REQUIRED),
        ("chat_id", "str", ""),
        ("title", "str", ""),
        ("status", "str", "complete"),
        ("detail", "str", ""),
        ("duration", "str", ""),
        ("passed", "bool", True),
        ("summary", "str", ""),
        ("details_text", "str", ""),
        ("extra", "str", ""),
    ],
    "list_chat_members": [("chat_id", "str", REQUIRED)],
    "add_teams_member": [
        ("email", "str", REQUIRED),
        ("chat_id", "str", REQUIRED),
        ("requester_email", "str", REQUIRED),
        ("tenant_id", "str", ""),
    ],
    "create_chat": [("target_email", "str", REQUIRED), ("target_tenant_id", "str", "")],
    "read_teams_messages": [("chat_id", "str", REQUIRED), ("count", "int", 5)],
    "watch_teams_replies": [
        ("chat_id", "str", REQUIRED),
        ("timeout", "int", 30),
        ("interval", "int", 5),
        ("ctx", "Context | None", None),
    ],
    "wait_for_sponsor_dm": [("timeout_seconds", "int", 0), ("ctx", "Context | None", None)],
    "view_image": [("url", "str", REQUIRED)],
}
