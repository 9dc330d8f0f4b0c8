from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable

import psutil
import pytest
from stdio_host import HostProcess

PROMPT = 5.0  # seconds; what keeps these servers busy would take 60


def eof(host: HostProcess) -> None:
    host.hang_up()


def closed_output(host: HostProcess) -> None:
    host.stop_reading()


def interrupt(host: HostProcess) -> None:
    host.process.send_signal(signal.SIGINT)


def terminate(host: HostProcess) -> None:
    host.process.send_signal(signal.SIGTERM)


def both_signals(host: HostProcess) -> None:
    interrupt(host)
    time.sleep(0.11)  # the habit of a real host
    terminate(host)
    terminate(host)


ENDS = [eof, closed_output, interrupt, terminate, both_signals]


@pytest.mark.parametrize("end", ENDS)
def test_idle(host: HostProcess, end: Callable[[HostProcess], None]) -> None:
    end(host)
    assert host.exit_status(PROMPT) == 0
    assert host.error_text() == "lifespan left\n"


@pytest.mark.parametrize("end", ENDS)
def test_with_a_worker_thread_stuck_and_awaited_whatever_happens(
    host: HostProcess, end: Callable[[HostProcess], None]
) -> None:
    host.begin("block_thread")
    assert host.read()["method"] == "notifications/blocked"
    end(host)
    assert host.exit_status(PROMPT) == 0


@pytest.mark.parametrize("end", [eof, both_signals])
def test_with_a_worker_thread_stuck(host: HostProcess, end: Callable[[HostProcess], None]) -> None:
    host.begin("block_thread_abandoned")
    assert host.read()["method"] == "notifications/blocked"
    end(host)
    assert host.exit_status(PROMPT) == 0


@pytest.mark.parametrize("end", ENDS)
def test_with_the_loop_blocked(host: HostProcess, end: Callable[[HostProcess], None]) -> None:
    host.begin("block_loop")
    assert host.read()["method"] == "notifications/blocked"
    end(host)
    assert host.exit_status(PROMPT) == 0


@pytest.mark.parametrize("end", ENDS)
def test_with_a_host_that_does_not_read(host: HostProcess, end: Callable[[HostProcess], None]) -> None:
    host.begin("push_in_background", count=1000, size=5000)
    host.read_until(lambda message: "id" in message)
    for _ in range(100):
        host.begin("blob", size=5000)
    end(host)
    assert host.exit_status(PROMPT) == 0
    assert "lifespan left" in host.error_text()


def test_a_running_call_is_cancelled_at_the_end_of_input(host: HostProcess) -> None:
    request = host.begin("wait_long")
    assert host.read()["method"] == "notifications/blocked"
    host.hang_up()
    assert "error" in host.answer(request)
    assert host.exit_status(PROMPT) == 0


def test_a_crash_is_one_line_and_status_one(launch: Callable[..., HostProcess]) -> None:
    host = launch("crash")
    assert host.exit_status() == 1
    assert host.error_text() == "entrabot-mcp stopped: ValueError: it broke badly\n"


STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(60)
"""


@pytest.mark.parametrize("command", [["cat"], [sys.executable, "-c", STUBBORN]])
def test_no_child_is_left(host: HostProcess, command: list[str]) -> None:
    child = psutil.Process(int(host.call("spawn", command=command)))
    terminate(host)
    assert host.exit_status(PROMPT) == 0
    deadline = time.monotonic() + PROMPT
    while _lives(child):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _lives(child: psutil.Process) -> bool:
    try:
        return child.is_running() and child.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal")
def test_ctrl_c_in_a_terminal(launch: Callable[..., HostProcess]) -> None:
    master, slave = os.openpty()
    host = launch(stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    try:
        os.write(master, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        text = b""
        while b'"id":1,"result"' not in text and b'"id":1,"error"' not in text:
            text += os.read(master, 10_000)
        assert os.get_blocking(master)
        interrupt(host)
        assert host.exit_status(PROMPT) == 0
    finally:
        os.close(master)
