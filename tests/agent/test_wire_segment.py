"""The wire: what goes in comes out, and nothing that comes in can hurt."""

from __future__ import annotations

import gzip
import json
import math
import random
import time
import tracemalloc
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
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
    encode_segment,
)

from tests.cpu_time import is_within

whole = st.integers(-(2**63) + 1, 2**63 - 1)
counts = st.integers(0, 2**62)
lengths_us = st.integers(0, 10**15)
finite = st.floats(allow_nan=False, allow_infinity=False)
numbers = st.none() | whole | finite
names = st.from_regex(r"[a-z][a-z0-9_]{0,8}(\.[a-z0-9_]{1,8}){1,2}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=20)
phases = st.sampled_from(["initialise", "train", "evaluate", "checkpoint", "finalise"])


@st.composite
def blocks(draw: st.DrawFn) -> Block:
    times = sorted(draw(st.sets(st.integers(0, 10**9), min_size=1, max_size=8)))
    column = st.lists(numbers, min_size=len(times), max_size=len(times))
    return Block(times, draw(st.dictionaries(names, column, max_size=4)))


@st.composite
def step_blocks(draw: st.DrawFn) -> StepBlock:
    n = draw(st.integers(0, 6))
    column = st.lists(st.none() | st.integers(0, 10**15), min_size=n, max_size=n)
    durations = st.lists(st.integers(0, 10**15), min_size=n, max_size=n)
    starts = st.lists(st.integers(-(10**15), 10**15), min_size=n, max_size=n)
    rank = draw(st.integers(0, 10**7))
    three = (draw(column) for _ in range(3))
    return StepBlock(rank, draw(phases), draw(starts), draw(durations), *three)


summaries = st.builds(
    StepSummary,
    rank=st.integers(0, 10**7),
    phase=phases,
    start_ms=st.integers(0, 10**12),
    count=st.integers(1, 2**31 - 1),
    duration_sum_us=lengths_us,
    duration_min_us=lengths_us,
    duration_max_us=lengths_us,
    data_wait_sum_us=st.none() | lengths_us,
    samples=st.none() | counts,
    histogram=st.dictionaries(st.integers(0, 300), counts, max_size=4),
    slowest_us=st.lists(lengths_us, max_size=20),
    tokens=st.none() | lengths_us,
)
events = st.builds(
    Event,
    time_ms=st.integers(0, 10**9),
    kind=texts.filter(lambda kind: kind and kind != "metric"),
    data=st.dictionaries(
        texts.filter(lambda key: key not in ("t", "kind")),
        st.none() | st.booleans() | whole | finite | texts,
        max_size=3,
    ),
)
segments = st.builds(
    Segment,
    run_id=st.uuids(),
    job=texts.filter(bool),
    attempt=st.integers(0, 10**6),
    machine_id=texts.filter(bool),
    clock=st.builds(
        SessionClock,
        session_id=st.uuids(),
        boot_id=texts.filter(bool),
        started_at_ns=st.integers(0, 4 * 10**18),
        started_mono_ns=counts,
    ),
    seq=st.integers(0, 2**31 - 1),
    start_ms=st.integers(0, 10**12),
    duration_ms=st.integers(0, 86_400_000),
    resolution_ms=st.integers(1, 86_400_000),
    blocks=st.lists(blocks(), max_size=3),
    steps=st.lists(step_blocks(), max_size=3),
    step_summaries=st.lists(summaries, max_size=3),
    events=st.lists(events, max_size=3),
)


def _segment(**parts: Any) -> Segment:
    clock = SessionClock(UUID(int=2), "boot", 1_760_000_000 * 10**9, 5)
    return Segment(UUID(int=1), "job", 0, "machine", clock, 0, 0, 10_000, 500, **parts)


def _document(**parts: Any) -> dict[str, Any]:
    return json.loads(gzip.decompress(encode_segment(_segment()))) | parts


def _body(document: Any) -> bytes:
    return gzip.compress(json.dumps(document).encode())


@given(segments)
def test_what_goes_in_comes_out(segment):
    body = encode_segment(segment)
    assert decode_segment(body) == segment
    assert encode_segment(decode_segment(body)) == body


@given(segments, st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_matter(segment, shuffler: random.Random):
    def shuffled(part: Any) -> Any:
        if isinstance(part, list):
            return [shuffled(value) for value in part]
        if not isinstance(part, dict):
            return part
        keys = list(part)
        shuffler.shuffle(keys)
        return {key: shuffled(part[key]) for key in keys}

    document = json.loads(gzip.decompress(encode_segment(segment)))
    assert decode_segment(_body(shuffled(document))) == segment


@given(st.lists(st.floats() | whole | st.none(), min_size=1, max_size=6))
@example([math.nan, math.nan, math.nan])
@example([math.inf] * 4)
def test_a_sample_that_is_no_number_is_missing_and_never_breaks_the_segment(values):
    block = Block(list(range(len(values))), {"host.x_pct": values})
    column = (
        decode_segment(encode_segment(_segment(blocks=[block]))).blocks[0].columns["host.x_pct"]
    )
    bad = [isinstance(v, float) and not math.isfinite(v) for v in values]
    assert column == [None if b else v for v, b in zip(values, bad, strict=True)]


def test_whole_numbers_may_lie_as_far_apart_as_numbers_can():
    values = [-(2**63) + 1, 2**63 - 1, 0]
    block = Block([0, 500, 1000], {"host.x_count": values})
    (read,) = decode_segment(encode_segment(_segment(blocks=[block]))).blocks
    assert read.columns == {"host.x_count": values}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.5, 7])
