"""The three rules about checkpoints: they hold up, are missing, come at a bad interval."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rules.frame import NodeFrame, RunFrame
from tests.rules import frames as f
from tests.rules.cases import judged

STALLS, MISSING, INTERVAL = "checkpoint_stalls", "checkpoint_missing", "checkpoint_interval"
TICKS = np.arange(1000)


def saving(
    count: int,
    seconds: float,
    told: str = "phase",
    gpu_meanwhile: float = 0.0,
    written: float | None = None,
) -> NodeFrame:
    """A thousand seconds with so many checkpoints, at equal distances."""
    starts = [(n + 0.5) * 1000 / count for n in range(count)]
    inside = np.zeros(1000, dtype=bool)
    events: list[tuple[float, str, dict[str, Any]]] = []
    for start in starts:
        inside |= (start <= TICKS) & (start + seconds > TICKS)
        if told == "phase":
            data = {"phase": "checkpoint", "rank": 0}
            events.append((start, "phase_begin", data))
            events.append((start + seconds, "phase_end", data))
        elif told == "event":
            events.append((start + seconds, "checkpoint", {"seconds": seconds}))
    series: dict[str, Any] = {"gpu0__busy_pct": np.where(inside, gpu_meanwhile, 90.0)}
    if written is not None:
        series["disk__written_bytes_total"] = np.cumsum(np.where(inside, written, 1e5))
    return f.node(series=f.samples(1000, **series), events=events, of=f.hardware(gpus=1))


def run(node: NodeFrame, duration: float = 1000) -> RunFrame:
    return f.run(node, duration=duration)


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(run(saving(10, 6)), "fired", id="6 %"),
        pytest.param(run(saving(10, 5)), "fired", id="at the boundary"),
        pytest.param(run(saving(10, 4.9)), "passed", id="just below"),
        pytest.param(run(saving(10, 6, told="event")), "fired", id="told by events"),
        pytest.param(run(saving(2, 40)), "passed", id="two are too few"),
        pytest.param(run(saving(3, 20)), "fired", id="three are enough"),
        pytest.param(run(saving(10, 6, gpu_meanwhile=85.0)), "passed", id="in the background"),
        pytest.param(run(saving(10, 6, told="", written=2e8)), "fired", id="seen by its writing"),
        pytest.param(run(saving(10, 6, told="", written=2e5)), "passed", id="little is written"),
        pytest.param(
            run(saving(10, 6, told="", written=2e8, gpu_meanwhile=85.0)),
            "passed",
            id="writing while the GPU works",
        ),
        pytest.param(run(saving(10, 6, told="")), "insufficient_data", id="nobody tells"),
        pytest.param(run(saving(3, 3), duration=299), "insufficient_data", id="a short run"),
        pytest.param(f.run(), "insufficient_data", id="nothing at all"),
    ],
)
def test_stalls(frame: RunFrame, state: str) -> None:
    assert judged(STALLS, frame).verdict.state == state


def test_the_waste_of_stalls_is_most_of_their_time() -> None:
    verdict = judged(STALLS, run(saving(10, 6))).verdict
    assert (verdict.waste_seconds_low, verdict.waste_seconds_high) == pytest.approx((42, 57))


def working(hours: float, events: Any = (), writes: float | None = None) -> RunFrame:
    """Steps of a minute, from the first second on."""
    count = round(hours * 60)
    series: dict[str, Any] = {"host__cpu_busy_pct": 50.0}
    if writes is not None:
        rates = np.where(np.arange(count) % 30 == 0, writes, 1e5)
        series["disk__written_bytes_total"] = np.cumsum(rates * 60)
    table = f.samples(hours * 3600, resolution=60, **series)
    node = f.node(series=table, step_tables=[f.steps(count, duration=60)], events=events)
    return f.run(node, duration=hours * 3600, resolution=60)


SAVED = [(1800.0, "checkpoint", {"seconds": 3.0})]


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(working(3), "fired", id="three hours"),
        pytest.param(working(2), "fired", id="two hours"),
        pytest.param(working(1.98), "passed", id="not quite"),
        pytest.param(working(3, SAVED), "passed", id="one was told"),
        pytest.param(working(3, writes=1e6), "fired", id="only logs are written"),
        pytest.param(working(3, writes=2e8), "insufficient_data", id="something large is"),
        pytest.param(replace(working(3), final=False), "fired", id="still going"),
        pytest.param(f.run(f.node(), duration=9000), "insufficient_data", id="no steps told"),
        pytest.param(f.run(), "insufficient_data", id="nothing at all"),
    ],
)
def test_missing(frame: RunFrame, state: str) -> None:
    assert judged(MISSING, frame).verdict.state == state


def test_what_is_at_stake_is_the_chance_of_a_failure_times_half_of_the_work() -> None:
    verdict = judged(MISSING, working(4)).verdict
    assert verdict.waste_seconds_low == pytest.approx(4 * 3600 * 4 / (2 * 720))
    assert verdict.waste_seconds_high == pytest.approx(4 * 3600 * 4 / (2 * 24))


def every(interval: float, seconds: float = 30.0, nodes: int = 16, count: int = 6) -> RunFrame:
    """On 16 nodes a checkpoint of 30 s is best made every 3118 s."""
    events = [(n * interval, "checkpoint", {"seconds": seconds}) for n in range(1, count + 1)]
    made = [f.node(f"n{n}", events=events if n == 0 else ()) for n in range(nodes)]
    return f.run(*made, duration=(count + 1) * interval)


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(every(500), "fired", id="too often"),
        pytest.param(every(1035), "fired", id="just too often"),
        pytest.param(every(1045), "passed", id="not quite"),
        pytest.param(every(3000), "passed", id="at its best"),
        pytest.param(every(9300), "passed", id="rare"),
        pytest.param(every(9400), "fired", id="too rare"),
        pytest.param(every(200, seconds=1.0, nodes=1), "passed", id="often, but it costs nothing"),
        pytest.param(every(500, count=2), "insufficient_data", id="two are too few"),
        pytest.param(f.run(f.node()), "insufficient_data", id="none was told"),
        pytest.param(f.run(), "insufficient_data", id="nothing at all"),
    ],
)
def test_interval(frame: RunFrame, state: str) -> None:
    assert judged(INTERVAL, frame).verdict.state == state


def test_the_best_interval_is_dalys_and_too_often_and_too_rarely_are_two_findings() -> None:
    often, rare = judged(INTERVAL, every(500)).verdict, judged(INTERVAL, every(20_000)).verdict
    best = np.sqrt(2 * 30 * 720 * 3600 / 16)
    assert f"every {best:.0f} s" in often.advice
    assert often.dedupe_key != rare.dedupe_key
    excess = 30 / 500 + 500 / (2 * 162_000) - 2 * np.sqrt(30 / (2 * 162_000))
    assert often.waste_seconds_high == pytest.approx(excess * 3500, rel=1e-6)
