"""Figures that changed together with a run's time, at their limits."""

from __future__ import annotations

import math
from typing import Any

import pytest

from advisor.successive.causes import RunFigures, causes


def run(phases: dict[str, float] | None = None, **figures: Any) -> RunFigures:
    return RunFigures(phases or {}, figures)


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        (
            {"train": 90.0, "evaluate": 10.0},
            {"train": 92.5, "evaluate": 10.0},
            "train took longer, by 2 %",
        ),
        (
            {"train": 90.0, "evaluate": 10.0},
            {"train": 87.5, "evaluate": 10.0},
            "train took less time, by 2 %",
        ),
        ({"train": 90.0, "evaluate": 10.0}, {"train": 92.4, "evaluate": 10.0}, ""),
        ({"train": 90.0, "evaluate": 10.0}, {"train": 87.6, "evaluate": 10.0}, ""),
        ({"train": 80.0}, {"train": 100.0}, "train took longer, by 25 % of a run's usual time"),
        ({"train": 80.0}, {"train": 80.0, "save": 8.0}, "save took longer, by 10 %"),
        ({"train": 80.0, "save": 20.0}, {"train": 80.0}, "save took less time, by 20 %"),
        ({"train": 0.5}, {"train": 0.75}, "train took longer, by 50 %"),
        ({}, {"train": 100.0}, ""),
        ({"train": 0.0}, {"train": 100.0}, ""),
    ],
)
def test_a_phase_counts_from_a_fortieth_of_the_usual_time_on(before, now, words):
    likely_causes = causes([run(before)], run(now))
    assert [words in cause.words for cause in likely_causes] == ([True] if words else [])
    if likely_causes:
        assert likely_causes[0].what == f"phase {likely_causes[0].words.partition(' ')[0]}"


@pytest.mark.parametrize(
    ("figure", "before", "now", "words"),
    [
        ("data_wait_share", 0.0, 0.05, "data wait rose from 0 to 5 %"),
        ("data_wait_share", 0.05, 0.0, "data wait fell from 5 to 0 %"),
        ("data_wait_share", 0.1, 0.149, ""),
        ("gpu_busy_p95_pct", 90, 85, "GPU busy (p95) fell from 90 to 85 %"),
        ("gpu_busy_p95_pct", 90, 85.1, ""),
        ("gpu_busy_p95_pct", 0, 50, "GPU busy (p95) rose from 0 to 50 %"),
        ("cpu_busy_p95_pct", 20.0, 60.0, "CPU busy (p95) rose from 20 to 60 %"),
        ("cpu_busy_p95_pct", None, 60.0, ""),
        ("cpu_busy_p95_pct", 20.0, None, ""),
        ("cpu_busy_p95_pct", 20.0, math.inf, ""),
        ("cpu_busy_p95_pct", 20.0, "60", ""),
        ("step_seconds_p50", 1.0, 1.05, "median step time is 5 % higher"),
        ("step_seconds_p50", 1.0, 1.049, ""),
        ("step_seconds_p50", 0.2, 0.1, "median step time is 50 % lower"),
        ("step_seconds_p50", 0, 0.1, ""),
        ("step_seconds_p50", 0.2, 0, ""),
        ("step_seconds_p50", 0.2, -0.1, ""),
        ("step_seconds_p50", -0.2, 0.1, ""),
        ("memory_p99_bytes", 2e9, 5e9, "memory in use (p99) is 150 % higher"),
        ("loss", 1.0, 9.0, ""),
    ],
)
def test_a_figure_counts_from_five_points_or_percent_on(figure, before, now, words):
    likely_causes = causes([run(**{figure: before})], run(**{figure: now}))
    assert [cause.words for cause in likely_causes] == ([words] if words else [])
    assert all(cause.words.startswith(cause.what) for cause in likely_causes)


def test_the_usual_is_the_median_of_the_runs_before_that_know_it():
    before = [run({"train": t}, step_seconds_p50=s) for t, s in [(10, 1), (10, 1), (90, 9)]]
    before.append(run({"train": 10.0}))
    assert causes(before, run({"train": 10.0}, step_seconds_p50=1)) == []


def test_the_heaviest_four_come_first():
    """Phases before figures; figures by points, and by the logarithm of their ratio."""
    before = run(
        {"train": 50.0, "evaluate": 50.0},
        data_wait_share=0.1,
        gpu_busy_p95_pct=90.0,
        step_seconds_p50=1.0,
        memory_p99_bytes=1.0,
    )
    now = run(
        {"train": 60.0, "evaluate": 20.0},
        data_wait_share=0.7,
        gpu_busy_p95_pct=80.0,
        step_seconds_p50=math.exp(0.5),
        memory_p99_bytes=math.exp(-0.7),
    )
    likely_causes = causes([before], now)
    assert [cause.what for cause in likely_causes] == [
        "phase evaluate",
        "phase train",
        "memory in use (p99)",
        "data wait",
    ]
    assert [cause.weight for cause in likely_causes] == pytest.approx([1.3, 1.1, 0.7, 0.6])


def test_it_names_what_moved_along_with_the_cost():
    def run(train: float, wait: float, step: float) -> RunFigures:
        return RunFigures(
            {"initialise": 10.0, "train": train},
            {"data_wait_share": wait, "step_seconds_p50": step, "gpu_busy_p95_pct": None},
        )

    usual = [run(90.0, 0.05, 0.2) for _ in range(4)]
    likely = causes(usual, run(120.0, 0.30, 0.27))
    assert [cause.what for cause in likely] == [
        "phase train",
        "median step time",
        "data wait",
    ]
    assert likely[0].words == "train took longer, by 30 % of a run's usual time"
    assert likely[2].words == "data wait rose from 5 to 30 %"
    assert causes(usual, run(90.5, 0.06, 0.2)) == []
    assert causes([], run(1, 0, 1)) == []
