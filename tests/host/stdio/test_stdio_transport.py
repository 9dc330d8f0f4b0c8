from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from stdio_host import PATIENCE, HostProcess


def wait_for(path: Path) -> str:
    deadline = time.monotonic() + PATIENCE
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return path.read_text(encoding="utf-8")


def test_output_of_tools_and_children_never_reaches_the_wire(host: HostProcess) -> None:
    assert host.call("noise") == "end of file; child read 0 bytes"
    host.hang_up()
    assert host.read_to_end() == b""
    assert host.exit_status() == 0
    for text in ("printed", "written", "raw", "from a child", "prompt> "):
        assert text in host.error_text()


def test_a_line_of_ten_megabytes_both_ways(shared_host: HostProcess) -> None:
    assert shared_host.call("length", text="x" * 10_000_000) == "10000000"
    assert len(shared_host.call("blob", size=10_000_000)) == 10_000_000


def test_an_overlong_line_is_answered_and_the_server_lives(launch: Callable[..., HostProcess]) -> None:
    host = launch("small-limit").start()
    host.send_bytes(b"x" * 5_000_000 + b"\n")
    answer = host.read()
    assert answer["id"] is None
    assert answer["error"]["code"] == -32600
    assert "100000 bytes" in answer["error"]["message"]
    assert host.call("length", text="after") == "5"


def test_broken_lines_are_answered_and_the_server_lives(shared_host: HostProcess) -> None:
    shared_host.send_bytes(b'secret garbage\n\n  \r\n{"jsonrpc":"2.0","id":99,"method":"x","params":[]}\r\n')
    torn = b'{"jsonrpc":"2.0","id":98,"method":"x","params":{"t":"\xe2\x82"}}\n'
    shared_host.send_bytes(torn[:-8])
    shared_host.send_bytes(torn[-8:])
    answers = [shared_host.read() for _ in range(3)]
    assert [(answer["id"], answer["error"]["code"]) for answer in answers] == [
        (None, -32700),
        (99, -32600),
        (98, -32700),
    ]
    assert "secret" not in json.dumps(answers)
    assert shared_host.call("length", text="after") == "5"


def test_a_character_cut_between_two_reads_is_whole(shared_host: HostProcess) -> None:
    params = {"name": "length", "arguments": {"text": "€" * 1000}}
    message = {"jsonrpc": "2.0", "id": 50, "method": "tools/call", "params": params}
    line = json.dumps(message, ensure_ascii=False).encode() + b"\n"
    cut = line.index("€".encode()) + 1
    shared_host.send_bytes(line[:cut])
    shared_host.send_bytes(line[cut:])
    assert shared_host.answer(50)["result"]["content"][0]["text"] == "1000"


def test_a_flood_of_broken_lines_is_answered_one_by_one(shared_host: HostProcess) -> None:
    shared_host.send_bytes(b"x\n" * 500)
    for _ in range(500):
        assert shared_host.read()["error"]["code"] == -32700
    assert shared_host.call("length", text="after") == "5"


def test_the_last_line_needs_no_newline_and_is_still_answered(host: HostProcess) -> None:
    host.send_bytes(b'{"jsonrpc":"2.0","id":7,"method":"ping"}')
    host.hang_up()
    assert host.answer(7)["result"] == {}
    assert host.exit_status() == 0


def test_requests_from_a_file_are_answered(launch: Callable[..., HostProcess], tmp_path: Path) -> None:
    info = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "file", "version": "1"}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": info},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        *({"jsonrpc": "2.0", "id": n, "method": "ping"} for n in range(2, 300)),
    ]
    requests, answers = tmp_path / "requests", tmp_path / "answers"
    requests.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    with requests.open("rb") as source, answers.open("wb") as sink:
        assert launch(stdin=source, stdout=sink).exit_status() == 0
    ids = [json.loads(line)["id"] for line in answers.read_text(encoding="utf-8").splitlines()]
    assert ids[0] == 1
    assert sorted(ids) == list(range(1, 300))


@pytest.mark.parametrize("how", ["null device", "closed"])
def test_without_a_host_the_server_ends(launch: Callable[..., HostProcess], how: str) -> None:
    if how == "closed":
        host = launch(stdin=None, stdout=None, preexec_fn=lambda: (os.close(0), os.close(1)))
    else:
        host = launch(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    assert host.exit_status() == 0


def test_one_socket_for_both_directions(launch: Callable[..., HostProcess]) -> None:
    ours, theirs = socket.socketpair()
    with ours, ours.makefile("rwb") as stream:
        with theirs:
            host = launch(stdin=theirs, stdout=theirs)
        stream.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        stream.flush()
        assert json.loads(stream.readline())["id"] == 1
        ours.shutdown(socket.SHUT_WR)
        assert host.exit_status() == 0


def test_three_hundred_concurrent_notifications_arrive_whole_and_in_order(shared_host: HostProcess) -> None:
    request = shared_host.begin("push", count=300, size=5000)
    messages = shared_host.read_until(lambda message: message.get("id") == request)
    assert [message["params"]["n"] for message in messages[:-1]] == list(range(300))
    assert all(len(message["params"]["text"]) == 5000 for message in messages[:-1])


def test_cancelled_senders_neither_tear_lines_nor_block_others(shared_host: HostProcess) -> None:
    request = shared_host.begin("push_some_cancelled", count=300, size=5000)
    messages = shared_host.read_until(lambda message: message.get("id") == request)
    arrived = [message["params"]["n"] for message in messages[:-1]]
    assert all(len(message["params"]["text"]) == 5000 for message in messages[:-1])
    assert arrived == sorted(arrived)
    returned = {int(n) for n in messages[-1]["result"]["content"][0]["text"].split(",")}
    assert returned >= {n for n in range(300) if n % 3}
    assert returned <= set(arrived)


def test_a_host_that_does_not_read_makes_pushes_wait_and_nothing_else(host: HostProcess, tmp_path: Path) -> None:
    request = host.begin("stall_then_look", file=str(tmp_path / "report"))
    assert wait_for(tmp_path / "report") == "True 10"
    messages = host.read_until(lambda message: message.get("params", {}).get("n") == 99)
    assert [message["params"]["n"] for message in messages if "method" in message] == list(range(100))
    if not any(message.get("id") == request for message in messages):
        host.answer(request)


def test_requests_wait_in_the_pipe_while_answers_cannot_leave(shared_host: HostProcess) -> None:
    ids = [shared_host.begin("blob", size=50_000) for _ in range(60)]
    ids += [shared_host.begin("length", text="x" * 500) for _ in range(60)]
    got = [shared_host.read()["id"] for _ in ids]
    assert sorted(got) == ids


def test_each_answer_is_reported_with_its_method(host: HostProcess) -> None:
    host.answer(host.send("ping"))
    host.answer(host.send("no/such/method"))
    assert host.call("answered") == "initialize,ping,no/such/method"


def test_a_cancelled_request_is_never_answered(shared_host: HostProcess) -> None:
    request = shared_host.begin("wait_long")
    assert shared_host.read()["method"] == "notifications/blocked"
    shared_host.send("notifications/cancelled", {"requestId": request}, request=False)
    ping = shared_host.send("ping")
    assert [message["id"] for message in shared_host.read_until(lambda message: message.get("id") == ping)] == [ping]
