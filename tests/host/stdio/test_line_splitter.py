from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrabot_host.wire.lines import LineSplitter, Overlong

LIMIT = 20


def split(chunks: list[bytes], limit: int = LIMIT) -> list[bytes | Overlong]:
    splitter = LineSplitter(limit)
    return [line for chunk in chunks for line in splitter.feed(chunk)] + splitter.end()


def expected(data: bytes, limit: int = LIMIT) -> list[bytes | Overlong]:
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [line if len(line) <= limit else Overlong.LINE for line in lines]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


@given(
    st.lists(st.binary(max_size=2 * LIMIT).map(lambda b: b.replace(b"x", b"\n")) | st.just(b"\n"), max_size=20).map(
        b"".join
    ),
    st.lists(st.integers(min_value=0), max_size=30),
)
def test_any_chunking_gives_the_same_lines(data: bytes, places: list[int]) -> None:
    assert split(cut(data, places)) == expected(data)


@given(st.integers(1, 5000), st.integers(1, 200_000), st.sampled_from([b"", b"\n", b"\nrest"]))
def test_long_lines_in_small_chunks_are_whole(step: int, length: int, tail: bytes) -> None:
    data = bytes(range(11, 251)) * (length // 240 + 1)
    data = data[:length] + tail
    chunks = [data[at : at + max(step, length // 500)] for at in range(0, len(data), max(step, length // 500))]
    lines = split(chunks, limit=150_000)
    assert lines == expected(data, limit=150_000)
    assert all(type(line) is bytes for line in lines if line is not Overlong.LINE)


@pytest.mark.parametrize(("length", "fits"), [(LIMIT - 1, True), (LIMIT, True), (LIMIT + 1, False)])
def test_the_limit_counts_the_line_without_its_newline(length: int, fits: bool) -> None:
    line = b"a" * length
    assert split([line + b"\nnext"]) == [line if fits else Overlong.LINE, b"next"]


def test_an_overlong_line_is_not_stored() -> None:
    splitter = LineSplitter(LIMIT)
    for _ in range(1000):
        assert splitter.feed(b"a" * 1000) == []
    assert splitter._begun.getvalue() == b""
    assert splitter.feed(b"\nok\n") == [Overlong.LINE, b"ok"]


def test_an_overlong_last_line_is_reported_at_the_end() -> None:
    assert split([b"ok\n", b"a" * 100]) == [b"ok", Overlong.LINE]