def test_a_metric_keeps_its_value_whatever_it_is(value):
    event = Event(5, "metric", {"name": "loss", "value": value, "step": 3})
    (read,) = decode_segment(encode_segment(_segment(events=[event]))).events
    assert read.data["value"] == value or (math.isnan(value) and math.isnan(read.data["value"]))


BAD_COLUMNS = [
    [1, 2],
    [1, 2, 3, 4],
    [1, "2", 3],
    [1, [2], 3],
    [1, True, 3],
    [1, 2**63, 3],
    {"k": 1, "n": 2},
    {"k": 1, "n": -1},
    {"k": 1, "n": 10**9},
    {"k": "1", "n": 3},
    {"k": 1},
    {"d": [1, 2.5, 3]},
    {"d": [2**62, 2**62, 2**62]},
    {"d": None},
    {},
    None,
    7,
    "text",
]


@pytest.mark.parametrize("column", BAD_COLUMNS, ids=repr)
def test_one_bad_series_is_refused_by_name_and_the_rest_is_kept(column):
    block = {"t": [0, 500, 1000], "columns": {"host.a_pct": [1, 2, 3], "host.bad_pct": column}}
    segment = decode_segment(_body(_document(blocks=[block])))
    assert segment.blocks[0].columns == {"host.a_pct": [1, 2, 3]}
    assert [refusal.name for refusal in segment.refused] == ["host.bad_pct"]


@pytest.mark.parametrize(
    "name", ["", "busy", "Host.a", "a..b", "a.b:sum", "a b.c", "é.a", "a." * 99]
)
def test_a_series_without_a_proper_name_is_refused(name):
    block = {"t": [0], "columns": {name: [1], "host.a_pct": [1]}}
    segment = decode_segment(_body(_document(blocks=[block])))
    assert list(segment.blocks[0].columns) == ["host.a_pct"]
    assert segment.refused[0].name == name[:80]


@pytest.mark.parametrize("times", [[], [1, 1], [2, 1], [0.5, 1], [-1, 0], [0, None], "0", None])
def test_a_block_needs_rising_times(times):
    good = {"t": [0], "columns": {"host.a_pct": [1]}}
    bad = {"t": times, "columns": {"host.a_pct": [1]}}
    segment = decode_segment(_body(_document(blocks=[bad, good, "nonsense"])))
    assert len(segment.blocks) == 1
    assert [refusal.name for refusal in segment.refused] == ["blocks[0]", "blocks[2]"]


BAD_STEPS = [
    {"duration_us": [1]},
    {"duration_us": [None, 1]},
    {"duration_us": [-1, 1]},
    {"samples": [1.5, 1]},
    {"phase": "warm-up"},
    {"rank": -1},
    {"rank": "0"},
    {"start_us": [-(10**16), 0]},
    {"start_us": [2**62, 0]},
    {"duration_us": [2**62, 1]},
    {"data_wait_us": [2**62, 1]},
    {"tokens": [8]},
    {"tokens": [8, -1]},
    {"tokens": [8, "9"]},
    {"tokens": [8, 2**62]},
]


