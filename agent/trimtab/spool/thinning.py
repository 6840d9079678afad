"""Makes segments smaller when the spool is full: roll-ups first, then only events and a gap."""

from __future__ import annotations

from dataclasses import replace

from trimtab.wire import Block, Event, Segment
from trimtab.wire.segment import Number


def thin_segment(segment: Segment) -> Segment:
    """Return the segment with one tick per block: min, mean, max and count of each series."""
    return replace(segment, blocks=[_thin(block) for block in segment.blocks])


def empty_segment(segment: Segment) -> Segment:
    """Return the segment without samples and steps, and with a `gap` over its time."""
    end_ms = segment.start_ms + segment.duration_ms
    gap = {"from_ms": segment.start_ms, "to_ms": end_ms, "reason": "spool_full"}
    kept = [event for event in segment.events if event.kind != "metric"]
    events = [*kept, Event(0, "gap", gap)]
    return replace(segment, blocks=[], steps=[], step_summaries=[], events=events)


def _thin(block: Block) -> Block:
    columns: dict[str, list[Number]] = {}
    for name, values in block.columns.items():
        known = [value for value in values if value is not None]
        if ":" in name or not known:
            columns |= {name: values[-1:]} if ":" in name else {}
            continue
        columns[f"{name}:min"] = [min(known)]
        columns[f"{name}:mean"] = [round(sum(known) / len(known), 3)]
        columns[f"{name}:max"] = [max(known)]
        columns[f"{name}:count"] = [len(known)]
    return Block(block.times_ms[-1:], columns)
