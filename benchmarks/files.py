"""Uploads and a long PDF through the real ``entrabot-mcp`` over stdio, against a sandbox tenant in the same run.

``upload_file`` of 64 MiB in base64 and ``upload_local_file`` of the same bytes, beside plain httpx that opens a session
in the same sandbox and sends the same fragments. Each is done twice by a process of its own: once while another tool is
called some forty times a second, for the longest wait for its answer, and once alone, for the seconds. A PDF of 2,000
pages, beside pypdf stopped at the same limit, its import not counted, with the other tool called meanwhile. The peak of
resident memory is that of the first. What is compared runs in turns; shown are medians, and ratios of neighbours.
Linux only.

    python benchmarks/files.py [--mebibytes 64] [--pages 2000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import gc
import io
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from entrabot_sandbox.drive_pdf import make_pdf
from rich.console import Console
from rich.table import Table

from entrabot_host.auth.agent_user import AgentUserProvider
from entrabot_host.graph.client import GraphClient
from entrabot_host.identity.session import Session
from entrabot_host.identity.settings import AgentUserSettings
from entrabot_host.security.clouds import CloudSettings, resolve_cloud
from entrabot_host.security.tls import ssl_context
from entrabot_host.testing.tenant import Tenant

MIB = 1024 * 1024
FRAGMENT = 5 * MIB
TEXT_LIMIT = 200_000

ECHO = '''
from entrabot_host import Hints, Tool, hookimpl

async def echo() -> str:
    """Answer."""
    return "here"

@hookimpl
def register_tools(host):
    return [Tool(echo, title="Echo", hints=Hints(read_only=True, destructive=False, idempotent=True, open_world=False))]
'''


class Server:
    """The server process, and one client that can ask several things at once."""

    def __init__(self, environment: dict[str, str], plugin: Path) -> None:
        command = [sys.executable, "-P", "-m", "entrabot_host.main", "--plugins", "files", "--plugin", str(plugin)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
        self._number = 0
        self._answers: dict[int, queue.Queue[Any]] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()
        info = {"name": "benchmark", "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})
        self._write({"method": "notifications/initialized"})
        self.call("echo")
        self.call("list_recent_files")
        self.idle = self.memory("VmRSS")
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5", encoding="ascii")

    def _read(self) -> None:
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") in self._answers:
                self._answers[message["id"]].put(message)

    def _write(self, message: dict[str, Any]) -> None:
        self.write_line(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def write_line(self, line: bytes) -> None:
        with self._lock:
            self.process.stdin.write(line)
            self.process.stdin.flush()

    def expect(self) -> tuple[int, queue.Queue[Any]]:
        self._number += 1
        self._answers[self._number] = queue.Queue()
        return self._number, self._answers[self._number]

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        number, answers = self.expect()
        self._write({"id": number, "method": method, "params": params})
        return answers.get(timeout=300)["result"]

    def call(self, tool: str, **arguments: Any) -> Any:
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})
        data = result["content"][0]["text"]
        assert not result.get("isError"), data[:500]
        return json.loads(data)

    def timed(self, tool: str, *, alone: bool = False, **arguments: Any) -> tuple[float, float, Any]:
        """Call a tool; return its seconds, the longest wait of another call meanwhile (ms), and the result.

        The line is made beforehand. Another call can only come after it on the pipe, so waiting begins there.
        alone: there is no other call.
        """
        number, answers = self.expect()
        params = {"name": tool, "arguments": arguments}
        line = json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode() + b"\n"
        started = time.perf_counter()
        self.write_line(line)
        longest = 0.0 if alone else self.asked_until(lambda: not answers.empty())
        result = answers.get(timeout=300)["result"]
        seconds = time.perf_counter() - started
        assert not result.get("isError"), result["content"][0]["text"][:500]
        return seconds, longest, json.loads(result["content"][0]["text"])

    def asked_until(self, done: Callable[[], bool]) -> float:
        """Call another tool again and again; return the longest wait (ms). This process collects no garbage then."""
        longest = 0.0
        gc.collect()
        gc.disable()
        while not done():
            asked = time.perf_counter()
            self.call("echo")
            longest = max(longest, time.perf_counter() - asked)
            time.sleep(0.02)
        gc.enable()
        return longest * 1000

    def beside(self, command: list[str], environment: dict[str, str], *, alone: bool) -> float:
        """Run something else, under the same load unless ``alone``; it prints its seconds."""
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
        if not alone:
            self.asked_until(lambda: process.poll() is not None)
        out, _ = process.communicate(timeout=300)
        assert process.returncode == 0
        return float(out)

    def memory(self, name: str) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith(name))) / 1024

    def stop(self) -> None:
        """End it."""
        self.process.stdin.close()
        self.process.wait(timeout=10)


async def upload_base(path: str) -> float:
    """Seconds that plain httpx takes to open a session and send a file's fragments, its token being there."""
    import httpx

    environment = dict(os.environ)
    ca_bundle = environment["ENTRABOT_CA_BUNDLE"]
    cloud = resolve_cloud(CloudSettings.model_validate(environment))
    session = Session([AgentUserProvider(AgentUserSettings.model_validate(environment), cloud, ca_bundle)])
    await session.start()
    graph = GraphClient(cloud, session, ca_bundle=ca_bundle)
    wish = {"item": {"@microsoft.graph.conflictBehavior": "replace", "name": "base.bin"}}
    size = Path(path).stat().st_size

    async def once(client: httpx.AsyncClient) -> float:
        started = time.perf_counter()
        answer = await graph.request("POST", "/me/drive/root:/base.bin:/createUploadSession", json=wish)
        with open(path, "rb") as file:
            for at in range(0, size, FRAGMENT):
                part = file.read(FRAGMENT)
                span = {"Content-Range": f"bytes {at}-{at + len(part) - 1}/{size}"}
                (await client.put(answer.body["uploadUrl"], content=part, headers=span)).raise_for_status()
        return time.perf_counter() - started

    async with httpx.AsyncClient(verify=ssl_context(ca_bundle), trust_env=False, timeout=60) as client:
        await once(client)
        seconds = await once(client)
    await graph.aclose()
    await session.aclose()
    return seconds