@pytest.mark.parametrize("bad", BAD_STEPS, ids=repr)
def test_one_bad_step_block_is_refused_and_the_rest_is_kept(bad):
    good = {"rank": 0, "phase": "train", "start_us": [0, 9]}
    good |= {"duration_us": [5, 5], "data_wait_us": [None, 1], "samples": [8, 8]}
    segment = decode_segment(_body(_document(steps=[good | bad, good])))
    assert len(segment.steps) == 1
    assert [refusal.name for refusal in segment.refused] == ["steps[0]"]


BAD_SUMMARIES = [
    {"count": -1},
    {"count": 0},
    {"count": 2**31},
    {"start_ms": 2**62},
    {"duration_sum_us": 2**62},
    {"data_wait_sum_us": 2**62},
    {"slowest_us": [2**62]},
    {"count": None},
    {"histogram": {"x": 1}},
    {"histogram": {"1": -1}},
    {"histogram": {"1": 1e999}},
    {"histogram": {"99999": 1}},
    {"histogram": [1]},
    {"slowest_us": {"k": 1, "n": 20_000}},
    {"samples": 1.5},
    {"tokens": -1},
    {"tokens": 2**62},
]


@pytest.mark.parametrize("bad", BAD_SUMMARIES, ids=repr)
def test_one_bad_step_summary_is_refused_and_the_rest_is_kept(bad):
    good = {"rank": 0, "phase": "train", "start_ms": 0, "count": 1, "duration_sum_us": 5}
    good |= {"duration_min_us": 5, "duration_max_us": 5, "histogram": {"9": 1}, "slowest_us": [5]}
    segment = decode_segment(_body(_document(step_summaries=[good | bad, good])))
    assert len(segment.step_summaries) == 1
    assert [refusal.name for refusal in segment.refused] == ["step_summaries[0]"]


BAD_EVENTS = [
    {"t": -1, "kind": "x"},
    {"t": 0},
    {"t": 0, "kind": ""},
    {"t": 0, "kind": "x", "data": [1]},
    {"t": 0, "kind": "x", "text": "long" * 1000},
    {"t": 0, "kind": "x", "text": "nul \0"},
    {"t": 0, "kind": "x", "text": "half \ud800"},
    {"t": 0, "kind": "x", "number": 2**80},
    {"t": 0, "kind": "metric", "name": "loss", "value": "low"},
    {"t": 0, "kind": "metric", "name": "loss", "value": None},
    "nonsense",
]


@pytest.mark.parametrize("bad", BAD_EVENTS, ids=repr)
def test_one_bad_event_is_refused_and_the_rest_is_kept(bad):
    segment = decode_segment(_body(_document(events=[bad, {"t": 1, "kind": "good"}])))
    assert [event.kind for event in segment.events] == ["good"]
    assert [refusal.name for refusal in segment.refused] == ["events[0]"]


BAD_HEADERS = [
    ("version", 0),
    ("version", 99),
    ("version", None),
    ("run_id", "nonsense"),
    ("session_id", 7),
    ("job", ""),
    ("job", "j" * 121),
    ("job", "nul \0"),
    ("job", "half \ud800"),
    ("machine_id", None),
    ("seq", -1),
    ("seq", True),
    ("seq", 1.0),
    ("duration_ms", 86_400_001),
    ("resolution_ms", 0),
    ("session_started_at_ns", -1),
    ("blocks", {}),
    ("steps", "x"),
    ("events", 5),
]


@pytest.mark.parametrize(("field", "value"), BAD_HEADERS, ids=repr)
def test_an_unusable_header_is_refused_by_field_with_a_fix(field, value):
    with pytest.raises(WireError) as caught:
        decode_segment(_body(_document() | {field: value}))
    assert caught.value.field == field
    assert caught.value.fix


def _nested(depth: int) -> bytes:
    return gzip.compress(b'{"a":' * depth + b"1" + b"}" * depth)


