"""The process's life: one event loop, signals, and an end within about a second whatever is stuck.

The end of serving is never waited for without a deadline, worker threads are never joined, and the interpreter's own
shutdown (which would join them) is skipped: the process leaves through ``os._exit``.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Final, NoReturn, Protocol

SOFT_SECONDS: Final = 0.7
"""How long serving may take to end after it was cancelled."""

HARD_SECONDS: Final = 1.0
"""When the watchdog ends the process, counted from the request to stop; also how long the loop may be blocked once the
host is gone."""

_CHILD_POLL_SECONDS: Final = 0.02
STARTING_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.1
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Child(Protocol):
    """What `Stop.children` needs of a child process; ``subprocess.Popen`` and asyncio's ``Process`` have it."""

    stdin: Any
    returncode: Any

    def terminate(self) -> None:
        """Ask the process to end."""

    def kill(self) -> None:
        """End the process."""


class Stop:
    """The request to stop, shared by everybody who can make it. `request` may be called from anywhere.

    ``children`` are processes to end with this one: asked when stopping begins, killed when it is over.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.children: Final[set[Child]] = set()
        self.patience = HARD_SECONDS
        self.reason = ""
        self._loop = loop
        self._event = asyncio.Event()
        self._callbacks: list[Callable[[], None]] = []
        self._requested_at: float | None = None
        self._watched: list[int] = []
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._wake_sender.setblocking(False)

    @property
    def requested(self) -> bool:
        """Whether stopping has begun."""
        return self._requested_at is not None

    def request(self, reason: str) -> None:
        """Begin to stop; from any thread or signal handler. Later calls change nothing.

        Takes no lock: a signal handler may interrupt this very function.
        """
        if self._requested_at is not None:
            return
        self._requested_at = time.monotonic()
        self.reason = reason
        self._wake_watchdog()
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._begin)

    async def wait(self) -> None:
        """Wait until stopping begins."""
        await self._event.wait()

    def on_request(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` on the loop when stopping begins, before serving is cancelled."""
        self._callbacks.append(callback)

    def watch(self, *fds: int) -> None:
        """Let the watchdog end the process when the host hangs up one of these pipes while the loop is blocked.

        ``patience`` is how long the loop may be blocked then: longer while starting, since imports block it too.
        """
        self._watched.extend(fds)
        self._wake_watchdog()

    def remaining(self, limit: float) -> float:
        """Return the seconds left of ``limit``, counted from the request; 0 if it is over."""
        if self._requested_at is None:
            return limit
        return max(0.0, self._requested_at + limit - time.monotonic())

    def _begin(self) -> None:
        if self._event.is_set():
            return
        self._event.set()
        for child in list(self.children):
            _ask_to_end(child)
        for callback in self._callbacks:
            callback()

    def kill_children(self) -> None:
        """End every child that is still there."""
        for child in list(self.children):
            with suppress(OSError):
                child.kill()

    def _wake_watchdog(self) -> None:
        with suppress(OSError):  # full: it is about to wake up anyway
            self._wake_sender.send(b"\0")


def run_server(serve: Callable[[Stop], Awaitable[None]]) -> NoReturn:
    """Run ``serve`` until it returns or is told to stop, then end the process.

    Status 0 after a normal end, the end of input, a closed output, SIGINT or SIGTERM; 1, with one line on standard
    error, if ``serve`` raised; a `SystemExit` keeps its own. Import what is heavy inside ``serve``: a signal is then
    answered meanwhile. Must be called in the main thread.
    """
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    stop = Stop(loop)
    _handle_signals(stop)
    threading.Thread(target=_watchdog, args=(stop,), name="entrabot-watchdog", daemon=True).start()
    try:
        status = loop.run_until_complete(_supervise(serve, stop))
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(_redacted(end.code), file=sys.stderr)
    stop.request("exit")
    stop.kill_children()
    _flush()
    os._exit(status)


async def _supervise(serve: Callable[[Stop], Awaitable[None]], stop: Stop) -> int:
    serving = asyncio.ensure_future(serve(stop))
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    error = None if stop.requested else _error(serving)
    stop.request("serving ended")  # from here on the watchdog bounds everything, a blocked standard error included
    if not serving.done():
        serving.cancel()
        await asyncio.wait({serving}, timeout=stop.remaining(SOFT_SECONDS))
    await stopping
    await _wait_for_children(stop)
    if error is not None:
        _report(error)
    return int(error is not None)


