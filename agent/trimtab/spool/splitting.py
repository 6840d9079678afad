"""Halves a segment that is too large for the service or a proxy."""

from __future__ import annotations

import random
from dataclasses import replace

from trimtab.wire import FIRST_PIECE, Block, Segment, StepBlock

_CHANCE = random.SystemRandom()


def halves(segment: Segment) -> tuple[Segment, Segment] | None:
    """Return the first half with a new number, and the second half, which keeps the segment's
    number.

    The second half may hold `session_end`, and the number of its segment is the session's last.
    None if the segment can't be halved.
    """
    middle_ms = segment.duration_ms // 2
    first = replace(
        segment,
        seq=FIRST_PIECE + _CHANCE.randrange(2**30),
        duration_ms=middle_ms,
        blocks=_blocks(segment, 0, middle_ms),
        steps=[_steps(block, middle_ms, is_first=True) for block in segment.steps],
        step_summaries=[s for s in segment.step_summaries if s.start_ms < middle_ms],
        events=[event for event in segment.events if event.time_ms < middle_ms],
    )
    second = replace(
        segment,
        start_ms=segment.start_ms + middle_ms,
        duration_ms=segment.duration_ms - middle_ms,
        blocks=_blocks(segment, middle_ms, 10**9),
        steps=[_steps(block, middle_ms, is_first=False) for block in segment.steps],
        step_summaries=[
            replace(s, start_ms=s.start_ms - middle_ms)
            for s in segment.step_summaries
            if s.start_ms >= middle_ms
        ],
        events=[
            replace(event, time_ms=event.time_ms - middle_ms)
            for event in segment.events
            if event.time_ms >= middle_ms
        ],
    )
    parts = [replace(s, steps=[b for b in s.steps if b.start_us]) for s in (first, second)]
    return (parts[0], parts[1]) if all(map(_weight, parts)) else None


def _weight(segment: Segment) -> int:
    steps = len(segment.steps) + len(segment.step_summaries)
    return len(segment.blocks) + steps + len(segment.events)


def _blocks(segment: Segment, from_ms: int, to_ms: int) -> list[Block]:
    chosen = []
    for block in segment.blocks:
        ticks = [i for i, time in enumerate(block.times_ms) if from_ms <= time < to_ms]
        if ticks:
            times = [block.times_ms[i] - from_ms for i in ticks]
            columns = {n: [values[i] for i in ticks] for n, values in block.columns.items()}
            chosen.append(Block(times, columns))
    return chosen


def _steps(block: StepBlock, middle_ms: int, is_first: bool) -> StepBlock:
    """Return the steps of one half by their end, which may be before the segment: training
    processes write a little later.
    """
    middle_us = middle_ms * 1000
    ends = [s + d for s, d in zip(block.start_us, block.duration_us)]
    chosen = [i for i, end in enumerate(ends) if (end < middle_us) == is_first]
    shift_us = 0 if is_first else middle_us
    return StepBlock(
        rank=block.rank,
        phase=block.phase,
        start_us=[block.start_us[i] - shift_us for i in chosen],
        duration_us=[block.duration_us[i] for i in chosen],
        data_wait_us=[block.data_wait_us[i] for i in chosen],
        samples=[block.samples[i] for i in chosen],
    )