BAD_BODIES = {
    "empty": b"",
    "not gzip": b"plain text",
    "cut off": encode_segment(_segment())[:-20],
    "only a gzip header": encode_segment(_segment())[:10],
    "something after it": encode_segment(_segment()) + b"more",
    "two streams": encode_segment(_segment()) * 2,
    "damaged": encode_segment(_segment())[:40] + b"\xff\xff" + encode_segment(_segment())[42:],
    "not JSON": gzip.compress(b"{"),
    "not UTF-8": gzip.compress(b'{"job": "\xff"}'),
    "not an object": gzip.compress(b"[1]"),
    "deep": _nested(100_000),
    "a number of 10000 digits": gzip.compress(b'{"version": ' + b"9" * 10_000 + b"}"),
    "too large": b"\0" * (LIMITS.body_bytes + 1),
    "a bomb": gzip.compress(b" " * (LIMITS.document_bytes + 1)),
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES)
def test_an_unusable_body_is_refused_as_such(body):
    with pytest.raises(WireError) as caught:
        decode_segment(body)
    assert caught.value.field == "body"


@given(st.binary(max_size=60))
def test_no_bytes_raise_anything_but_a_wire_error(body):
    with pytest.raises(WireError):
        decode_segment(body)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.sampled_from(sorted(_document())), json_values)
def test_no_value_of_any_field_raises_anything_but_a_wire_error(field, value):
    with suppress(WireError):
        decode_segment(_body(_document() | {field: value}))


PART_FIELDS = [
    *("t", "columns", "rank", "phase", "kind", "value", "start_us", "duration_us", "data_wait_us"),
    *("samples", "start_ms", "count", "duration_sum_us", "duration_min_us", "duration_max_us"),
    *("histogram", "slowest_us", "tokens"),
]


@given(
    st.sampled_from(["blocks", "steps", "step_summaries", "events"]),
    st.dictionaries(st.sampled_from(PART_FIELDS), json_values),
)
def test_no_part_raises_anything_but_a_wire_error(field, part):
    segment = decode_segment(_body(_document() | {field: [part]}))
    kept = [*segment.blocks, *segment.steps, *segment.step_summaries, *segment.events]
    assert len(kept) + len(segment.refused) >= 1


def _constant(count: int) -> dict[str, int]:
    return {"k": 0, "n": count}


SMALL_BUT_HUGE = {
    "samples": {
        "blocks": [
            {
                "t": {"d": [0] + [1] * 19_999},
                "columns": {f"host.s{i}_pct": _constant(20_000) for i in range(4_000)},
            }
        ]
    },
    "steps": {
        "steps": [
            {
                "rank": 0,
                "start_us": _constant(50_000) | {"d": []},
                "duration_us": _constant(50_000) | {"d": []},
                "data_wait_us": _constant(50_000),
                "samples": _constant(50_000),
            }
        ]
        * 900
    },
}


@pytest.mark.parametrize("kind", SMALL_BUT_HUGE)
def test_a_small_body_can_not_unfold_into_a_huge_segment(kind):
    body = _body(_document() | SMALL_BUT_HUGE[kind])
    assert len(body) < LIMITS.body_bytes
    began = time.process_time()
    with pytest.raises(WireError, match="over"):
        decode_segment(body)
    assert is_within(time.process_time() - began, 2)


def test_a_number_of_thousands_of_digits_is_not_added_to_others():
    ticks = {"d": [0] + [1] * 19_999}
    column = {"d": [10**4000] + [1] * 19_999}
    body = _body(_document(blocks=[{"t": ticks, "columns": {"host.x_count": column}}]))
    tracemalloc.start()
    segment = decode_segment(body)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [refusal.name for refusal in segment.refused] == ["host.x_count"]
    assert peak_bytes < 10_000_000, "each sum would take 1,700 bytes"


def test_a_repeated_value_and_a_counter_cost_next_to_nothing():
    ticks = list(range(0, 10_000, 500))
    columns = {f"host.s{i}_pct": [0] * 20 for i in range(50)}
    columns |= {f"disk.c{i}_total": [10**12 + 4096 * t for t in range(20)] for i in range(50)}
    segment = _segment(blocks=[Block(ticks, columns)])
    assert len(encode_segment(segment)) / segment.sample_count < 0.6


def test_a_field_of_a_later_agent_is_ignored():
    document = _document(colour="red", blocks=[{"t": [0], "columns": {}, "unit": "s"}])
    assert decode_segment(_body(document)).refused == []
