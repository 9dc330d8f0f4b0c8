"""The SDK's own client in both protocol eras."""

from __future__ import annotations

import sys

import anyio
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import TextContent
from stdio_host import PATIENCE, SERVER


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_the_sdk_client(mode: str, pytestconfig: pytest.Config) -> None:
    server = StdioServerParameters(
        command=sys.executable, args=[str(SERVER)], env={"PYTHONPATH": str(pytestconfig.rootpath)}
    )
    with anyio.fail_after(PATIENCE):
        async with Client(server, mode=mode) as client:
            assert "length" in [tool.name for tool in (await client.list_tools()).tools]
            texts: dict[int, str] = {}

            async def call(size: int) -> None:
                result = await client.call_tool("length", {"text": "x" * size})
                assert isinstance(result.content[0], TextContent)
                texts[size] = result.content[0].text

            async with anyio.create_task_group() as calls:
                for size in (0, 1, 1000, 1_000_000):
                    calls.start_soon(call, size)
            assert texts == {size: str(size) for size in texts}
            assert len(texts) == 4
