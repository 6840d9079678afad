"""The pace of a loop, which the loader or the GPU sets."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.pricing.catalogue import GIB, catalogue
from advisor.sizing.cpu import RatioInterval
from advisor.sizing.demand import Demand
from advisor.sizing.layout import layout
from advisor.sizing.pace import LoaderPace, pace
from advisor.sizing.speed import Seconds, predicted_seconds
from rules.engine import Judgement
from rules.rule import Numbers, Verdict

SAME = RatioInterval(1.0, 1.0, 1.0)


def exactly(factor: float) -> RatioInterval:
    return RatioInterval(factor, factor, factor)


@pytest.mark.parametrize(
    ("loader", "gpu"),
    [(1.0, 1.0), (0.5, 1.0), (0.2, 1.0), (1.0, 0.1), (0.2, 0.5)],
)
def test_the_loader_sets_the_pace_until_the_gpu_does(loader: float, gpu: float) -> None:
    """60 % of the time are steps, two thirds of each a wait; the rest doesn't change."""
    measured = LoaderPace(loop_share=0.6, wait_share=2 / 3)
    faster = 0.6 * max(loader, gpu / 3) + 0.4
    assert measured.time(exactly(loader), exactly(gpu)).mid == pytest.approx(faster)


@pytest.mark.parametrize("variation", [0.5, 1.0])
def test_varying_times_take_longer_than_their_means_say_and_the_interval_knows(
    variation: float,
) -> None:
    random = Random(3)
    shape = 1 / variation**2
    steps = [max(1.0, random.gammavariate(shape, 1 / shape)) for _ in range(20_000)]
    truth = fmean(steps)
    interval = LoaderPace(1.0, 0.0, variation).time(SAME, SAME)
    assert interval.mid == 1.0 < truth <= interval.high


def test_faster_cores_help_a_run_that_waits_for_its_loader_and_no_other() -> None:
    now, other = catalogue()["g4dn.2xlarge"], catalogue()["g5.2xlarge"]
    job = Demand(3.0, GIB, 1, 1000, "g4dn.2xlarge", "us-east-1")
    waits = replace(job, pace=LoaderPace(0.9, 0.5))
    planned = layout(job, other, 1)
    seconds: list[Seconds] = [predicted_seconds(d, now, other, planned) for d in (job, waits)]
    assert seconds[0].mid == 1000
    assert 550 < seconds[1].mid < 900
    assert seconds[1].low < seconds[1].mid < seconds[1].high


def test_the_pace_is_read_from_what_the_rule_measured() -> None:
    def judged(**numbers: float) -> list[Judgement]:
        return [Judgement("input_bound", 1, {}, Numbers(numbers), Verdict("fired", ""))]

    assert pace(judged(wait_share_pct=50, step_seconds=60, run_seconds=100)) == LoaderPace(0.6, 0.5)
    assert pace(judged(wait_share_pct=2, step_seconds=60, run_seconds=100)) is None
    assert pace(judged(wait_share_pct=50)) is None
    assert pace([]) is None
    waits = judged(wait_share_pct=50, step_seconds=60, run_seconds=100)
    assert pace(waits, 0.1) == LoaderPace(0.6, 0.5, 0.1)
    assert pace(waits, 9.0) == LoaderPace(0.6, 0.5, 1.0)
    highest = [
        found.time(exactly(0.5), exactly(1)).high for v in (0, 0.5, 1) if (found := pace(waits, v))
    ]
    assert highest == sorted(set(highest))


@given(
    share=st.floats(0, 1),
    wait=st.floats(0, 1),
    loader=st.floats(0.05, 5),
    gpu=st.floats(0.05, 5),
    more=st.floats(1, 3),
)
def test_more_to_do_never_takes_less_time(
    share: float, wait: float, loader: float, gpu: float, more: float
) -> None:
    measured = LoaderPace(share, wait)
    one = measured.time(exactly(loader), exactly(gpu))
    assert one.low <= one.mid <= one.high
    assert measured.time(exactly(loader * more), exactly(gpu)).mid >= one.mid
    assert measured.time(exactly(loader), exactly(gpu * more)).mid >= one.mid