def read_base(pdf: bytes) -> float:
    """Seconds that pypdf takes in this process, imported before."""
    from pypdf import PdfReader

    started, size = time.perf_counter(), 0
    for page in PdfReader(io.BytesIO(pdf)).pages:
        size += len(page.extract_text().encode()) + 2
        if size > TEXT_LIMIT:
            break
    return time.perf_counter() - started


def base(kind: str, path: str) -> None:
    """What this script does when it runs as the thing to compare with."""
    print(read_base(Path(path).read_bytes()) if kind == "read" else asyncio.run(upload_base(path)))


class Bench:
    def __init__(self, tenant: Tenant, folder: Path, mebibytes: int, pages: int) -> None:
        self.tenant = tenant
        self.folder = folder
        self.content = os.urandom(MIB) * mebibytes
        self.encoded = base64.b64encode(self.content).decode()
        (folder / "local.bin").write_bytes(self.content)
        (folder / "echoing.py").write_text(ECHO, encoding="utf-8")
        own = {key: value for key, value in os.environ.items() if not key.startswith("ENTRABOT_")}
        self.environment = {**own, **tenant.environment, "ENTRABOT_FILES_LOCAL_ROOTS": str(folder)}
        line = "Sphinx of black quartz, judge my vow; pack my box with five dozen liquor jugs. "
        pdf = make_pdf("\n".join((line * 2)[number % 70 :][:80] for number in range(50 * pages)))
        (folder / "big.pdf").write_bytes(pdf)
        self.size = len(pdf)
        body = {"drive": "agent-onedrive", "path": "/big.pdf", "base64": base64.b64encode(pdf).decode()}
        item = asyncio.run(tenant.control("PUT", "/files", json=body))
        self.ids = {"drive_id": item["parentReference"]["driveId"], "item_id": item["id"], "name": "big.pdf"}
        self.seen: dict[str, list[tuple[float, float, float, float]]] = {}

    def round(self) -> None:
        """Everything once, what is compared side by side."""
        target = {"target_type": "onedrive", "conflict_behavior": "replace"}
        self.tool("upload_file", {**target, "file_name": "a.bin", "content_base64": self.encoded}, twice=True)
        self.beside("upload", "local.bin")
        self.tool("upload_local_file", {**target, "local_path": "local.bin"}, twice=True)
        self.beside("read", "big.pdf")
        assert self.tool("read_file", self.ids)["truncated"]

    def tool(self, tool: str, arguments: dict[str, Any], *, twice: bool = False) -> Any:
        server = Server(self.environment, self.folder / "echoing.py")
        seconds, wait, result = server.timed(tool, **arguments)
        peak = server.memory("VmHWM")
        if twice:
            seconds, _, result = server.timed(tool, alone=True, **arguments)
        server.stop()
        self.seen.setdefault(tool, []).append((seconds, wait, peak, peak - server.idle))
        return result

    def beside(self, kind: str, name: str) -> None:
        server = Server(self.environment, self.folder / "echoing.py")
        command = [sys.executable, __file__, "--base", kind, str(self.folder / name)]
        seconds = server.beside(command, self.environment, alone=kind == "upload")
        self.seen.setdefault(kind, []).append((seconds, 0.0, 0.0, 0.0))
        server.stop()

    def column(self, name: str, number: int = 0) -> list[float]:
        return [row[number] for row in self.seen[name]]

    def report(self) -> None:
        megabytes = len(self.content) / 1e6
        table = Table(
            title=f"{len(self.content) // MIB} MiB up, {self.size / MIB:.1f} MiB of PDF; "
            f"medians of {len(self.seen['read'])} rounds (shortest to longest), worst peaks"
        )
        for column in ("", "seconds", "rate", "longest wait ms", "peak MiB", "above idle", "goal"):
            table.add_column(column, justify="left" if not column else "right")
        rates = {"upload": f"{megabytes / median(self.column('upload')):.1f} MB/s", "read": ""}
        for name in ("upload_file", "upload_local_file"):
            ratio = median(b / own for b, own in zip(self.column("upload"), self.column(name), strict=True))
            rates[name] = f"{megabytes / median(self.column(name)):.1f} MB/s, {ratio:.2f}"
        ratio = median(own / b for b, own in zip(self.column("read"), self.column("read_file"), strict=True))
        rates["read_file"] = f"{ratio:.2f} x"
        for name, (shown, goal) in ROWS.items():
            seconds, waits = self.column(name), self.column(name, 1)
            row = [shown, f"{median(seconds):.2f} ({min(seconds):.2f}-{max(seconds):.2f})", rates[name]]
            if goal:
                row.append(f"{median(waits):.0f} ({min(waits):.0f}-{max(waits):.0f})")
                row += [f"{max(self.column(name, number)):.0f}" for number in (2, 3)]
            table.add_row(*row, *[""] * (6 - len(row)), goal)
        Console(width=140).print(table)


ROWS = {
    "upload": ("plain httpx", ""),
    "upload_file": ("upload_file", "0.5 of httpx; 250 ms; 300 MiB"),
    "upload_local_file": ("upload_local_file", "0.8 of httpx; +64 MiB"),
    "read": ("pypdf to the limit", ""),
    "read_file": ("read_file", "1.5 x pypdf; 100 ms"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mebibytes", type=int, default=64, help="size of the uploads")
    parser.add_argument("--pages", type=int, default=2000, help="pages of the PDF")
    parser.add_argument("--rounds", type=int, default=5, help="rounds")
    parser.add_argument("--base", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.base:
        return base(*options.base)
    tenant = Tenant.start()
    try:
        with tempfile.TemporaryDirectory() as name:
            bench = Bench(tenant, Path(name), options.mebibytes, options.pages)
            for _ in range(options.rounds):
                bench.round()
            bench.report()
    finally:
        tenant.stop()


if __name__ == "__main__":
    main()
