"""The fallback for descriptors that the event loop cannot own: daemon threads, feeding the same protocol objects.

Used for regular files, terminals, the null device and Windows. A thread blocked in a read or write cannot be stopped;
being a daemon it does not outlive the process, which ends hard. A peer that closes is noticed at the next write only.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from contextlib import suppress

_CHUNK = 256 * 1024  # bytes


class ReadThread:
    """Reads a descriptor into a protocol, one chunk at a time: the next is read when the last was taken."""

    def __init__(self, fd: int, protocol: asyncio.Protocol, loop: asyncio.AbstractEventLoop) -> None:
        self._fd = fd
        self._protocol = protocol
        self._loop = loop
        self._wanted = threading.Event()
        self._wanted.set()
        self._taken = threading.Semaphore(0)
        self._closed = False
        threading.Thread(target=self._run, name="entrabot-stdin", daemon=True).start()

    def pause_reading(self) -> None:
        """Read nothing more until told to."""
        self._wanted.clear()

    def resume_reading(self) -> None:
        """Go on reading."""
        self._wanted.set()

    def close(self) -> None:
        """Feed nothing more; the descriptor stays open, since the thread may be blocked on it."""
        self._closed = True
        self._wanted.set()

    def _run(self) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody is left to feed
            while chunk := self._read():
                self._loop.call_soon_threadsafe(self._deliver, chunk)
                self._taken.acquire()
                self._wanted.wait()
            self._loop.call_soon_threadsafe(self._protocol.eof_received)

    def _read(self) -> bytes:
        if self._closed:
            return b""
        try:
            return os.read(self._fd, _CHUNK)
        except OSError:
            return b""

    def _deliver(self, chunk: bytes) -> None:
        if not self._closed:
            self._protocol.data_received(chunk)
        self._taken.release()


class WriteThread:
    """Writes to a descriptor in the background; its protocol is paused while a write is under way."""

    def __init__(self, fd: int, protocol: asyncio.BaseProtocol, loop: asyncio.AbstractEventLoop) -> None:
        self._fd = fd
        self._protocol = protocol
        self._loop = loop
        self._jobs: queue.SimpleQueue[bytes] = queue.SimpleQueue()  # never more than one: the protocol is paused
        self._closing = False
        threading.Thread(target=self._run, name="entrabot-stdout", daemon=True).start()

    def write(self, data: bytes) -> None:
        """Hand the bytes to the thread and pause the protocol until they are out."""
        self._protocol.pause_writing()
        self._jobs.put(data)

    def is_closing(self) -> bool:
        """Tell whether writing has ended."""
        return self._closing

    def abort(self) -> None:
        """End the thread after the write it may be blocked in."""
        self._closing = True
        self._jobs.put(b"")

    def _run(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            while data := self._jobs.get():
                error = self._write_all(data)
                if error is not None:
                    self._closing = True
                    self._loop.call_soon_threadsafe(self._protocol.connection_lost, error)
                    return
                self._loop.call_soon_threadsafe(self._protocol.resume_writing)

    def _write_all(self, data: bytes) -> OSError | None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError as error:
            return error
        return None
