"""A saving that costs quality isn't one: directions, noise, and what people set for a job."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from advisor.comparison import job_metrics
from advisor.comparison.compare import RunFacts, compare
from advisor.comparison.job_metrics import JobMetrics, MetricSetting
from advisor.comparison.quality import noise, noise_of, quality_of_b

BEFORE = RunFacts(
    number=1, job="x", state="finished", cost_usd=Decimal(2), duration_seconds=10.0,
    work={"epochs": 3.0},
)  # fmt: skip
AFTER = replace(BEFORE, number=2, cost_usd=Decimal(1))


def saving(a: dict[str, float], b: dict[str, float], job: JobMetrics | None = None):  # type: ignore[no-untyped-def]
    runs = replace(BEFORE, quality=a), replace(AFTER, quality=b)
    return compare(*runs, *([job] if job else []))


@pytest.mark.parametrize(
    ("name", "a", "b"),
    [
        ("val/auroc", 0.95, 0.60),
        ("mIoU", 0.8, 0.3),
        ("eval_f1@0.5", 0.8, 0.7),
        ("test.accuracy", 97.0, 95.5),
        ("eval_loss", 0.3, 0.33),
        ("my_metric", 0.8, 0.3),
        ("my_metric", 0.3, 0.8),
        ("neg_log_loss", -0.4, -0.5),
    ],
)
def test_no_saving_is_claimed_where_results_are_or_may_be_worse(name, a, b):
    comparison = saving({name: a}, {name: b})
    assert comparison.saving_usd is None
    assert comparison.sentence.endswith("so no saving is claimed.")
    assert name in comparison.sentence


@pytest.mark.parametrize(
    ("name", "a", "b"),
    [
        ("val/auroc", 0.60, 0.95),
        ("accuracy", 0.95, 0.94),
        ("my_metric", 0.8, 0.795),
        ("learning_rate", 0.1, 0.001),
        ("epoch", 10.0, 3.0),
        ("gpu_memory", 10.0, 3.0),
    ],
)
def test_better_results_noise_and_bookkeeping_leave_the_saving(name, a, b):
    assert saving({name: a}, {name: b}).saving_usd == 1


def test_worse_results_of_other_work_are_said_too():
    less = replace(AFTER, quality={"val/auroc": 0.6}, work={"epochs": 1.0})
    warnings = compare(replace(BEFORE, quality={"val/auroc": 0.95}), less).warnings
    assert "The results are worse: val/auroc was 0.6 instead of 0.95." in warnings


def test_an_unknown_direction_is_said_with_where_to_set_it():
    comparison = saving({"gamma": 0.8}, {"gamma": 0.3})
    assert (
        "but gamma moved from 0.8 to 0.3 and whether that is better isn't known, so no saving"
        in comparison.sentence
    )
    assert any("Set it under Edit on the page of the job" in w for w in comparison.warnings)


@pytest.mark.parametrize(
    ("setting", "a", "b", "is_saving"),
    [
        ("gamma: lower", 0.8, 0.3, True),
        ("gamma: higher", 0.8, 0.3, False),
        ("gamma: ignore", 0.8, 0.3, True),
        ("gamma: 70 %", 0.8, 0.3, True),
        ("gamma: higher, 50 points", 0.8, 0.3, True),
        ("gamma: higher, 49 points", 0.8, 0.3, False),
        ("gamma: higher, 10 %", 1.0, 0.9, True),
        ("gamma: higher, 9.9 %", 1.0, 0.9, False),
        ("gamma: lower, 2 points", 30.0, 32.5, False),
    ],
)
def test_what_people_set_for_the_job_counts(setting, a, b, is_saving):
    job = JobMetrics(job_metrics.from_lines(setting), {})
    assert (saving({"gamma": a}, {"gamma": b}, job).saving_usd is not None) is is_saving


def test_the_noise_of_earlier_runs_is_known_from_five_on():
    values = [0.90, 0.92, 0.88, 0.91, 0.89]
    assert noise(values[:4]) is None
    assert noise(values) == pytest.approx(3 * 1.4826 * 0.01)
    job = JobMetrics({}, noise_of([{"accuracy": value} for value in values]))
    assert saving({"accuracy": 0.90}, {"accuracy": 0.87}, job).saving_usd == 1
    assert saving({"accuracy": 0.90}, {"accuracy": 0.85}, job).saving_usd is None


def test_a_job_that_repeats_exactly_is_held_to_it():
    job = JobMetrics({}, noise_of([{"val_loss": 0.3}] * 5))
    assert saving({"val_loss": 0.3}, {"val_loss": 0.3001}, job).saving_usd == 1
    assert saving({"val_loss": 0.3}, {"val_loss": 0.304}, job).saving_usd is None


settings = st.builds(
    MetricSetting,
    st.sampled_from(["higher", "lower"]),
    st.none() | st.floats(0, 50).map(lambda loss: round(loss, 3)),
    st.sampled_from(["percent", "points"]),
)


@given(setting=settings, a=st.floats(0.01, 100), b=st.floats(0.01, 100))
def test_turning_the_direction_never_claims_both_ways_beyond_the_tolerance(setting, a, b):
    turned = replace(setting, direction="lower" if setting.direction == "higher" else "higher")
    held = [quality_of_b({"m": a}, {"m": b}, JobMetrics({"m": s}, {})) for s in (setting, turned)]
    is_loss = (b < a) == (setting.direction == "higher")
    assert not (held[0] and held[1])
    assert not held[1 if is_loss else 0]
    if setting.tolerated_loss is not None:
        unit = a / 100 if setting.unit == "percent" else 0.01 if max(a, b) <= 1 else 1.0
        tolerated = setting.tolerated_loss * unit
        assume(abs(abs(b - a) - tolerated) > 1e-6)
        assert bool(held[0] or held[1]) is (abs(b - a) > tolerated)


names = st.from_regex(r"[a-z/_@:.0-9]{1,20}[a-z]", fullmatch=True)


@given(st.dictionaries(names, settings, max_size=5))
def test_lines_and_documents_say_the_same_settings(wanted):
    again = job_metrics.from_lines(job_metrics.as_lines(wanted))
    assert {name: _told(s) for name, s in again.items()} == {n: _told(s) for n, s in wanted.items()}
    assert job_metrics.from_document(job_metrics.to_document(wanted)) == wanted


def _told(setting: MetricSetting) -> tuple[object, ...]:
    unit = None if setting.tolerated_loss is None else setting.unit
    return setting.direction, setting.tolerated_loss, unit


@pytest.mark.parametrize(
    "line",
    ["gamma", "gamma:", ": higher", "gamma: up", "gamma: higher, lower", "gamma: -2 %", "g: 2 kg",
     "gamma: 1 %, 2 %", f"{'g' * 201}: higher", "gamma: 9999999 %"],
)  # fmt: skip
def test_a_line_that_is_not_clear_is_refused(line):
    with pytest.raises(ValueError, match=r"gamma|metric|tolerated|Write"):
        job_metrics.from_lines(line)


@pytest.mark.parametrize(
    "document",
    [[], {"m": {}}, {"m": {"direction": "up"}}, {"m": {"tolerated_loss": -1}}, {"m": {"loss": 1}},
     {"m": {"direction": "lower", "tolerated_loss": float("nan")}}],
)  # fmt: skip
def test_a_document_of_another_shape_is_refused(document):
    with pytest.raises(ValueError, match=r"."):
        job_metrics.from_document(document)
