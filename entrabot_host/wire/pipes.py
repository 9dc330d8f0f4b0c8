"""Lines in and out of descriptors on the event loop: bounded reading, and writing that knows when a line has left."""

from __future__ import annotations

import asyncio
import os
import selectors
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from entrabot_host.wire.lines import Line, LineSplitter, Overlong
from entrabot_host.wire.threads import ReadThread, WriteThread

_WAITING_BYTES: Final = 1024 * 1024  # more than this waiting unread stops reading, whatever the number of lines


class TransportClosed(Exception):
    """The host closed its end: nothing can be sent any more."""


class EndOfLines(Exception):
    """No line is left and none will come."""


class ReadHandle(Protocol):
    """What feeds a `LineReader`."""

    def pause_reading(self) -> None:
        """Stop feeding."""

    def resume_reading(self) -> None:
        """Feed again."""

    def close(self) -> None:
        """Stop for good and close the descriptor."""


class WriteHandle(Protocol):
    """What a `LineWriter` writes to; calls its ``pause_writing`` inside `write` when bytes are left over."""

    def write(self, data: bytes) -> None:
        """Write, or keep the rest and write it as soon as there is room."""

    def is_closing(self) -> bool:
        """Tell whether writing has ended."""

    def abort(self) -> None:
        """Drop what is left over and close the descriptor."""


class LineReader(asyncio.Protocol):
    """Collects lines, at most about ``waiting_lines`` and one MiB (or one long line) ahead of its only consumer."""

    def __init__(self, splitter: LineSplitter, waiting_lines: int) -> None:
        self._splitter = splitter
        self._waiting_lines = waiting_lines
        self._lines: deque[Line] = deque()
        self._bytes = 0
        self._handle: ReadHandle | None = None
        self._wake: asyncio.Future[None] | None = None
        self._paused = False
        self.ended = False

    def attach(self, handle: ReadHandle) -> None:
        """Take the transport that feeds this reader."""
        self._handle = handle

    def data_received(self, data: bytes) -> None:
        """Split what arrived and stop reading when enough waits."""
        for line in self._splitter.feed(data):
            self._append(line)
        if not self._paused and self._is_full() and self._handle is not None:
            self._paused = True
            self._handle.pause_reading()
        self._rouse()

    def eof_received(self) -> None:
        """Keep the last line, even without a newline; let the transport close."""
        self._finish()

    def connection_lost(self, exc: Exception | None) -> None:
        """Treat a broken pipe as its end."""
        self._finish()

    async def next(self) -> Line:
        """Return the next line.

        Raises:
            EndOfLines: the input has ended.
        """
        while not self._lines:
            if self.ended:
                raise EndOfLines
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
        line = self._lines.popleft()
        self._bytes -= _size(line)
        if self._paused and not self._is_full() and self._handle is not None:
            self._paused = False
            self._handle.resume_reading()
        return line

    def hang_up(self) -> None:
        """Forget what waits and end: nobody is left to answer to."""
        self._lines.clear()
        self._bytes = 0
        self.ended = True
        self._rouse()
        if self._handle is not None:
            self._handle.close()

    def _finish(self) -> None:
        if not self.ended:
            self.ended = True
            for line in self._splitter.end():
                self._append(line)
        self._rouse()

    def _append(self, line: Line) -> None:
        self._lines.append(line)
        self._bytes += _size(line)

    def _is_full(self) -> bool:
        return len(self._lines) >= self._waiting_lines or self._bytes > _WAITING_BYTES

    def _rouse(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)


def _size(line: Line) -> int:
    return 0 if isinstance(line, Overlong) else len(line)


@dataclass
class _Outgoing:
    data: bytes
    done: asyncio.Future[None]
    after: Callable[[], None] | None


