"""A real browser without a window, driven through its DevTools protocol by clicks and keys."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import itertools
import json
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from cryptography import x509
from cryptography.hazmat.primitives import serialization

SECONDS = 20.0
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find() -> str | None:
    """The browser's program, if there is one."""
    return next((path for path in map(shutil.which, _NAMES) if path), None)


def key_of(url: str) -> str:
    """The hash of a server's public key, as the browser's command line names it."""
    parts = urlsplit(url)
    pem = ssl.get_server_certificate((str(parts.hostname), int(parts.port or 443)))
    key = x509.load_pem_x509_certificate(pem.encode()).public_key()
    info = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(hashlib.sha256(info).digest()).decode()


class Tab:
    """One page, or with ``session`` a frame in it. What it waits for fails after some seconds."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, session: str = "", first: int = 1) -> None:
        self._socket = socket
        self._session = {"sessionId": session} if session else {}
        self._numbers = itertools.count(first)

    async def command(self, method: str, **params: Any) -> dict[str, Any]:
        """Give a command of the protocol, and get its result."""
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": params, **self._session})
        while True:
            message = await self._socket.receive_json(timeout=SECONDS)
            if message.get("id") == number:
                if "error" in message:
                    raise LookupError(f"{method}: {message['error']['message']}")
                return dict(message["result"])

    async def frame(self) -> Tab:
        """The frame from another site that is in the page."""
        targets = (await self.command("Target.getTargets"))["targetInfos"]
        target = next(target["targetId"] for target in targets if target["type"] == "iframe")
        session = (await self.command("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
        return Tab(self._socket, session, 1_000_000)

    async def go(self, url: str) -> None:
        """Open an address."""
        await self.command("Page.navigate", url=url)

    async def text(self) -> str:
        """The page's source as it is now."""
        root = (await self.command("DOM.getDocument"))["root"]["nodeId"]
        return str((await self.command("DOM.getOuterHTML", nodeId=root))["outerHTML"])

    async def click(self, selector: str) -> None:
        """Click on an element when it is there."""
        x, y = await self._until(lambda: self._middle(selector), selector)
        for kind in ("mousePressed", "mouseReleased"):
            await self.command("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    async def type(self, selector: str, text: str) -> None:
        """Click on a field and write into it."""
        await self.click(selector)
        await self.command("Input.insertText", text=text)

    async def see(self, text: str) -> str:
        """Wait for a text; returns the page's source."""

        async def seen() -> str:
            source = await self.text()
            if text not in source:
                raise LookupError(source)
            return source

        return str(await self._until(seen, text))

    async def _middle(self, selector: str) -> tuple[float, float]:
        root = (await self.command("DOM.getDocument"))["root"]["nodeId"]
        node = (await self.command("DOM.querySelector", nodeId=root, selector=selector))["nodeId"]
        if not node:
            raise LookupError(await self.text())
        await self.command("DOM.scrollIntoViewIfNeeded", nodeId=node)
        left, top, _, _, right, bottom, _, _ = (await self.command("DOM.getBoxModel", nodeId=node))["model"]["content"]
        return (left + right) / 2, (top + bottom) / 2

    async def _until(self, attempt: Callable[[], Any], wanted: str) -> Any:
        """Repeat until it does not fail: the page may change between two commands."""
        last = ""
        try:
            async with asyncio.timeout(SECONDS):
                while True:
                    try:
                        return await attempt()
                    except LookupError as error:
                        last = str(error)
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"The page does not show {wanted}: {last}") from None


@asynccontextmanager
async def opened(program: str, folder: Path, trusted: str) -> AsyncIterator[Tab]:
    """Start the browser with a new profile in ``folder``; it trusts the server at the address ``trusted``."""
    command = [
        program,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--no-proxy-server",
        "--remote-debugging-port=0",
        f"--user-data-dir={folder}",
        f"--ignore-certificate-errors-spki-list={key_of(trusted)}",
        "about:blank",
    ]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        port = await _port(folder, process)
        async with aiohttp.ClientSession(trust_env=False) as http:
            async with http.get(f"http://127.0.0.1:{port}/json/list") as response:
                targets = json.loads(await response.text())
            page = next(target for target in targets if target["type"] == "page")
            async with http.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                yield Tab(socket)
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 10)
        except TimeoutError:
            process.kill()
            await process.wait()


async def _port(folder: Path, process: asyncio.subprocess.Process) -> int:
    """The port that the browser chose, which it writes into its profile."""
    note = folder / "DevToolsActivePort"
    async with asyncio.timeout(SECONDS):
        while True:
            if note.exists() and "\n" in (written := note.read_text(encoding="ascii")):
                return int(written.partition("\n")[0])
            assert process.returncode is None, "the browser ended at once"
            await asyncio.sleep(0.05)