def _error(serving: asyncio.Future[None]) -> BaseException | None:
    """Return what went wrong, if serving ended by itself; what goes wrong while stopping is no failure."""
    return asyncio.CancelledError("serving was cancelled") if serving.cancelled() else serving.exception()


async def _wait_for_children(stop: Stop) -> None:
    while stop.remaining(SOFT_SECONDS) > 0 and not all(map(_has_ended, stop.children)):  # noqa: ASYNC110
        await asyncio.sleep(_CHILD_POLL_SECONDS)  # a Popen tells of its end only when asked


def _handle_signals(stop: Stop) -> None:
    """Take both signals twice: by a handler, and by the watchdog in case the main thread sits in a C call."""

    def handle(number: int, frame: FrameType | None) -> None:
        stop.request(signal.Signals(number).name)

    signal.set_wakeup_fd(stop._wake_sender.fileno(), warn_on_full_buffer=False)
    for number in _SIGNALS:
        signal.signal(number, handle)


def _watchdog(stop: Stop) -> None:
    """Wait for the request to stop (a thread of its own), then end the process when its time is up."""
    poll = None if os.name == "nt" else _Hangups(stop._wake_receiver.fileno())
    while not stop.requested:
        if poll is not None and poll.wait():
            _see_the_end(stop)
        if poll is None or poll.woken:
            _read_wakeups(stop)
            if poll is not None:
                poll.watch(stop._watched)
    time.sleep(stop.remaining(HARD_SECONDS))
    _end_hard(stop)


def _see_the_end(stop: Stop) -> None:
    """The host hung up, so the loop will ask to stop by itself, unless something blocks it before it can."""
    while not stop.requested:
        if not _is_alive(stop._loop, stop.patience):
            stop.request("the host hung up while the loop was blocked")
            _end_hard(stop)
        time.sleep(_LOOK_SECONDS)


class _Hangups:
    """Waits for a wake-up or for a hang-up of the watched pipes, without reading them."""

    def __init__(self, wake_fd: int) -> None:
        self._wake_fd = wake_fd
        self._poll = select.poll()
        self._poll.register(wake_fd, select.POLLIN)
        self._seen: set[int] = set()
        self.woken = False

    def watch(self, fds: list[int]) -> None:
        for fd in fds:
            if fd not in self._seen:
                self._seen.add(fd)
                self._poll.register(fd, 0)

    def wait(self) -> bool:
        """Return whether a watched pipe was hung up; it is watched no longer then."""
        hung_up = self.woken = False
        for fd, event in self._poll.poll():
            if fd == self._wake_fd:
                self.woken = True
            else:
                self._poll.unregister(fd)
                hung_up = hung_up or bool(event & (select.POLLHUP | select.POLLERR))
        return hung_up


def _read_wakeups(stop: Stop) -> None:
    for number in stop._wake_receiver.recv(64):
        if number in _SIGNALS:
            stop.request(signal.Signals(number).name)


def _is_alive(loop: asyncio.AbstractEventLoop, seconds: float) -> bool:
    answered = threading.Event()
    try:
        loop.call_soon_threadsafe(answered.set)
    except RuntimeError:
        return False
    return answered.wait(seconds)


def _end_hard(stop: Stop) -> NoReturn:
    stop.kill_children()
    os._exit(0)


def _has_ended(child: Child) -> bool:
    poll = getattr(child, "poll", None)  # Popen learns of the end by asking; asyncio's Process is told by the loop
    return (poll() if poll is not None else child.returncode) is not None


def _ask_to_end(child: Child) -> None:
    with suppress(OSError, ValueError):
        if child.stdin is not None:
            child.stdin.close()
    with suppress(OSError):
        child.terminate()


def _report(error: BaseException) -> None:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = " ".join(f"entrabot-mcp stopped: {type(error).__name__}: {error}".split())
    print(_redacted(text), file=sys.stderr)


def _redacted(text: str) -> str:
    try:
        from entrabot_host.security.redaction import redact
    except ImportError:
        return text
    return redact(text)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
