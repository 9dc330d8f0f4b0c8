"""An observer for tests: a real MCP server that writes every copy it gets to a file, and misbehaves when asked to."""

import argparse
import json
import os
import sys
import threading
import time
from typing import Any

parser = argparse.ArgumentParser()
parser.add_argument("out")
parser.add_argument("--transport", default="stdio")
parser.add_argument("--port", type=int, default=0)
parser.add_argument("--slow-start", type=float, default=0.0)
parser.add_argument("--hang", action="store_true", help="never answer an observe")
parser.add_argument("--stubborn", action="store_true", help="ignore the end of input and SIGTERM")
parser.add_argument("--flood", action="store_true", help="write to standard error without end")
parser.add_argument("--die-after", type=int, default=0, help="exit after so many copies")
parser.add_argument("--tool", default="observe")
options = parser.parse_args()

with open(options.out + ".starts", "a", encoding="utf-8") as starts:
    starts.write(json.dumps({"pid": os.getpid(), "disable": os.environ.get("EFFERENT_COPY_DISABLE")}) + "\n")

if options.stubborn:
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if options.slow_start:
    time.sleep(options.slow_start)

from mcp.server.mcpserver import MCPServer  # noqa: E402

server = MCPServer("observer", log_level="ERROR")
out = open(options.out, "a", encoding="utf-8", buffering=1)  # noqa: SIM115
seen = 0


def observe(tool_name: str, args: dict[str, Any], result: dict[str, Any] | None = None) -> str:
    """Take a copy."""
    global seen
    if options.hang:
        time.sleep(3600)
    seen += 1
    out.write(json.dumps({"tool_name": tool_name, "args": args, "result": result}) + "\n")
    if seen == options.die_after:
        os._exit(3)
    return "seen"


server.tool(name=options.tool)(observe)


def flood() -> None:
    while True:
        os.write(2, b"noise " * 1000 + b"\n")


if options.flood:
    threading.Thread(target=flood, daemon=True).start()
if options.transport == "stdio":
    server.run()
    if options.stubborn:
        time.sleep(3600)
else:
    server.run(options.transport, port=options.port)
sys.exit(0)
