"""Encodes and decodes segments: gzip'd columnar JSON, version 1.

One bad series is refused by name; the rest of its segment is kept.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import lru_cache
from operator import lt
from typing import Any
from uuid import UUID

from trimtab.wire.columns import declared_length, decode_column, encode_column
from trimtab.wire.document import read_document, write_document
from trimtab.wire.limits import (
    LIMITS,
    SERIES_NAME,
    Limits,
    TooLargeError,
    WireError,
    integer,
    is_scalar,
    is_storable,
    printable,
    text,
)
from trimtab.wire.segment import (
    VERSION,
    Block,
    Event,
    Refusal,
    Segment,
    SessionClock,
    StepBlock,
    StepSummary,
)

PHASES = ("initialise", "train", "evaluate", "checkpoint", "finalise")
MOST_STEPS = 2**31 - 1
"""The most steps in one summary, which covers a second."""
MOST_US = 10**15
"""The longest time, 31 years: no step is longer or begins later in its session."""
_EARLIEST_START_US = -MOST_US
"""The earliest start: a step is sent with the segment in which it ended, so it may have begun long
before."""
_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def encode_segment(segment: Segment) -> bytes:
    """Return the upload body of a segment; the same segment always gives the same bytes."""
    clock = segment.clock
    return write_document(
        {
            "version": VERSION,
            "run_id": str(segment.run_id),
            "job": segment.job,
            "attempt": segment.attempt,
            "machine_id": segment.machine_id,
            "session_id": str(clock.session_id),
            "boot_id": clock.boot_id,
            "session_started_at_ns": clock.started_at_ns,
            "session_started_mono_ns": clock.started_mono_ns,
            "seq": segment.seq,
            "start_ms": segment.start_ms,
            "duration_ms": segment.duration_ms,
            "resolution_ms": segment.resolution_ms,
            "blocks": [_encode_block(block) for block in segment.blocks],
            "steps": [_encode_steps(steps) for steps in segment.steps],
            "step_summaries": [_encode_summary(summary) for summary in segment.step_summaries],
            "events": [_encode_event(event) for event in segment.events],
        }
    )


def decode_segment(
    body: bytes, limits: Limits = LIMITS, parse: Callable[[str], Any] = json.loads
) -> Segment:
    """Decode an upload body and check its limits.

    Args:
        parse: of JSON; gives and raises what `json.loads` does.

    Raises:
        WireError: the body as a whole is invalid. A single invalid series, step block or event is
            left out instead, and named in `Segment.refused`.
    """
    document = read_document(body, limits, parse)
    version = integer(document, "version", low=1)
    if version > VERSION:
        raise WireError(
            "version", f"{version} is newer than this service knows", "Update the service."
        )
    segment = _header(document, limits)
    _read_blocks(document, segment, limits)
    _read_steps(document, segment, limits)
    _read_parts(document, "step_summaries", _summary, segment.step_summaries, segment, limits)
    _read_parts(document, "events", _event, segment.events, segment, limits)
    return segment


def _header(document: dict[str, Any], limits: Limits) -> Segment:
    clock = SessionClock(
        session_id=_uuid(document, "session_id"),
        boot_id=text(document, "boot_id", limits),
        started_at_ns=integer(document, "session_started_at_ns"),
        started_mono_ns=integer(document, "session_started_mono_ns"),
    )
    return Segment(
        run_id=_uuid(document, "run_id"),
        job=text(document, "job", limits),
        attempt=integer(document, "attempt", high=1_000_000),
        machine_id=text(document, "machine_id", limits),
        clock=clock,
        seq=integer(document, "seq", high=2**31 - 1),
        start_ms=integer(document, "start_ms", high=10**12),
        duration_ms=integer(document, "duration_ms", high=86_400_000),
        resolution_ms=integer(document, "resolution_ms", low=1, high=86_400_000),
    )


def _uuid(document: dict[str, Any], field: str) -> UUID:
    try:
        return UUID(document[field])
    except (KeyError, ValueError, TypeError, AttributeError):
        raise WireError(field, "missing or not a UUID", "Send a UUID.") from None


def _part(document: dict[str, Any], field: str, at_most: int) -> list[Any]:
    part = document.get(field, [])
    if not isinstance(part, list):
        raise WireError(field, "not a list", "Send a list.")
    if len(part) > at_most:
        raise TooLargeError(field, f"over {at_most} entries")
    return part


# Columns


def _encode_block(block: Block) -> dict[str, Any]:
    columns = {name: encode_column(values) for name, values in block.columns.items()}
    return {"t": encode_column(list(block.times_ms)), "columns": columns}


def _read_blocks(document: dict[str, Any], segment: Segment, limits: Limits) -> None:
    series = samples = 0
    for number, raw in enumerate(_part(document, "blocks", 200)):
        columns = raw.get("columns") if isinstance(raw, dict) else None
        times = decode_column(raw.get("t"), limits.ticks) if isinstance(raw, dict) else None
        if not isinstance(columns, dict) or times is None or not _are_times(times):
            segment.refused.append(Refusal(f"blocks[{number}]", "needs rising times and columns"))
            continue
        series += len(columns)
        if series > limits.series:
            raise WireError("blocks", f"over {limits.series} series", "Send fewer series.")
        samples += len(columns) * len(times)
        if samples > limits.samples:
            raise TooLargeError("blocks", f"over {limits.samples} samples")
        segment.blocks.append(_block(times, columns, segment, limits))


def _block(times: list[Any], columns: dict[str, Any], segment: Segment, limits: Limits) -> Block:
    block = Block(times_ms=times, columns={})
    for name, raw in columns.items():
        values = decode_column(raw, limits.ticks)
        if not _is_series_name(name, limits.name_chars):
            segment.refused.append(
                Refusal(printable(name), "not a series name (entity.metric_unit)")
            )
        elif values is None:
            segment.refused.append(Refusal(name, "not a column of numbers"))
        elif len(values) != len(times):
            reason = f"{len(values)} values for {len(times)} times"
            segment.refused.append(Refusal(name, reason))
        else:
            block.columns[name] = values
    return block


@lru_cache(10_000)
def _is_series_name(name: str, most_chars: int) -> bool:
    return len(name) <= most_chars and SERIES_NAME.match(name) is not None


def _are_times(times: list[Any]) -> bool:
    if not times or set(map(type, times)) != {int} or not 0 <= times[0] <= times[-1] <= 10**9:
        return False
    return all(map(lt, times, times[1:]))


# Steps and events


def _read_parts(
    document: dict[str, Any],
    field: str,
    read: Any,
    into: list[Any],
    segment: Segment,
    limits: Limits,
) -> None:
    for number, raw in enumerate(_part(document, field, limits.events)):
        try:
            into.append(read(raw if isinstance(raw, dict) else {}, limits))
        except WireError as error:
            segment.refused.append(Refusal(f"{field}[{number}]", str(error)))


def _read_steps(document: dict[str, Any], segment: Segment, limits: Limits) -> None:
    """Read the steps. They are counted before they are expanded: a column of one repeated value is
    short, whatever its length.
    """
    parts = [
        part for part in _part(document, "steps", limits.step_blocks) if isinstance(part, dict)
    ]
    if sum(declared_length(part.get("start_us")) for part in parts) > limits.steps:
        raise TooLargeError("steps", f"over {limits.steps} steps")
    _read_parts(document, "steps", _steps, segment.steps, segment, limits)


def _encode_steps(steps: StepBlock) -> dict[str, Any]:
    tokens = {"tokens": encode_column(list(steps.tokens))} if steps.tokens else {}
    return {
        "rank": steps.rank,
        "phase": steps.phase,
        "start_us": encode_column(list(steps.start_us)),
        "duration_us": encode_column(list(steps.duration_us)),
        "data_wait_us": encode_column(list(steps.data_wait_us)),
        "samples": encode_column(list(steps.samples)),
        **tokens,
    }


def _steps(raw: dict[str, Any], limits: Limits) -> StepBlock:
    names = ["start_us", "duration_us", "data_wait_us", "samples"]
    names += ["tokens"] if "tokens" in raw else []
    if len({declared_length(raw.get(name)) for name in names}) != 1:
        raise WireError("steps", "columns of different length", "Send one value a step.")
    most = limits.steps
    start = _whole(raw, "start_us", most, missing=False, low=_EARLIEST_START_US)
    duration = _whole(raw, "duration_us", most, missing=False)
    return StepBlock(
        rank=integer(raw, "rank", high=10_000_000),
        phase=_phase(raw),
        start_us=start,  # type: ignore[arg-type]
        duration_us=duration,  # type: ignore[arg-type]
        data_wait_us=_whole(raw, "data_wait_us", most),
        samples=_whole(raw, "samples", most),
        tokens=_whole(raw, "tokens", most) if "tokens" in raw else [],
    )


def _whole(
    raw: dict[str, Any], name: str, at_most: int, missing: bool = True, low: int = 0
) -> list[int | None]:
    """Return a column of whole numbers up to `MOST_US`, which can be added to a time without
    exceeding 64 bits.
    """
    values = decode_column(raw.get(name), at_most)
    if values is None or not _are_whole(values, missing, low):
        problem = f"not a column of at most {at_most} whole numbers from {low} to {MOST_US}"
        raise WireError(name, problem, "Send microseconds.")
    return values  # type: ignore[return-value]


def _are_whole(values: list[Any], missing: bool, low: int) -> bool:
    kinds = set(map(type, values))
    if not kinds <= ({int, type(None)} if missing else {int}):
        return False
    present = [v for v in values if v is not None] if type(None) in kinds else values
    return not present or (low <= min(present) and max(present) <= MOST_US)


def _phase(raw: dict[str, Any]) -> str:
    phase = raw.get("phase", "train")
    if phase not in PHASES:
        raise WireError("phase", "unknown", f"Send one of {', '.join(PHASES)}.")
    return str(phase)


def _encode_summary(summary: StepSummary) -> dict[str, Any]:
    tokens = {} if summary.tokens is None else {"tokens": summary.tokens}
    return {
        "rank": summary.rank,
        "phase": summary.phase,
        "start_ms": summary.start_ms,
        "count": summary.count,
        "duration_sum_us": summary.duration_sum_us,
        "duration_min_us": summary.duration_min_us,
        "duration_max_us": summary.duration_max_us,
        "data_wait_sum_us": summary.data_wait_sum_us,
        "samples": summary.samples,
        "histogram": {str(bucket): count for bucket, count in summary.histogram.items()},
        "slowest_us": summary.slowest_us,
        **tokens,
    }


def _summary(raw: dict[str, Any], limits: Limits) -> StepSummary:
    numbers = ("duration_sum_us", "duration_min_us", "duration_max_us")
    fields = {name: integer(raw, name, high=MOST_US) for name in numbers}
    fields["start_ms"] = integer(raw, "start_ms", high=MOST_US // 1000)
    fields["count"] = integer(raw, "count", low=1, high=MOST_STEPS)
    return StepSummary(
        rank=integer(raw, "rank", high=10_000_000),
        phase=_phase(raw),
        data_wait_sum_us=None
        if raw.get("data_wait_sum_us") is None
        else integer(raw, "data_wait_sum_us", high=MOST_US),
        samples=None if raw.get("samples") is None else integer(raw, "samples"),
        tokens=None if raw.get("tokens") is None else integer(raw, "tokens", high=MOST_US),
        histogram=_histogram(raw.get("histogram", {})),
        slowest_us=_slowest(raw, limits),
        **fields,
    )


def _slowest(raw: dict[str, Any], limits: Limits) -> list[int]:
    if "slowest_us" not in raw:
        return []
    values = _whole(raw, "slowest_us", limits.slowest, missing=False)
    return [value for value in values if value is not None]


def _histogram(raw: Any) -> dict[int, int]:
    if not isinstance(raw, dict) or len(raw) > 400:
        raise WireError("histogram", "not an object of at most 400 buckets", "Send buckets.")
    try:
        buckets = {int(bucket): integer(raw, bucket) for bucket in raw}
    except (TypeError, ValueError):
        raise WireError("histogram", "not whole numbers", "Send bucket -> count.") from None
    if not all(-1_000 <= bucket <= 1_000 for bucket in buckets):
        raise WireError("histogram", "no such bucket", "Send floor(4 * log2(microseconds)).")
    return buckets


def _encode_event(event: Event) -> dict[str, Any]:
    return {"t": event.time_ms, "kind": event.kind, **_finite(event.data)}


def _finite(data: dict[str, Any]) -> dict[str, Any]:
    """Return non-finite numbers as the strings "NaN", "Infinity" and "-Infinity"; JSON has none."""
    return {key: _finite_value(value) for key, value in data.items()}


def _finite_value(value: Any) -> Any:
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _event(raw: dict[str, Any], limits: Limits) -> Event:
    data = {key: value for key, value in raw.items() if key not in ("t", "kind")}
    for key, value in data.items():
        if len(key) > limits.name_chars or not is_storable(key) or not is_scalar(value, limits):
            fix = "Send text, a number, a boolean or null."
            raise WireError(printable(key), "not a short scalar", fix)
    if raw.get("kind") == "metric":
        data["value"] = _metric_value(data.get("value"))
    return Event(time_ms=integer(raw, "t", high=10**9), kind=text(raw, "kind", limits), data=data)


def _metric_value(value: Any) -> float:
    if isinstance(value, str) and value in _NON_FINITE:
        return _NON_FINITE[value]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise WireError("value", "not a number", 'Send a number, "NaN", "Infinity" or "-Infinity".')
    try:
        return float(value)
    except OverflowError:
        raise WireError("value", "too large", "Send a number below 1e308.") from None
