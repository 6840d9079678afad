"""The bounds of a body: kept in small memory by the hostile, never met by the honest."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trimtab.wire import (
    LIMITS,
    Block,
    Event,
    Segment,
    SessionClock,
    StepBlock,
    StepSummary,
    WireError,
    decode_segment,
    document,
    encode_segment,
)

MOST_MEMORY_BYTES = 100_000_000
TICKS = list(range(0, 10_000, 500))
WIDE = replace(LIMITS, depth=10**9, containers=10**9, values=10**9, texts=10**9)


def _segment(**parts: Any) -> Segment:
    clock = SessionClock(UUID(int=2), "boot", 1_760_000_000 * 10**9, 5)
    return Segment(UUID(int=1), "job", 0, "machine", clock, 0, 0, 10_000, 500, **parts)


def _body(**extra: str) -> bytes:
    """Return a segment with more fields, each given as JSON text."""
    plain = gzip.decompress(encode_segment(_segment())).decode()
    more = "".join(f',"{name}":{text}' for name, text in extra.items())
    return gzip.compress(f"{plain[:-1]}{more}}}".encode(), 1)


def _columns(column: str, series: int, ticks: int) -> str:
    named = ",".join(f'"a.b{i}":{column}' for i in range(series))
    return f'[{{"t":{{"d":[0{",1" * (ticks - 1)}]}},"columns":{{{named}}}}}]'


def _refused(body: bytes) -> WireError:
    with pytest.raises(WireError) as caught:
        decode_segment(body)
    return caught.value


REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "100 MB of zeros": (lambda: gzip.compress(bytes(100_000_000)), "over 8388608 bytes"),
    "10,000 levels": (lambda: _body(x="[" * 10_000 + "]" * 10_000), "over 32 levels"),
    "10,000 levels, not closed": (lambda: _body(x='{"a":' * 10_000), "over 32 levels"),
    "a million lists": (lambda: _body(x=f"[{'[],' * 10**6}0]"), "over 100000 lists"),
    "a million series": (lambda: _body(blocks=_columns("[1]", 10**6, 1)), "over 2097152 bytes"),
    "400,000 series": (lambda: _body(blocks=_columns("7", 400_000, 1)), "over 200000 texts"),
    "5,000 series": (lambda: _body(blocks=_columns("[1]", 5_000, 1)), "over 4000 series"),
    "30 million values": (lambda: _body(x=f"[{'0,' * 30_000_000}0]"), "over 750000 values"),
    "8 million quotes": (lambda: gzip.compress(b'"' * 8_000_000), "over 200000 texts"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_body_that_would_unfold_is_refused_before_it_does(kind):
    make, problem = REFUSED[kind]
    error = _refused(make())
    assert problem in error.problem
    assert error.fix


AT_THE_BOUND: dict[str, Callable[[], bytes]] = {
    "large numbers": lambda: _body(
        blocks=_columns(f'{{"d":[0{",2000000000" * 18_499}]}}', 37, 18_500)
    ),
    "fractions": lambda: _body(x=f"[{'1.5,' * 740_000}0]"),
    "objects": lambda: _body(x="[" + '{"a":1},' * 99_000 + "0]"),
    "names": lambda: _body(x="{" + ",".join(f'"k{i}":1.5' for i in range(199_000)) + "}"),
    "one long text of wide characters": lambda: _body(x=f'"{"a" * 8_000_000}😀"'),
    "the same, escaped": lambda: _body(x=f'"\\ud83d\\ude00{"a" * 8_000_000}"'),
    "repeated values": lambda: _body(blocks=_columns('{"k":1.5,"n":20000}', 99, 20_000)),
    "events without a kind": lambda: _body(events="[" + '{"t":1},' * 9_999 + "0]"),
}


@pytest.mark.parametrize("kind", AT_THE_BOUND)
def test_a_body_just_within_the_bounds_costs_less_than_100_mb(kind):
    body = AT_THE_BOUND[kind]()
    tracemalloc.start()
    try:
        assert decode_segment(body).seq == 0
        assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY_BYTES
    finally:
        tracemalloc.stop()


def test_the_segment_of_the_largest_machine_is_taken_whole():
    """16 GPUs of 30 series, 512 cores and 500 more, 50,000 steps of 100 ranks, 5,000 metrics."""
    names = [f"gpu{gpu}.quantity{i}_pct" for gpu in range(16) for i in range(30)]
    names += [f"cpu{core}.busy_pct" for core in range(512)]
    names += [f"disk.quantity{i}_bytes_total" for i in range(500)]
    columns: dict[str, list[int | float | None]] = {
        name: [(i * 37 + t * 61) % 9973 / 100 for t in range(len(TICKS))]
        for i, name in enumerate(names)
    }
    steps = [
        StepBlock(
            rank,
            "train",
            [i * 20_011 + rank for i in range(500)],
            [20_000 + (i * 7919 + rank) % 997 for i in range(500)],
            [(i * 104_729 + rank) % 9_973 for i in range(500)],
            [64] * 500,
        )
        for rank in range(100)
    ]
    histogram = dict.fromkeys(range(60), 1)
    summaries = [
        StepSummary(0, "train", second * 1000, 90, 900, 9, 11, 0, 64, histogram, [9] * 20)
        for second in range(2_000)
    ]
    events = [
        Event(i, "metric", {"name": f"loss/{i}", "value": i / 7, "step": i}) for i in range(5_000)
    ]
    segment = _segment(
        blocks=[Block(TICKS, columns)], steps=steps, step_summaries=summaries, events=events
    )
    assert decode_segment(encode_segment(segment)) == segment


json_documents = st.dictionaries(
    st.text(max_size=8),
    st.recursive(
        st.none() | st.integers() | st.text(st.sampled_from('"\\[]{},:a\n😀'), max_size=8),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
        max_leaves=12,
    ),
)


def _depth(part: Any) -> int:
    inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else None
    return 0 if inner is None else 1 + max(map(_depth, inner), default=0)


def _parts(part: Any) -> list[Any]:
    if isinstance(part, dict):
        return [part, *part, *(each for value in part.values() for each in _parts(value))]
    if isinstance(part, list):
        return [part, *(each for value in part for each in _parts(value))]
    return [part]


@given(json_documents, st.booleans(), st.integers(1, 9), st.sampled_from([None, 1]))
def test_levels_and_parts_are_counted_as_a_parser_would(value, escaped, piece_bytes, indent):
    """Texts may hold anything, and the pieces may be cut anywhere."""
    text = json.dumps(value, ensure_ascii=escaped, indent=indent)
    body, parts = gzip.compress(text.encode()), _parts(value)
    true = {
        "depth": _depth(value),
        "containers": sum(isinstance(part, dict | list) for part in parts),
        "texts": sum(isinstance(part, str) for part in parts),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document, "_PIECE_BYTES", piece_bytes)
        assert document.read_document(body, replace(WIDE, **true)) == value
        for name, count in true.items():
            if count:
                with pytest.raises(WireError, match="over"):
                    document.read_document(body, replace(WIDE, **{name: count - 1}))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig"])
def test_another_encoding_can_not_hide_the_shape(encoding):
    plain = gzip.decompress(encode_segment(_segment())).decode()
    error = _refused(gzip.compress(plain.encode(encoding)))
    assert error.field == "body"


@pytest.mark.parametrize("name", ["nul \0", "half \ud800", "n" * 300])
def test_a_name_that_no_database_keeps_is_refused_by_one_that_it_does(name):
    block = {"t": [0], "columns": {name: [1], "host.a_pct": [1]}}
    segment = decode_segment(
        _body(blocks=json.dumps([block]), events=json.dumps([{"t": 0, "kind": "x", name: 1}]))
    )
    assert list(segment.blocks[0].columns) == ["host.a_pct"]
    assert segment.events == []
    for refusal in segment.refused:
        assert (refusal.name + refusal.reason).isprintable()
        assert len(refusal.name) < 120


def test_a_clock_of_any_machine_is_taken():
    """Skew is flagged, never refused: from 1970 (no battery) to 2262 (the end of its kind)."""
    for started_at_ns in (0, 2**63 - 1):
        segment = _segment()
        segment.clock = replace(segment.clock, started_at_ns=started_at_ns)
        assert decode_segment(encode_segment(segment)) == segment