class LineWriter(asyncio.BaseProtocol):
    """Writes whole lines in the order they were given; a line is done when its last byte is in the pipe.

    A sender that is cancelled before its line began takes the line back; one cancelled later does not stop it.
    ``on_lost`` is called once, when the pipe is gone, ``on_full`` whenever a line has to wait for room in it.
    """

    def __init__(self, on_lost: Callable[[], None], on_full: Callable[[], None]) -> None:
        self._on_lost = on_lost
        self._on_full = on_full
        self._queue: deque[_Outgoing] = deque()
        self._current: _Outgoing | None = None
        self._handle: WriteHandle | None = None
        self._paused = False
        self.closed = False
        self.written = 0  # lines, a measure of the host's progress

    def attach(self, handle: WriteHandle) -> None:
        """Take the transport that writes."""
        self._handle = handle

    @property
    def stalled(self) -> bool:
        """Whether bytes wait because the pipe is full."""
        return self._paused and not self.closed

    async def send(self, data: bytes, after: Callable[[], None] | None = None) -> None:
        """Write one line and return when it has left; ``after`` is called then, even if the caller was cancelled.

        Raises:
            TransportClosed: the pipe is gone, or went before the line was out.
        """
        if self.closed:
            raise TransportClosed("the host has closed the connection")
        outgoing = _Outgoing(data, asyncio.get_running_loop().create_future(), after)
        self._queue.append(outgoing)
        self._pump()
        await outgoing.done

    def pause_writing(self) -> None:
        """Note that the pipe is full."""
        self._paused = True
        self._on_full()

    def resume_writing(self) -> None:
        """Note that everything has left, and go on with the next line."""
        self._paused = False
        current, self._current = self._current, None
        if current is not None:
            self._settle(current)
        self._pump()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail everybody who waits, once, and tell the owner."""
        if self.closed:
            return
        self.closed = True
        if self._current is not None:
            self._queue.appendleft(self._current)
        self._fail(self._queue)
        self._current = None
        self._queue.clear()
        self._on_lost()

    async def finish(self, seconds: float) -> None:
        """Refuse the lines that have not begun, and give the one that has some time to leave."""
        self._fail(self._queue)
        self._queue.clear()
        if self._current is not None:
            await asyncio.wait({self._current.done}, timeout=seconds)

    def abort(self) -> None:
        """Give the pipe up, with what is left over."""
        self.connection_lost(None)
        if self._handle is not None and not self._handle.is_closing():
            self._handle.abort()

    def _pump(self) -> None:
        while self._queue and not self._paused and not self.closed:
            outgoing = self._queue.popleft()
            if outgoing.done.done():
                continue
            assert self._handle is not None
            self._handle.write(outgoing.data)
            if self._paused or self._handle.is_closing():
                self._current = outgoing  # `resume_writing` or `connection_lost` follows
                if self._handle.is_closing():
                    self._paused = True
            else:
                self._settle(outgoing)

    def _fail(self, lines: Iterable[_Outgoing]) -> None:
        for outgoing in lines:
            if not outgoing.done.done():
                outgoing.done.set_exception(TransportClosed("the host has closed the connection"))

    def _settle(self, outgoing: _Outgoing) -> None:
        self.written += 1
        if not outgoing.done.done():
            outgoing.done.set_result(None)
        if outgoing.after is not None:
            outgoing.after()


async def open_reader(fd: int, splitter: LineSplitter, waiting_lines: int, *, shared: bool) -> LineReader:
    """Return a reader fed from the descriptor, which it then owns; ``shared`` if the writer has the same file."""
    reader = LineReader(splitter, waiting_lines)
    loop = asyncio.get_running_loop()
    if not shared and _can_poll(fd, selectors.EVENT_READ):
        handle, _ = await loop.connect_read_pipe(lambda: reader, os.fdopen(fd, "rb", buffering=0))
        reader.attach(handle)
    else:
        reader.attach(ReadThread(fd, reader, loop))
    return reader


async def open_writer(fd: int, on_lost: Callable[[], None], on_full: Callable[[], None], *, shared: bool) -> LineWriter:
    """Return a writer to the descriptor, which it owns from now on; ``shared`` if the reader has the same file.

    The event loop takes whatever can be read from an output for its end, so a socket used both ways needs threads.
    """
    writer = LineWriter(on_lost, on_full)
    loop = asyncio.get_running_loop()
    if not shared and _can_poll(fd, selectors.EVENT_WRITE):
        handle, _ = await loop.connect_write_pipe(lambda: writer, os.fdopen(fd, "wb", buffering=0))
        handle.set_write_buffer_limits(high=0)  # "not full" then means "everything has left"
        writer.attach(handle)
    else:
        writer.attach(WriteThread(fd, writer, loop))
    return writer


def _can_poll(fd: int, event: int) -> bool:
    """Tell whether the event loop may own the descriptor: it can be polled, and standard error is not the same file.

    Regular files and the null device cannot be polled. A terminal or pipe shared with standard error would become
    non-blocking for both.
    """
    if os.name == "nt" or same_file(fd, 2):
        return False
    with selectors.DefaultSelector() as selector:
        try:
            selector.register(fd, event)
        except OSError:
            return False
    return True


def same_file(fd: int, other: int) -> bool:
    """Tell whether two descriptors stand for the same pipe, socket, terminal or file."""
    try:
        return os.path.sameopenfile(fd, other)
    except OSError:
        return False
