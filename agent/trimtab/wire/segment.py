"""The segment as objects. Times inside a session are monotonic, counted from its start.

A series is named `entity.metric_unit`; the entity is its scope: `host` (machine), `container`,
`tree` (the run's processes), `workers` (its data-loader processes), `cpu3`, `disk`, `net`,
`gpu0`, `gpu0.mig1`, `agent`. Gauges travel as gauges, counters (`..._total`) as absolute counters.
`None` is a missing sample.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Union
from uuid import UUID

VERSION = 1
FIRST_ADDED = 2**29
"""Segment numbers from here on are not the agent's: the service adds what a program in its session
sent by another way. Their times overlap those of others; `final_seq` ignores them."""
FIRST_PIECE = 2**30
"""Segment numbers from here on are pieces of one that was too large; `final_seq` ignores them."""

Number = Union[int, float, None]


@dataclass(frozen=True)
class SessionClock:
    """The start of an agent process on both clocks: the reference of all times that it sends."""

    session_id: UUID
    boot_id: str
    started_at_ns: int
    """The start by this machine's wall clock, ns since the Unix epoch."""
    started_mono_ns: int
    """The start on CLOCK_MONOTONIC of this boot, ns."""


@dataclass
class Block:
    """Series that share their ticks: `columns[name][i]` was read at `times_ms[i]`."""

    times_ms: list[int]
    """The times since the start of the segment."""
    columns: dict[str, list[Number]]
    """Thinned blocks hold `name:min`, `name:mean`, `name:max`, `name:count` instead of `name`."""


@dataclass
class StepBlock:
    """Single training steps of one rank in one phase; all lists have one length."""

    rank: int
    phase: str
    start_us: list[int]
    """The starts since the start of the segment in which the step ended; negative if it began
    before."""
    duration_us: list[int]
    """The durations from the end of the step before (or of the pause before it) to the end of this
    one."""
    data_wait_us: list[int | None]
    """The part of the duration in which the loop waited for its data; None if not measured."""
    samples: list[int | None]
    """Training samples in the step (this rank's batch); None if unknown."""
    tokens: list[int | None] = field(default_factory=list)
    """Tokens in the step, padding included; None if unknown. Empty: unknown of all."""


@dataclass
class StepSummary:
    """One second of one rank and phase, if there are too many steps to send one by one."""

    rank: int
    phase: str
    start_ms: int
    count: int
    duration_sum_us: int
    duration_min_us: int
    duration_max_us: int
    data_wait_sum_us: int | None
    samples: int | None
    histogram: dict[int, int] = field(default_factory=dict)
    """The counts by floor(4 * log2(duration in us))."""
    slowest_us: list[int] = field(default_factory=list)
    """The longest durations of this second, at most 20."""
    tokens: int | None = None


@dataclass
class Event:
    """Something that happened once, `time_ms` after the start of the segment.

    Kinds: `process_start`, `process_exit`, `session_end` (state, exit_code, final_seq: the last
    number of its session; of a failure signal, oom_kills, oom_scope, memory_bytes,
    memory_limit_bytes, oom_process, oom_process_bytes), `stderr` (number, text: one of the last
    lines), `stage_begin` (number, name, seconds: so long ago), `stage_end` (number, name, seconds:
    so long it took, ago_seconds: since its end), `gap` (from_ms, to_ms, both since the start of the
    session; reason), `clock_step` (seconds: the wall clock was set).

    Of one rank, each with `rank`: `rank` (local_rank, world_size, pid), `phase_begin`, `phase_end`
    (phase), `epoch` (number), `epoch_length` (samples: the rank's in a whole loop over its training
    loader), `checkpoint` (seconds, bytes; sent at its end), `metric` (name, value, step), `loader`
    (phase, workers, batch_size, prefetch_factor, pin_memory, persistent_workers), `precision` (amp,
    parameters: types; tf32, cudnn_tf32), `memory_format` (convolutions, channels_last: of them),
    `parameters` (total, trainable, optimised, embedding), `flops` (forward, backward, recomputed,
    samples, tokens: of one step, at_least), `gpu_memory` (peak_allocated_bytes,
    peak_reserved_bytes, total_bytes), `torch_memory` (allocated_bytes, reserved_bytes, retries,
    failures), `gpu_out_of_memory` (gpu: its number in the process, requested_bytes, free_bytes,
    total_bytes), `gpu_steps` (steps, gpu_seconds, launch_seconds: of the same steps), `profile`
    (first_step, steps, bytes; 0 steps or bytes: it failed), `step_untimed` (phase, samples, tokens:
    a first step whose start isn't known), `steps_lost` (count), and `events_lost` (count) of the
    whole node.
    """

    time_ms: int
    kind: str
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Refusal:
    """One part of a segment that was left out, and why; the rest was kept."""

    name: str
    reason: str


@dataclass
class Segment:
    """Some seconds of all series of one node, and the steps and events in them."""

    run_id: UUID
    job: str
    attempt: int
    machine_id: str
    clock: SessionClock
    seq: int
    start_ms: int
    """The segment's start, since the start of the session."""
    duration_ms: int
    resolution_ms: int
    blocks: list[Block] = field(default_factory=list)
    steps: list[StepBlock] = field(default_factory=list)
    step_summaries: list[StepSummary] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    """The refused parts, which only the decoder fills; never sent."""

    @property
    def sample_count(self) -> int:
        return sum(len(b.times_ms) * len(b.columns) for b in self.blocks)
