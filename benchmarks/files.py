"""Uploads and a long PDF through the real ``entrabot-mcp`` over stdio, against a sandbox tenant in the same run.

``upload_file`` of 64 MiB in base64 and ``upload_local_file`` of the same bytes, beside a floor: plain httpx sending the
same fragments to an upload session of the same sandbox. A PDF of 2,000 pages, beside pypdf stopped at the same limit.
Meanwhile another tool is called without a pause, and the longest wait for its answer is shown, with the server's peak
of resident memory. Linux only.

    python benchmarks/files.py [--mebibytes 64] [--pages 2000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import io
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
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

    def timed(self, tool: str, **arguments: Any) -> tuple[float, float, Any]:
        """Call a tool; return its seconds, the longest wait of another call meanwhile (ms), and the result.

        The line is made beforehand. Another call can only come after it on the pipe, so waiting begins there.
        """
        number, answers = self.expect()
        params = {"name": tool, "arguments": arguments}
        line = json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode() + b"\n"
        longest, started = 0.0, time.perf_counter()
        self.write_line(line)
        while answers.empty():
            asked = time.perf_counter()
            self.call("echo")
            longest = max(longest, time.perf_counter() - asked)
            time.sleep(0.002)
        seconds = time.perf_counter() - started
        result = answers.get()["result"]
        assert not result.get("isError"), result["content"][0]["text"][:500]
        return seconds, longest * 1000, json.loads(result["content"][0]["text"])

    def memory(self, name: str) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith(name))) / 1024

    def stop(self) -> tuple[float, float]:
        """End it; return its peak and that above idle, in MiB."""
        peak = self.memory("VmHWM")
        self.process.stdin.close()
        self.process.wait(timeout=10)
        return peak, peak - self.idle


async def floor(environment: dict[str, str], content: bytes) -> float:
    """Seconds that plain httpx takes for the fragments, the session being open."""
    import httpx

    ca_bundle = environment["ENTRABOT_CA_BUNDLE"]
    cloud = resolve_cloud(CloudSettings.model_validate(environment))
    session = Session([AgentUserProvider(AgentUserSettings.model_validate(environment), cloud, ca_bundle)])
    await session.start()
    graph = GraphClient(cloud, session, ca_bundle=ca_bundle)
    wish = {"item": {"@microsoft.graph.conflictBehavior": "replace", "name": "floor.bin"}}
    answer = await graph.request("POST", "/me/drive/root:/floor.bin:/createUploadSession", json=wish)
    async with httpx.AsyncClient(verify=ssl_context(ca_bundle), trust_env=False, timeout=60) as client:
        started = time.perf_counter()
        for at in range(0, len(content), FRAGMENT):
            part = content[at : at + FRAGMENT]
            span = {"Content-Range": f"bytes {at}-{at + len(part) - 1}/{len(content)}"}
            (await client.put(answer.body["uploadUrl"], content=part, headers=span)).raise_for_status()
        seconds = time.perf_counter() - started
    await graph.aclose()
    await session.aclose()
    return seconds


def stopped_at_the_limit(pdf: bytes) -> tuple[float, int]:
    """Seconds that pypdf takes in this process, and the pages it read."""
    from pypdf import PdfReader

    started, size, pages = time.perf_counter(), 0, 0
    for page in PdfReader(io.BytesIO(pdf)).pages:
        size += len(page.extract_text().encode()) + 2
        pages += 1
        if size > TEXT_LIMIT:
            break
    return time.perf_counter() - started, pages


class Bench:
    def __init__(self, tenant: Tenant, folder: Path, mebibytes: int, pages: int) -> None:
        self.tenant = tenant
        self.folder = folder
        self.content = os.urandom(MIB) * mebibytes
        (folder / "local.bin").write_bytes(self.content)
        (folder / "echoing.py").write_text(ECHO, encoding="utf-8")
        own = {key: value for key, value in os.environ.items() if not key.startswith("ENTRABOT_")}
        self.environment = {**own, **tenant.environment, "ENTRABOT_FILES_LOCAL_ROOTS": str(folder)}
        line = "Sphinx of black quartz, judge my vow; pack my box with five dozen liquor jugs. "
        self.pdf = make_pdf("\n".join((line * 2)[number % 70 :][:80] for number in range(50 * pages)))
        self.seen: dict[str, list[tuple[float, float, float, float]]] = {}

    def server(self) -> Server:
        return Server(self.environment, self.folder / "echoing.py")

    def note(self, name: str, seconds: float, wait: float = 0.0, peak: float = 0.0, grown: float = 0.0) -> None:
        self.seen.setdefault(name, []).append((seconds, wait, peak, grown))

    def round(self) -> None:
        self.note("floor", asyncio.run(floor(self.environment, self.content)))
        target = {"target_type": "onedrive", "conflict_behavior": "replace"}
        text = base64.b64encode(self.content).decode()
        calls: dict[str, dict[str, Any]] = {
            "upload_file": {**target, "file_name": "a.bin", "content_base64": text},
            "upload_local_file": {**target, "local_path": "local.bin"},
        }
        for tool, arguments in calls.items():
            server = self.server()
            seconds, wait, result = server.timed(tool, **arguments)
            assert result["size_bytes"] == len(self.content)
            self.note(tool, seconds, wait, *server.stop())
        for _ in range(2):
            self.note("pypdf", stopped_at_the_limit(self.pdf)[0])
            self.read()

    def read(self) -> None:
        body = {"drive": "agent-onedrive", "path": "/big.pdf", "base64": base64.b64encode(self.pdf).decode()}
        item = asyncio.run(self.tenant.control("PUT", "/files", json=body))
        ids = {"drive_id": item["parentReference"]["driveId"], "item_id": item["id"], "name": "big.pdf"}
        server = self.server()
        seconds, wait, result = server.timed("read_file", **ids)
        assert result["truncated"]
        assert result["pages_read"] == stopped_at_the_limit(self.pdf)[1]
        self.note("read_file", seconds, wait, *server.stop())

    def result(self, name: str) -> tuple[float, ...]:
        """The shortest time, since others share the machine; of waits and memory the worst."""
        seconds, *others = zip(*self.seen[name], strict=True)
        return min(seconds), *(max(column) for column in others)

    def report(self) -> None:
        size = len(self.content) / 1e6
        table = Table(
            title=f"{len(self.content) // MIB} MiB up, {len(self.pdf) / MIB:.1f} MiB of PDF; best times, worst peaks"
        )
        for column in ("", "seconds", "rate", "longest wait ms", "peak MiB", "above idle", "goal"):
            table.add_column(column, justify="left" if not column else "right")
        base, pypdf = self.result("floor")[0], self.result("pypdf")[0]
        goals = {
            "upload_file": "0.5 of httpx; 250 ms; 300 MiB",
            "upload_local_file": "0.8 of httpx; +64 MiB",
            "read_file": "1.5 x pypdf; 100 ms",
        }
        table.add_row("plain httpx", f"{base:.2f}", f"{size / base:.1f} MB/s", "", "", "", "")
        for name in ("upload_file", "upload_local_file"):
            seconds, wait, peak, grown = self.result(name)
            rate = f"{size / seconds:.1f} MB/s, {base / seconds:.2f}"
            table.add_row(name, f"{seconds:.2f}", rate, f"{wait:.0f}", f"{peak:.0f}", f"{grown:.0f}", goals[name])
        table.add_row("pypdf to the limit", f"{pypdf:.2f}", "", "", "", "", "")
        seconds, wait, peak, grown = self.result("read_file")
        ratio = f"{seconds / pypdf:.2f} x"
        table.add_row(
            "read_file", f"{seconds:.2f}", ratio, f"{wait:.0f}", f"{peak:.0f}", f"{grown:.0f}", goals["read_file"]
        )
        Console(width=120).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mebibytes", type=int, default=64, help="size of the uploads")
    parser.add_argument("--pages", type=int, default=2000, help="pages of the PDF")
    parser.add_argument("--rounds", type=int, default=3, help="rounds")
    options = parser.parse_args()
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
