"""What the server costs the model's context."""

from __future__ import annotations

import json
from typing import Any

from entrabot_host.application import Application
from entrabot_host.config import load_config
from tests.e2e.wire import served

BYTES_FOR_ALL = 32_000
ALL_TOOLS = 37
SHOWN = 2_048
"""Characters that Claude Code shows of a description and of the instructions."""


def cost(tool: dict[str, Any]) -> int:
    return len(json.dumps(tool, ensure_ascii=False, separators=(",", ":")).encode())


async def test_the_tools_fit_their_budget(bare: dict[str, str]) -> None:
    async with served(bare) as server:
        tools = await server.tools()
        (line,) = (line for line in server.lines if b'"inputSchema"' in line)
    costs = {name: cost(tool) for name, tool in tools.items()}
    described = {name: len(tool["description"]) for name, tool in tools.items()}
    print(f"\n{'tool':<34} {'bytes':>6} {'description':>12}")
    for name in sorted(costs, key=costs.__getitem__, reverse=True):
        print(f"{name:<34} {costs[name]:>6} {described[name]:>12}")
    limit = -(-BYTES_FOR_ALL * len(tools) // ALL_TOOLS // 500) * 500
    print(f"{'all, as the line on the wire':<34} {len(line):>6} of {limit}")
    assert abs(len(line) - sum(costs.values())) < 200 + 2 * len(tools), "the line holds more than the tools"
    assert len(line) <= limit
    assert all(length <= SHOWN for length in described.values()), described


async def test_what_must_not_be_missed_is_in_what_is_shown(bare: dict[str, str]) -> None:
    async with served(bare, greet=False) as server:
        shown = (await server.greet())["instructions"][:SHOWN]
    fragments = {
        part.name: part.fragment
        for part in Application(load_config(environ=bare)).assembly.contributions
        if part.fragment is not None
    }
    assert "teams" in fragments
    for name, fragment in fragments.items():
        assert fragment.short, name
        assert fragment.short in shown, name
    assert "entrabot://instructions" in shown, "it says where the rest is"
    assert "sponsor" in shown
    assert "external-content envelope" in shown
