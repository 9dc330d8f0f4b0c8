"""The relay as the server has it: a child process, and pipes that are written to without waiting."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any, Final

BACKLOG_BYTES: Final = 32 * 1024 * 1024
"""What may wait for a relay that does not read; more is dropped."""
HOLD_SECONDS: Final = 0.01
"""How long copies are held back: a short call is answered before the relay and the observers want the processor."""
END_SECONDS: Final = 0.3
"""How long the end of the relay is waited for at shutdown. It ends by itself; see `entrabot_efferent_copy.relay`."""


class RelayProcess:
    """The running relay. `write` and forget; iterate over `lines` to know how it is doing; `aclose` it in the end."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._reader = asyncio.StreamReader(limit=1024 * 1024)
        self._words = _LastWords()
        self._writer: asyncio.WriteTransport | None = None
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._readers: list[asyncio.ReadTransport] = []
        self._gone = _Gone()

    @classmethod
    async def start(cls) -> RelayProcess:
        """Start one and connect to it. Raises `OSError`."""
        relay = cls(_spawn())
        await relay._connect()
        return relay

    async def _connect(self) -> None:
        loop, process = asyncio.get_running_loop(), self._process
        self._writer, _ = await loop.connect_write_pipe(lambda: self._gone, process.stdin)
        self._writer.set_write_buffer_limits(BACKLOG_BYTES)
        protocol = asyncio.StreamReaderProtocol(self._reader)
        self._readers.append((await loop.connect_read_pipe(lambda: protocol, process.stdout))[0])
        self._readers.append((await loop.connect_read_pipe(lambda: self._words, process.stderr))[0])

    def write(self, line: bytes) -> bool:
        """Have a line written soon; False if the relay is gone or too far behind."""
        if self._writer is None or self._gone.lost:
            return False
        if self._writer.get_write_buffer_size() + self._held_bytes > BACKLOG_BYTES:
            return False
        if not self._held:
            asyncio.get_running_loop().call_later(HOLD_SECONDS, self._flush)
        self._held.append(line)
        self._held_bytes += len(line)
        return True

    def _flush(self) -> None:
        held, self._held, self._held_bytes = self._held, [], 0
        if self._writer is not None and held and not self._writer.is_closing():
            self._writer.write(b"".join(held))

    async def lines(self) -> AsyncIterator[dict[str, Any]]:
        """What the relay says, until it ends."""
        while line := await self._reader.readline():
            yield json.loads(line)

    def last_words(self) -> str:
        """The end of what it wrote to standard error: why it died."""
        return self._words.text.decode("utf-8", "replace")

    async def aclose(self) -> None:
        """Let it end: it does so when its input ends."""
        self._flush()
        if self._writer is not None:
            self._writer.close()
        try:
            async with asyncio.timeout(END_SECONDS):
                while await self._reader.read(65536):
                    pass
        except TimeoutError:
            pass  # it is still ending observers, which nobody needs to wait for
        finally:
            for transport in self._readers:
                transport.close()
            threading.Thread(target=self._process.wait, name="efferent-copy:reaper", daemon=True).start()


class _Gone(asyncio.Protocol):
    """Notices that nobody reads any more."""

    lost = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True


class _LastWords(asyncio.Protocol):
    """Reads everything, so that the writer never waits, and keeps the end."""

    text = b""

    def data_received(self, data: bytes) -> None:
        self.text = (self.text + data)[-500:]


def _spawn() -> subprocess.Popen[bytes]:
    """Start the relay, in a session of its own: what the terminal or the host sends to our group is not for it.

    ``-P``: the working directory may be a stranger's, and no module of ours is to be found there.
    """
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "entrabot_efferent_copy.relay"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ.copy(),
        start_new_session=True,
    )
