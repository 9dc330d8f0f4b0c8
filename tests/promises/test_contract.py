"""Signatures as documented, and what the tools cost."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from entrabot_host import PromptFragment

DOCUMENTED = {
    "add_promise": [("chat_id", "string", None), ("description", "string", None), ("due_by", "string", "")],
    "list_promises": [("open_only", "boolean", True)],
    "resolve_promise": [("promise_id", "string", None), ("resolution", "string", None)],
}


async def test_names_parameters_types_and_defaults(entrabot: Callable[..., Any]) -> None:
    async with entrabot("promises") as agent:
        tools = {tool.name: tool for tool in (await agent.client.list_tools()).tools}
    for name, parameters in DOCUMENTED.items():
        schema = tools[name].input_schema
        shown = [(key, value["type"], value.get("default")) for key, value in schema["properties"].items()]
        assert shown == parameters
        assert schema.get("required", []) == [key for key, _, default in parameters if default is None]
        wire = tools[name].model_dump(mode="json", by_alias=True, exclude_none=True)
        assert len(json.dumps(wire, ensure_ascii=False, separators=(",", ":")).encode()) <= 900


def test_the_fragment_fits() -> None:
    from entrabot_promises.prompt import FRAGMENT

    assert isinstance(FRAGMENT, PromptFragment)
    assert len(FRAGMENT.short) <= 200
    assert FRAGMENT.full.startswith("## ")
