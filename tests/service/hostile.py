"""Bodies that are nearly right: real segments and declarations with a few things changed."""

from __future__ import annotations

import copy
import gzip
import json
import math
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st
from trimtab.wire import Event, Segment, StepSummary

from tests.service.uploads import FakeAgent

Path = tuple[str | int, ...]

TEXTS = ["", "NaN", "a.b", "host.x_pct", "train", "metric", "session_end", "nul \0", "half \ud800"]
TEXTS += [
    "n" * 300,
    "😀" * 60,
    "\u202e\x1b[2J",
    "'; DROP TABLE runs_run;--",
    "<script>",
    "-1",
    "1e999",
]
NUMBERS = [0, 1, -1, 0.5, -0.0, 2**31, 2**31 - 1, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**30]
NUMBERS += [1e308, 5e-324, math.nan, math.inf, -math.inf]
DEEP: list[Any] = json.loads("[" * 40 + "]" * 40)
PARTS: list[Any] = [None, True, False, [], {}, DEEP, [{}], {"": None}, [None] * 20, list(range(20))]
PARTS += [{"k": 1, "n": 20}, {"k": None, "n": 10**9}, {"d": [2**62] * 3}, {"d": []}, {"t": [0]}]

values = st.one_of(
    st.sampled_from([*TEXTS, *NUMBERS]),
    st.sampled_from(PARTS),
    st.integers(-(2**65), 2**65),
    st.floats(),
    st.text(max_size=12),
)


def whole_segment(agent: FakeAgent, seq: int = 0) -> Segment:
    """One with everything in it that a segment can have."""
    events = [
        Event(1, "process_start", {"pid": 7}),
        Event(2, "metric", {"name": "loss", "value": 0.5, "step": 3, "rank": 0}),
        Event(3, "phase_begin", {"phase": "evaluate", "rank": 0}),
        Event(4, "gap", {"from_ms": 0, "to_ms": 5, "reason": "spool_full"}),
        Event(5, "session_end", {"state": "finished", "exit_code": 0, "final_seq": seq}),
    ]
    summary = StepSummary(0, "train", 0, 9, 900, 90, 110, 400, 64, {26: 9}, [110, 100])
    return agent.segment(seq, events=events, step_summaries=[summary])


def paths(part: Any, at: Path = ()) -> Iterator[Path]:
    """Every place in a document; of a long list the first three entries."""
    inner = list(part.items()) if isinstance(part, dict) else []
    inner = list(enumerate(part[:3])) if isinstance(part, list) else inner
    for key, value in inner:
        yield (*at, key)
        yield from paths(value, (*at, key))


@st.composite
def _changed(draw: st.DrawFn, original: dict[str, Any], places: list[Path]) -> dict[str, Any]:
    changed = copy.deepcopy(original)
    for _ in range(draw(st.integers(1, 3))):
        _mutate(draw, changed, draw(st.sampled_from(places)))
    return changed


def _mutate(draw: st.DrawFn, changed: Any, place: Path) -> None:
    """Replace, remove, rename or repeat what is there, unless an earlier change took it away."""
    holder = changed
    try:
        for key in place[:-1]:
            holder = holder[key]
        value = holder[place[-1]]
    except (KeyError, IndexError, TypeError):
        return
    if not isinstance(holder, dict | list):
        return
    what = draw(st.sampled_from(["replace", "replace", "replace", "remove", "more"]))
    if what == "remove":
        del holder[place[-1]]
    elif what == "replace":
        holder[place[-1]] = copy.deepcopy(draw(values))  # type: ignore[index]
    elif isinstance(holder, list):
        holder.extend([copy.deepcopy(value) for _ in range(draw(st.sampled_from([1, 7, 300])))])
    else:
        holder[draw(st.sampled_from(TEXTS))] = copy.deepcopy(value)


@st.composite
def _bodies(draw: st.DrawFn, original: dict[str, Any], places: list[Path]) -> bytes:
    """Mostly documents with a few changes; now and then broken JSON, broken gzip, or noise."""
    kind = draw(st.sampled_from(["changed"] * 8 + ["cut", "flipped", "packed badly", "noise"]))
    if kind == "noise":
        return draw(st.binary(max_size=200))
    text = json.dumps(draw(_changed(original, places))).encode()
    if kind == "cut":
        text = text[: draw(st.integers(0, len(text)))]
    elif kind == "flipped":
        at = draw(st.integers(0, len(text) - 1))
        text = text[:at] + draw(st.binary(min_size=1, max_size=3)) + text[at + 1 :]
    packed = gzip.compress(text, 1)
    if kind == "packed badly":
        at = draw(st.integers(0, len(packed) - 1))
        packed = packed[:at] + draw(st.binary(max_size=3)) + packed[at + 1 :]
    return packed


def bodies_like(body: bytes) -> st.SearchStrategy[bytes]:
    original = dict(json.loads(gzip.decompress(body)))
    return _bodies(original, list(paths(original)))
