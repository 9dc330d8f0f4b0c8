"""What leaves in a copy, and what never does."""

from __future__ import annotations

import copy
import dataclasses
import json
from datetime import date
from typing import Any

import pytest
from entrabot_efferent_copy import _collect_kwargs, _json_safe, _redact_sensitive, _wrap_result
from entrabot_efferent_copy.redaction import LONGEST_TEXT, failure, safe_copy
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

SECRET = "s3cr3t-value"
DENIED = [
    *("token", "secret", "password", "passwd", "authorization", "client_secret", "refresh_token", "access_token"),
    *("api_key", "apikey", "bearer", "credential", "private_key"),
]


@dataclasses.dataclass
class Point:
    x: int
    token: str = ""


class Plain(BaseModel):
    name: str


class Model(BaseModel):
    when: date
    api_key: str


@pytest.mark.parametrize("key", DENIED)
@pytest.mark.parametrize("shape", ["{}", "X-{}-2", "my{}s"])
def test_denied_keys_are_redacted_in_any_case(key: str, shape: str) -> None:
    for name in (shape.format(key), shape.format(key).upper(), shape.format(key).title()):
        assert _redact_sensitive({"a": [{"b": ({name: SECRET},)}]}) == {"a": [{"b": ({name: "<redacted>"},)}]}


def test_an_innocent_name_is_forwarded() -> None:
    assert _redact_sensitive({"auth_blob": "x", "author": ["y"]}) == {"auth_blob": "x", "author": ["y"]}


def test_strings_that_are_json_are_redacted_inside() -> None:
    inner = json.dumps({"rows": [{"password": SECRET, "name": "ü"}]})
    redacted = _redact_sensitive({"metadata": inner})["metadata"]
    assert json.loads(redacted) == {"rows": [{"password": "<redacted>", "name": "ü"}]}


@pytest.mark.parametrize(
    "text",
    [
        '{"a":  1}',
        "[1,\t2]",
        "{not json",
        "[x] token: y",
        '"quoted"',
        "",
        "{",
        "plain",
        '{"a": "{\\"b\\": 1}"}',
        "[NaN]",
    ],
)
def test_strings_without_anything_denied_stay_exactly_as_they_are(text: str) -> None:
    assert _redact_sensitive({"text": text}) == {"text": text}


@pytest.mark.parametrize(
    "text",
    [
        f'{{"d": {{"token": "{SECRET}"}}, "d": 1}}',
        f'  \ufeff\n[{{"token": "{SECRET}"}}]',
        f'{{"token": "{SECRET}\n"}}',
        json.dumps(json.dumps({"token": SECRET})),
        f'{{"to\\u006ben": "{SECRET}"}}',
        "[" * 5000 + f'{{"token": "{SECRET}"}}' + "]" * 5000,
        "[" * 70 + f'{{"token": "{SECRET}"}}' + "]" * 70,
    ],
)
def test_json_written_to_deceive_is_redacted_too(text: str) -> None:
    assert SECRET not in json.dumps(_redact_sensitive({"text": text}))


def test_coercion() -> None:
    assert _wrap_result({"a": 1}) == {"a": 1}
    assert _wrap_result("text") == {"value": "text"}
    assert _wrap_result(None) == {"value": None}
    assert _wrap_result([1, Point(2, SECRET)]) == {"value": [1, {"x": 2, "token": "<redacted>"}]}
    assert _wrap_result(Model(when=date(2026, 1, 2), api_key=SECRET)) == {
        "value": {"when": "datetime.date(2026, 1, 2)", "api_key": "<redacted>"}
    }
    assert json.dumps(_wrap_result({"s": {1}, "b": b"x", 3: object}))


def test_json_safe() -> None:
    assert _json_safe({"a": [1]}) == {"a": [1]}
    assert _json_safe(Point(1, "t")) == {"x": 1, "token": "t"}
    assert _json_safe(Plain(name="n")) == {"name": "n"}
    assert _json_safe({1, 2}) == "{1, 2}"
    assert _json_safe(Point) == repr(Point)


def test_bearer_tokens_in_errors_are_scrubbed() -> None:
    jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"
    error = ValueError(f"Authorization: Bearer {jwt} refused by https://x.example/f?sig={SECRET}")
    told = failure(error)
    assert told["error_type"] == "ValueError"
    assert jwt not in told["error"]
    assert SECRET not in told["error"]
    assert failure(ValueError("plain"))["error"] == "plain"


def test_values_that_contain_themselves_or_are_huge_end() -> None:
    loop: dict[str, Any] = {"token": SECRET}
    loop["self"] = [loop, loop]
    assert SECRET not in json.dumps(_redact_sensitive(loop))
    deep: Any = {"token": SECRET}
    for _ in range(3000):
        deep = [deep]
    assert SECRET not in json.dumps(_redact_sensitive(deep))
    copied, size = safe_copy({"content": "x" * (LONGEST_TEXT + 1)})
    assert copied == {"content": f"<{LONGEST_TEXT + 1} characters left out>"}
    assert size > LONGEST_TEXT


def test_arguments_are_collected_by_name() -> None:
    def tool(a: int, b: str = "x", **more: Any) -> None: ...

    assert _collect_kwargs(tool, (1,), {"b": "y", "token": SECRET}) == {"a": 1, "b": "y", "token": "<redacted>"}


def test_the_servers_context_is_no_argument() -> None:
    from mcp.server.mcpserver import Context, MCPServer

    def tool(a: int, ctx: Context) -> None: ...

    assert _collect_kwargs(tool, (), {"a": 1, "ctx": Context(mcp_server=MCPServer("x"))}) == {"a": 1}


# --- properties -----------------------------------------------------------------------------------------------------

WORDS = st.text(alphabet="abcdefgh_ {}[]\"\\:,'é\n", max_size=12)
INNOCENT = st.sampled_from(["name", "rows", "auth_blob", "x", ""])
GUILTY = st.builds(
    lambda before, key, upper, after: before + (key.upper() if upper else key) + after,
    st.sampled_from(["", "X-", "the_"]),
    st.sampled_from(DENIED),
    st.booleans(),
    st.sampled_from(["", "s", "_2"]),
)
HIDDEN = st.recursive(
    st.just(SECRET),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(INNOCENT, inner, max_size=2),
    max_leaves=4,
)


def _encoded(value: Any, ascii_only: bool, indent: int | None, before: str) -> str:
    return before + json.dumps(value, ensure_ascii=ascii_only, indent=indent)


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(INNOCENT, inner, max_size=3)
        | st.builds(
            lambda a, b: {**a, **b}, st.dictionaries(INNOCENT, inner), st.dictionaries(GUILTY, HIDDEN, max_size=2)
        )
        | st.builds(_encoded, inner, st.booleans(), st.sampled_from([None, 2]), st.sampled_from(["", " ", "\n\t"]))
    )


VALUES = st.recursive(st.none() | st.booleans() | st.integers() | WORDS, _containers, max_leaves=25)


@given(VALUES)
@settings(max_examples=400, deadline=None)
def test_no_value_under_a_denied_key_leaves(value: Any) -> None:
    before = copy.deepcopy(value)
    told = json.dumps(_wrap_result(value))
    assert SECRET not in told
    assert value == before


@given(VALUES)
@settings(max_examples=150, deadline=None)
def test_redaction_is_stable_and_leaves_the_innocent_alone(value: Any) -> None:
    once = _redact_sensitive(value)
    assert _redact_sensitive(once) == once
    if SECRET not in json.dumps(value):
        assert once == value or "<redacted>" in json.dumps(once)
