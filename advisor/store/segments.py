"""Hot segments, as uploaded, to tables on absolute time."""

from __future__ import annotations

import json

import pandas as pd
from trimtab.wire import Block, Segment, StepBlock, StepSummary, decode_segment

from advisor.store.data import (
    EVENT_FIELDS,
    STEP_FIELDS,
    NodeData,
    merged_rollups,
    merged_rows,
    merged_samples,
    no_rows,
)
from advisor.store.index import SegmentRef

THINNED_SECONDS = 10
"""The agent's spool thins its oldest segments to cells of this width before it drops any."""


def segment_data(ref: SegmentRef, body: bytes) -> NodeData:
    """The tables of one segment.

    Raises:
        trimtab.wire.WireError: the body is not a segment.
    """
    segment = decode_segment(body)
    start_us = _start_us(ref)
    raw = [_table(block, start_us) for block in segment.blocks if not _is_thinned(block)]
    thinned = [_table(block, start_us) for block in segment.blocks if _is_thinned(block)]
    return NodeData(
        samples=merged_samples(raw),
        rollups={THINNED_SECONDS: merged_rollups(thinned, THINNED_SECONDS)},
        steps=_steps(segment, start_us),
        events=_events(segment, start_us),
    )


def _start_us(ref: SegmentRef) -> int:
    """When the segment began, Unix microseconds."""
    session_start = ref.session_started_at.timestamp()
    whole_us = round(session_start * 1_000_000)
    return whole_us + ref.start_ms * 1000


def _is_thinned(block: Block) -> bool:
    return any(":" in name for name in block.columns)


def _table(block: Block, start_us: int) -> pd.DataFrame:
    start_ms = start_us // 1000
    index = pd.Index([start_ms + t for t in block.times_ms], dtype="int64", name="time_ms")
    return pd.DataFrame(block.columns, index=index, dtype="float64")


def _steps(segment: Segment, start_us: int) -> pd.DataFrame:
    parts = [_step_rows(block, start_us) for block in segment.steps]
    parts += [_summary_row(summary, start_us) for summary in segment.step_summaries]
    return merged_rows(parts, STEP_FIELDS)


def _step_rows(block: StepBlock, start_us: int) -> pd.DataFrame:
    rows = {
        "start_us": [start_us + offset for offset in block.start_us],
        "rank": block.rank,
        "phase": block.phase,
        "duration_us": block.duration_us,
        "data_wait_us": block.data_wait_us,
        "samples": block.samples,
        "count": 1,
    }
    return pd.DataFrame(rows).astype(STEP_FIELDS)


def _summary_row(summary: StepSummary, start_us: int) -> pd.DataFrame:
    """One row for a second of steps: their means, and how many there were."""
    count = max(summary.count, 1)
    wait, samples = summary.data_wait_sum_us, summary.samples
    row = {
        "start_us": start_us + summary.start_ms * 1000,
        "rank": summary.rank,
        "phase": summary.phase,
        "duration_us": round(summary.duration_sum_us / count),
        "data_wait_us": None if wait is None else wait / count,
        "samples": None if samples is None else samples / count,
        "count": count,
    }
    return pd.DataFrame([row]).astype(STEP_FIELDS)


def _events(segment: Segment, start_us: int) -> pd.DataFrame:
    if not segment.events:
        return no_rows(EVENT_FIELDS)
    rows = {
        "time_ms": [start_us // 1000 + event.time_ms for event in segment.events],
        "kind": [event.kind for event in segment.events],
        "data": [json.dumps(event.data, sort_keys=True) for event in segment.events],
    }
    return pd.DataFrame(rows).astype(EVENT_FIELDS)
