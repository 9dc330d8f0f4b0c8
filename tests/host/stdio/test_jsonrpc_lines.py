from __future__ import annotations

import json
from typing import Any

import pytest
from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from entrabot_host.wire.jsonrpc import InvalidLineError, encode, parse, to_message


def refusal(line: bytes) -> dict[str, Any]:
    with pytest.raises(InvalidLineError) as caught:
        to_message(parse(line))
    answer = json.loads(encode(caught.value.answer))
    assert "secret" not in json.dumps(answer)
    return {"id": answer["id"], "code": answer["error"]["code"]}


def test_a_request_survives_the_way_there_and_back() -> None:
    request = JSONRPCRequest(jsonrpc="2.0", id=7, method="tools/call", params={"text": "Grüße\u2028\n"})
    line = encode(request)
    assert line.count(b"\n") == 1
    assert to_message(parse(line)) == request


@pytest.mark.parametrize("end", [b"\r", b" ", b"\t"])
def test_white_space_around_a_message_is_fine(end: bytes) -> None:
    message = to_message(parse(b' {"jsonrpc":"2.0","method":"ping"}' + end))
    assert isinstance(message, JSONRPCNotification)


@pytest.mark.parametrize(
    ("line", "request_id"),
    [
        (b"secret", None),
        (b'{"jsonrpc":"2.0","id":1,"method":"secret"', None),
        (b'{"jsonrpc":"2.0","id":1,"method":"secret","params":{"a":NaN}}', 1),
        (b'{"jsonrpc":"2.0","id":"x","method":"secret","params":{"a":"\\ud83d"}}', "x"),
        (b'{"jsonrpc":"2.0","id":5,"method":"secret","params":{"a":"\xc3"}}', 5),
        (b'{"jsonrpc":"2.0","id":"\xff","method":"secret"}', "\ufffd"),
        (b"[" * 100_000, None),
        (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"secret"}', None),
    ],
)
def test_what_is_no_json_is_a_parse_error(line: bytes, request_id: Any) -> None:
    assert refusal(line) == {"id": request_id, "code": -32700}


@pytest.mark.parametrize(
    ("line", "request_id"),
    [
        (b'"secret"', None),
        (b"1", None),
        (b"null", None),
        (b"{}", None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"secret"}]', None),
        (b'{"jsonrpc":"1.0","id":2,"method":"secret"}', 2),
        (b'{"jsonrpc":"2.0","id":3,"method":"secret","params":["secret"]}', 3),
        (b'{"jsonrpc":"2.0","id":4,"method":17}', 4),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"secret"}', None),
        (b'{"jsonrpc":"2.0","id":true,"method":"secret"}', None),
        (b'{"jsonrpc":"2.0","id":null,"method":"secret"}', None),
        (b'{"jsonrpc":"2.0","id":6,"result":"secret"}', None),
    ],
)
def test_what_is_no_message_is_an_invalid_request(line: bytes, request_id: Any) -> None:
    assert refusal(line) == {"id": request_id, "code": -32600}


def test_half_an_emoji_is_replaced_not_lost() -> None:
    line = encode(JSONRPCResponse(jsonrpc="2.0", id=1, result={"text": "cut \ud83d here"}))
    assert json.loads(line.decode("utf-8"))["result"] == {"text": "cut ? here"}


def test_absent_members_stay_absent() -> None:
    assert encode(JSONRPCNotification(jsonrpc="2.0", method="m")) == b'{"jsonrpc":"2.0","method":"m"}\n'
