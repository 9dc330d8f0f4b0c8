from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from stdio_host import HostProcess


@pytest.fixture
def host() -> Iterator[HostProcess]:
    with HostProcess() as process:
        yield process.start()


@pytest.fixture(scope="module")
def shared_host() -> Iterator[HostProcess]:
    """For tests that leave the server as they found it: starting one takes a second."""
    with HostProcess() as process:
        yield process.start()


@pytest.fixture
def launch() -> Iterator[Callable[..., HostProcess]]:
    running: list[HostProcess] = []

    def start(*args: str, **popen: Any) -> HostProcess:
        running.append(HostProcess(*args, **popen))
        return running[-1]

    yield start
    for process in running:
        with process:
            pass
