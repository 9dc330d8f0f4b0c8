"""One huge line into a server: our transport against the SDK's own stdio, in the same run.

Sends a ``tools/call`` with 64 MiB of base64 and prints, per transport, the event loop's longest stall while the call
was handled (a 1 ms ticker inside the server), the peak of resident memory, and the throughput. Linux only.

    python benchmarks/line.py [--mebibytes 64] [--runs 3]
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = "{:<10} {:>14} {:>14} {:>14} {:>14}"


class Ticker:
    """Measures how long the event loop is kept from a task that wants to run every millisecond."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def run(self) -> None:
        import asyncio

        last = monotonic()
        while True:
            await asyncio.sleep(0.001)
            now = monotonic()
            self.longest = max(self.longest, now - last)
            last = now


def peak_mebibytes() -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    kibibytes = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    return int(kibibytes) / 1024


def make_server(ticker: Ticker) -> Any:
    import mcp_types as types
    from mcp.server.lowlevel import Server

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name=n, input_schema={"type": "object"}) for n in TOOLS])

    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        text = TOOLS[params.name](ticker, **(params.arguments or {}))
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    return Server("line", on_list_tools=list_tools, on_call_tool=call_tool)


def length(ticker: Ticker, data: str) -> str:
    return str(len(data))


def measure(ticker: Ticker) -> str:
    """Return the stall since the last look, and the peak memory so far."""
    longest, ticker.longest = ticker.longest, 0.0
    return json.dumps({"stall": longest, "peak": peak_mebibytes()})


TOOLS = {"length": length, "measure": measure}


def serve_ours() -> None:
    import gc

    gc.disable()
    from entrabot_host.stdio import StdioTransport, claim_descriptors

    wire = claim_descriptors()
    import asyncio

    from mcp.server.runner import serve_dual_era_loop

    from entrabot_host.lifecycle import Stop, run_server

    async def serve(stop: Stop) -> None:
        gc.freeze()
        gc.enable()
        ticker = Ticker()
        ticking = asyncio.create_task(ticker.run())
        async with StdioTransport(wire, on_end=stop.request) as transport:
            await serve_dual_era_loop(
                make_server(ticker), transport.read_stream, transport.write_stream, lifespan_state=None
            )
        ticking.cancel()

    run_server(serve)


def serve_sdk() -> None:
    import gc

    gc.disable()
    import asyncio

    from mcp.server.runner import serve_dual_era_loop
    from mcp.server.stdio import stdio_server

    async def serve() -> None:
        gc.freeze()
        gc.enable()
        ticker = Ticker()
        ticking = asyncio.create_task(ticker.run())
        async with stdio_server() as (read_stream, write_stream):
            await serve_dual_era_loop(make_server(ticker), read_stream, write_stream, lifespan_state=None)
        ticking.cancel()

    asyncio.run(serve())


SERVERS = {"ours": serve_ours, "SDK stdio": serve_sdk}


class Client:
    """The least that speaks to a server: one request at a time."""

    def __init__(self, server: str) -> None:
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", server],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        info = {"name": "benchmark", "version": "1"}
        self.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info})
        self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def write(self, message: dict[str, Any]) -> None:
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.write({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        return self.answer()

    def answer(self) -> dict[str, Any]:
        return json.loads(self.process.stdout.readline())["result"]

    def measure(self) -> dict[str, float]:
        result = self.request("tools/call", {"name": "measure", "arguments": {}})
        return json.loads(result["content"][0]["text"])

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


def run(server: str, line: bytes, expected: str) -> dict[str, float]:
    client = Client(server)
    before = client.measure()["peak"]
    started = perf_counter()
    client.process.stdin.write(line)
    client.process.stdin.flush()
    text = client.answer()["content"][0]["text"]
    seconds = perf_counter() - started
    assert text == expected, text
    seen = client.measure()
    client.close()
    return {"stall": seen["stall"] * 1000, "peak": seen["peak"], "grown": seen["peak"] - before, "seconds": seconds}


def make_line(mebibytes: int) -> tuple[bytes, str]:
    data = base64.b64encode(bytes(range(256)) * (mebibytes * 4096)).decode("ascii")
    params = {"name": "length", "arguments": {"data": data}}
    message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
    return json.dumps(message).encode() + b"\n", str(len(data))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mebibytes", type=int, default=64, help="size of the upload before base64")
    parser.add_argument("--runs", type=int, default=3, help="runs of each; the best figure of each kind is shown")
    parser.add_argument("--serve", choices=SERVERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        SERVERS[options.serve]()
        return
    line, expected = make_line(options.mebibytes)
    best: dict[str, dict[str, float]] = {}
    for _ in range(options.runs):
        for server in SERVERS:
            seen = run(server, line, expected)
            best[server] = {key: min(value, best.get(server, seen)[key]) for key, value in seen.items()}
    show(best, len(line))


def show(best: dict[str, dict[str, float]], size: int) -> None:
    print(f"one line of {size / 2**20:.0f} MiB, best of each")
    print(COLUMNS.format("", "stall ms", "peak MiB", "grown MiB", "MiB/s"))
    for server, seen in best.items():
        figures = [seen["stall"], seen["peak"], seen["grown"], size / 2**20 / seen["seconds"]]
        print(COLUMNS.format(server, *(f"{figure:.0f}" for figure in figures)))
    ours, sdk = best["ours"], best["SDK stdio"]
    ratios = [sdk["stall"] / ours["stall"], sdk["peak"] / ours["peak"], sdk["grown"] / ours["grown"]]
    ratios.append(sdk["seconds"] / ours["seconds"])
    print(COLUMNS.format("better by", *(f"{ratio:.2f} x" for ratio in ratios)))


if __name__ == "__main__":
    main()
