"""The relay: a child process of the server that holds the sessions with the observers.

It lives apart so that no observer, however it behaves, takes the server's time: the server writes one line per copy
and goes on. When its standard input ends, because the server ended or died, it ends every observer it started.

Lines in: first ``{"peers": [...], "level": "WARNING"}``, then the arguments of one ``observe`` call each. Lines out:
``{"sink", "state", "problem", "delivered", "dropped", "failed", "failed_in_a_row"}`` or ``{"log": [level, text]}``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, BinaryIO, Final

LINE_LIMIT: Final = 64 * 1024 * 1024
"""Bytes. Longer lines are never written by the server."""
REPORT_SECONDS: Final = 0.2
"""The least time between two reports of counts."""
DRAIN_SECONDS: Final = 0.25
"""How long the last copies may take once the server is gone."""
NICENESS: Final = 5
"""How much the relay and the observers it starts give way to the server when the processors are busy."""
GRACE_SECONDS: Final = 0.5
"""How long observers may take to end by themselves after that."""
LAST_SECONDS: Final = 2.0
"""When the relay ends at the latest, counted from the end of its input."""


class RelayLoop(asyncio.SelectorEventLoop):
    """An event loop that remembers the processes it started, to end those that do not end by themselves."""

    def __init__(self) -> None:
        super().__init__()
        self._processes: list[asyncio.SubprocessTransport] = []

    async def subprocess_exec(self, *args: Any, **kwargs: Any) -> Any:
        """Start a process, as the loop does, and remember it."""
        transport, protocol = await super().subprocess_exec(*args, **kwargs)
        self._processes = [known for known in self._processes if known.get_returncode() is None]
        self._processes.append(transport)
        return transport, protocol

    def kill_processes(self) -> None:
        """Kill every process that is still there, with its group: the SDK makes each the leader of one."""
        for transport in self._processes:
            if transport.get_returncode() is None and (pid := transport.get_pid()) is not None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)


class Output:
    """Lines to the server. They are short and few; a server that does not read them for long is about to end."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def say(self, line: dict[str, Any]) -> None:
        """Write one line."""
        with suppress(OSError, ValueError):
            self._stream.write(json.dumps(line).encode() + b"\n")
            self._stream.flush()


class LogLines(logging.Handler):
    """Hands our own log lines to the server, which has the log."""

    def __init__(self, output: Output) -> None:
        super().__init__()
        self._output = output

    def emit(self, record: logging.LogRecord) -> None:
        """Write one."""
        self._output.say({"log": [record.levelno, record.getMessage()]})


class Observers:
    """The channels, and reports about them."""

    def __init__(self, peers: Iterable[Any], output: Output) -> None:
        from entrabot_efferent_copy.sinks import Sink
        from entrabot_efferent_copy.transports import session_factory

        self._output = output
        self._sinks = [Sink(peer.name, session_factory(peer, probe=True)) for peer in peers]
        self._reported: dict[str, Any] = {}
        self._channels = {sink.name: sink.start(self._schedule) for sink in self._sinks}
        self._pending: asyncio.TimerHandle | None = None
        self._report()

    def put(self, payload: dict[str, Any], size: int) -> None:
        """Queue a copy for every observer that is there or was."""
        for channel in self._channels.values():
            if channel.was_live:
                channel.put(payload, size)

    def _schedule(self) -> None:
        """Report soon; at once when an observer came or went."""
        states = {name: channel.state for name, channel in self._channels.items()}
        if states != {name: line["state"] for name, line in self._reported.items()}:
            self._report()
        elif self._pending is None:
            self._pending = asyncio.get_running_loop().call_later(REPORT_SECONDS, self._report)

    def _report(self) -> None:
        if self._pending is not None:
            self._pending.cancel()
            self._pending = None
        for name, channel in self._channels.items():
            line = {"sink": name, "state": channel.state.value, "problem": channel.problem, **vars(channel.counts)}
            if self._reported.get(name) != line:
                self._reported[name] = line
                self._output.say(line)

    async def aclose(self) -> None:
        """Send what is queued, if that is quick, then end all sessions; what takes longer is left to itself."""
        channels = list(self._channels.values())
        await _for_a_while([channel.drain() for channel in channels if channel.live], DRAIN_SECONDS)
        await _for_a_while([channel.aclose() for channel in channels], GRACE_SECONDS)


async def _for_a_while(work: Iterable[Coroutine[Any, Any, None]], seconds: float) -> None:
    if tasks := [asyncio.create_task(part) for part in work]:
        await asyncio.wait(tasks, timeout=seconds)


async def relay(lines: asyncio.StreamReader, output: Output, ending: Callable[[], None]) -> None:
    """Serve until the lines end; then say so with ``ending`` and close."""
    from entrabot_efferent_copy.peers import Peer

    first = json.loads(await lines.readline())
    _set_up_logging(output, first["level"])
    observers = Observers([Peer.from_dict(peer) for peer in first["peers"]], output)
    while line := await lines.readline():
        observers.put(json.loads(line), len(line))
        await asyncio.sleep(0)  # lines that are there already are read without waiting
    ending()
    await observers.aclose()


def _end_for_certain(loop: RelayLoop) -> None:
    """Whatever goes wrong in closing, nobody is left to notice a relay that stays: a thread ends it."""

    def end() -> None:
        loop.kill_processes()
        os._exit(0)

    timer = threading.Timer(LAST_SECONDS, end)
    timer.daemon = True
    timer.start()


def _set_up_logging(output: Output, level: str) -> None:
    """Our own lines only: the SDK logs every odd line of an observer, and addresses with what is secret in them."""
    logging.basicConfig(handlers=[logging.NullHandler()], force=True)
    logging.lastResort = None
    logger = logging.getLogger("entrabot_efferent_copy")
    logger.setLevel(level)
    logger.addHandler(LogLines(output))
    logger.propagate = False


async def _main(loop: RelayLoop, output: Output) -> None:
    reader = asyncio.StreamReader(limit=LINE_LIMIT)
    source = os.fdopen(0, "rb", buffering=0, closefd=False)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
    with suppress(ConnectionError, asyncio.IncompleteReadError):
        await relay(reader, output, lambda: _end_for_certain(loop))


def main() -> None:
    """Run until standard input ends. Signals meant for the server's group do not concern the relay."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError):
        os.nice(NICENESS)
    loop = RelayLoop()
    output = Output(os.fdopen(os.dup(1), "wb", buffering=0))
    os.dup2(2, 1)  # nothing but our lines may get among our lines
    serving = loop.create_task(_main(loop, output))
    loop.add_signal_handler(signal.SIGTERM, serving.cancel)
    try:
        loop.run_until_complete(serving)
    except (asyncio.CancelledError, KeyboardInterrupt):
        pass
    finally:
        loop.kill_processes()
    os._exit(0)  # without joining the SDK's threads


if __name__ == "__main__":
    main()
