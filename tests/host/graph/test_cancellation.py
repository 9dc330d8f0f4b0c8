"""A call that is cancelled leaves no socket open and no connection busy, wherever it was."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import psutil
import pytest

from entrabot_host.graph import wire
from entrabot_host.graph.client import GraphClient
from entrabot_host.graph.wire import Outgoing, Wire
from entrabot_host.identity.tenants import TenantFinder
from entrabot_host.security.clouds import Cloud
from tests.host.graph.conftest import Tokens
from tests.host.graph.server import Authority, Server, answer, proxy_running

Call = Callable[[GraphClient, Server], Coroutine[Any, Any, object]]


class CancelledAt:
    """Awaits something, in a task that is cancelled when it waits for the ``turn``-th time, and ``more`` times after.

    This is how a task is cancelled by its owner and by `asyncio.timeout`; a shielded scope of anyio does not hold it.
    """

    def __init__(self, work: Coroutine[Any, Any, object], turn: int, more: int = 0) -> None:
        self._work = work
        self._turns = range(turn, turn + more + 1)

    def __await__(self) -> Generator[Any, Any, object]:
        steps = self._work.__await__()
        turn, thrown = 0, None
        while True:
            try:
                waiting = steps.throw(thrown) if thrown else steps.send(None)
            except StopIteration as end:
                return end.value
            if turn in self._turns:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            turn += 1
            try:
                thrown = None
                yield waiting
            except BaseException as error:
                thrown = error


async def is_cancelled(work: Coroutine[Any, Any, object], turn: int, more: int) -> bool:
    """Whether the work was cancelled; False when it was over before that turn."""

    async def run() -> object:
        return await CancelledAt(work, turn, more)

    (outcome,) = await asyncio.gather(asyncio.create_task(run()), return_exceptions=True)
    if isinstance(outcome, asyncio.CancelledError):
        return True
    assert not isinstance(outcome, BaseException), outcome
    return False


def descriptors() -> int:
    return psutil.Process().num_fds()


async def falls_to(expected: int) -> None:
    """Wait until no more files and sockets are open than before. What is unclosed and collected is an error, too."""
    deadline = time.monotonic() + 10
    gc.collect()
    while descriptors() > expected:
        assert time.monotonic() < deadline, [each for each in psutil.Process().net_connections() if each.raddr]
        await asyncio.sleep(0.01)


async def cancelled_everywhere(
    work: Callable[[], Coroutine[Any, Any, object]], after: Callable[[], Awaitable[object]], more: int
) -> int:
    """Cancel the work at each of its waits in turn, with ``after`` after each; return how many there were."""
    turn = 0
    while await is_cancelled(work(), turn, more):
        await after()
        turn += 1
        assert turn < 500
    return turn


@asynccontextmanager
async def route(through_proxy: bool, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    if not through_proxy:
        yield
        return
    async with proxy_running() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        yield


async def a_request(graph: GraphClient, server: Server) -> object:
    return await graph.request("GET", "/me")


async def a_refused_token(graph: GraphClient, server: Server) -> object:
    server.script.append(answer(401))
    return await graph.request("GET", "/me")


async def an_upload(graph: GraphClient, server: Server) -> object:
    return await graph.upload(f"{server.url}/session", b"x" * 100_000, headers={})


async def a_download(graph: GraphClient, server: Server) -> object:
    async with aclosing(graph.download(f"{server.url}/content", max_bytes=1_000_000)) as chunks:
        return [chunk async for chunk in chunks]


@pytest.mark.parametrize(
    ("call", "through_proxy", "more"),
    [
        (a_request, False, 0),
        (a_request, False, 3),
        (a_request, True, 0),
        (a_request, True, 1),
        (a_refused_token, False, 0),
        (an_upload, True, 0),
        (a_download, False, 0),
        (a_download, True, 1),
    ],
)
async def test_wherever_a_call_is_cancelled(
    cloud: Cloud,
    authority: Authority,
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    *,
    call: Call,
    through_proxy: bool,
    more: int,
) -> None:
    monkeypatch.setattr(wire, "MAX_CONNECTIONS", 1)  # one that stayed busy would block the next request
    server.default = lambda _: answer(200, b"x" * 100_000)
    async with route(through_proxy, monkeypatch):
        open_before = descriptors()
        graph = GraphClient(cloud, Tokens(), ca_bundle=authority.ca_file)

        async def still_works() -> None:
            server.script.clear()
            await graph.request("GET", "/me", timeout=10)
            await graph.drop_connections()

        await still_works()
        assert await cancelled_everywhere(lambda: call(graph, server), still_works, more) > 8
        await graph.aclose()
        await falls_to(open_before)


async def test_on_a_kept_connection(cloud: Cloud, authority: Authority, server: Server) -> None:
    graph = GraphClient(cloud, Tokens(), ca_bundle=authority.ca_file)

    async def again() -> None:
        await graph.request("GET", "/me", timeout=10)

    await again()
    open_before = descriptors()
    assert await cancelled_everywhere(lambda: graph.request("GET", "/me"), again, 0) > 4
    await falls_to(open_before)
    await graph.aclose()


async def test_a_time_limit_during_the_handshake(cloud: Cloud, authority: Authority) -> None:
    accepted: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(lambda _, writer: accepted.append(writer), "127.0.0.1", 0)
    url = f"https://127.0.0.1:{silent.sockets[0].getsockname()[1]}/"
    connections = Wire(authority.ca_file, "test")
    await connections.ready()
    open_before = descriptors()
    for _ in range(3):
        with pytest.raises(wire.WireFailure, match="in time") as caught:
            await connections.exchange(Outgoing("GET", url), seconds=0.2, max_bytes=10)
        assert not caught.value.sent
    for writer in accepted:
        writer.close()
        await writer.wait_closed()
    assert len(accepted) == 3
    await falls_to(open_before)
    await connections.aclose()
    silent.close()


async def test_handshakes_that_fail_behind_a_proxy_use_nothing_up(
    cloud: Cloud, server: Server, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "MAX_CONNECTIONS", 2)
    async with route(True, monkeypatch):
        graph = GraphClient(cloud, Tokens())
        for _ in range(3):
            with pytest.raises(Exception, match="certificate"):
                await graph.request("GET", "/me", timeout=10)
        await graph.aclose()


async def test_others_under_way_are_not_disturbed(cloud: Cloud, authority: Authority, server: Server) -> None:
    graph = GraphClient(cloud, Tokens(), ca_bundle=authority.ca_file)
    await graph.request("GET", "/me")
    turn = 0
    while True:
        others = [asyncio.create_task(graph.request("GET", "/me", timeout=20)) for _ in range(3)]
        cancelled = await is_cancelled(graph.request("GET", "/me"), turn, 0)
        assert [each.status for each in await asyncio.gather(*others)] == [200] * 3
        if not cancelled:
            break
        turn += 1
    assert turn > 4
    await graph.aclose()


async def test_a_domains_tenant(cloud: Cloud, authority: Authority, server: Server) -> None:
    server.default = lambda _: answer(200, {"issuer": "https://x/11111111-2222-3333-4444-555555555555/v2.0"})
    there = Cloud(**{**vars(cloud), "login_url": server.url})
    open_before = descriptors()
    names = (f"d{number}.example" for number in range(1000))
    finder = TenantFinder(there, authority.ca_file)

    async def nothing() -> None:
        await asyncio.sleep(0)

    assert await cancelled_everywhere(lambda: finder.tenant_of(next(names)), nothing, 0) > 8
    await finder.aclose()
    await falls_to(open_before)


async def test_a_client_that_comes_too_late_is_closed(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    connections = Wire(authority.ca_file, "test")

    def make(*arguments: Any) -> Any:
        connections._closed = True  # as `aclose` does while a worker thread makes the client
        made.append(original(*arguments))
        return made[0]

    original = wire.make_client
    monkeypatch.setattr(wire, "make_client", make)
    with pytest.raises(wire.WireFailure):
        await connections.exchange(Outgoing("GET", "https://127.0.0.1:1/"), seconds=5, max_bytes=10)
    assert made[0].is_closed
