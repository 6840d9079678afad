"""Speeds of other GPUs, given what was measured."""

from __future__ import annotations

import dataclasses
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.speed.data_sheets import data_sheet, plain_log_ratio
from advisor.speed.knowledge import Knowledge
from advisor.speed.measurement import Measurement, Target
from advisor.speed.prediction import predict
from advisor.speed.table import bundled_table, from_document

GPUS = ("K80", "T4", "V100-SXM2-16", "A10G", "A100-40-SXM", "H100-SXM", "L4")
PRESENT = Measurement("job", "V100-SXM2-16", 100.0, "fp32", 64)

measurements = st.builds(
    Measurement,
    workload=st.sampled_from(["job", "other", "third"]),
    gpu=st.sampled_from(GPUS),
    throughput=st.floats(0.1, 1e6),
    precision=st.sampled_from(["fp32", "fp32/tf32", "mixed"]),
    batch=st.sampled_from([None, 64.0, 128.0]),
)


def _targets(*gpus: str) -> list[Target]:
    return [Target(gpu) for gpu in gpus]


@given(st.lists(measurements, max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_measurements_doesnt_matter(more, shuffle: random.Random):
    present, *later = [PRESENT, *(m for m in more if m.workload == "job")]
    history = [m for m in more if m.workload != "job"]
    before = predict([present, *later], _targets(*GPUS), Knowledge(history))
    shuffle.shuffle(later)
    shuffle.shuffle(history)
    after = predict([present, *later], _targets(*GPUS), Knowledge(history))
    for one, other in zip(before.speeds, after.speeds, strict=True):
        assert math.isclose(one.log_median, other.log_median, abs_tol=1e-5)
        assert math.isclose(one.log_sd, other.log_sd, abs_tol=1e-5)
        assert one.rung == other.rung


@given(st.lists(measurements, max_size=6), measurements)
def test_a_further_measurement_never_raises_the_variance(known, further):
    def sds(measured: list[Measurement]) -> list[float]:
        own = [PRESENT, *(m for m in measured if m.workload == "job")]
        history = [m for m in measured if m.workload != "job"]
        return [speed.log_sd for speed in predict(own, targets, knowledge(history)).speeds]

    def knowledge(history: list[Measurement]) -> Knowledge:
        return Knowledge(history, dataclasses.replace(bundled_table(), calibration={}))

    targets = _targets(*(gpu for gpu in GPUS if gpu != PRESENT.gpu))
    for before, after in zip(sds(known), sds([*known, further]), strict=True):
        assert after <= before + 1e-5


@given(st.floats(0.001, 1000))
def test_units_of_throughput_dont_matter(factor):
    scaled = dataclasses.replace(PRESENT, throughput=PRESENT.throughput * factor)
    one = predict([PRESENT], _targets(*GPUS), Knowledge())
    other = predict([scaled], _targets(*GPUS), Knowledge())
    for before, after in zip(one.speeds, other.speeds, strict=True):
        assert math.isclose(before.median, after.median, rel_tol=1e-6)


def test_an_unseen_gpu_is_placed_by_its_data_sheet():
    """The table knows no effect of any GPU here, so that only data sheets are left."""
    table = bundled_table()
    names = ("fp32", "peak", "bandwidth", "family", "gpu")
    document = {
        "levels": {
            name: {n: float(v) ** 0.5 for n, v in zip(names, level.variances, strict=True)}
            | {"shared": level.shared}
            for name, level in table.levels.items()
        },
        "effects": {"fp32": {}, "tf32": {}, "half": {}},
        "calibration": {},
    }
    known = Knowledge(table=from_document(document))
    (speed,) = predict([PRESENT], _targets("H200-NVL"), known).speeds
    here, there = data_sheet("V100-SXM2-16"), data_sheet("H200-NVL")
    assert here is not None
    assert there is not None
    assert math.isclose(speed.log_median, there.log_ratio - here.log_ratio, abs_tol=1e-4)
    assert speed.rung == "prior"


def test_a_probe_moves_its_gpu_and_those_like_it():
    probe = dataclasses.replace(PRESENT, gpu="A100-40-SXM", throughput=400.0, rel_sd=0.01)
    targets = _targets("A100-40-SXM", "A100-80-SXM", "T4")
    before = predict([PRESENT], targets, Knowledge()).speeds
    after = predict([PRESENT, probe], targets, Knowledge()).speeds
    assert after[0].rung == "measured"
    assert after[0].median == pytest.approx(4.0, rel=0.03)
    assert after[1].rung == "prior"
    assert before[1].median < after[1].median
    assert after[1].log_sd < before[1].log_sd


def test_a_probe_of_another_batch_isnt_taken_for_the_present_configuration():
    probe = dataclasses.replace(PRESENT, gpu="A10G", batch=32, throughput=900.0)
    (speed,) = predict([PRESENT, probe], _targets("A10G"), Knowledge()).speeds
    assert speed.rung == "prior"
    assert speed.median < 3


def test_only_the_busy_share_of_a_waiting_gpu_scales():
    (busy,) = predict([PRESENT], _targets("H100-SXM"), Knowledge()).speeds
    waiting = dataclasses.replace(PRESENT, util_pct=20.0)
    (speed,) = predict([waiting], _targets("H100-SXM"), Knowledge()).speeds
    assert speed.median == pytest.approx(1 / (0.8 + 0.2 / busy.median))
    power = dataclasses.replace(waiting, util_kind="avg power / max power limit")
    assert predict([power], _targets("H100-SXM"), Knowledge()).speeds[0] == busy


@pytest.mark.parametrize(
    ("gpu", "util_pct", "least", "most"),
    [
        ("A100-40-SXM/mig1g", 100, 0.1, 0.2),
        ("A100-40-SXM 3g.20gb", 40, 0.99, 1.01),
        ("A100-40-SXM/mig7g", 90, 0.99, 1.01),
    ],
)
def test_a_slice_keeps_the_speed_that_its_share_allows(gpu, util_pct, least, most):
    present = Measurement("job", "A100-40-SXM", 10.0, "?", None, util_pct=util_pct)
    (speed,) = predict([present], _targets(gpu), Knowledge()).speeds
    assert least < speed.median < most


@pytest.mark.parametrize(
    ("util_pct", "gpus", "is_known"),
    [(10, 1, True), (40, 2, True), (60, 2, False), (10, 8, False), (None, 2, False)],
)
def test_one_size_tells_nothing_of_more_gpus_nor_of_fewer_than_are_busy(util_pct, gpus, is_known):
    present = dataclasses.replace(PRESENT, gpus=4, util_pct=util_pct)
    (speed,) = predict([present], [Target(PRESENT.gpu, gpus)], Knowledge()).speeds
    assert (speed.rung == "same") is is_known
    assert bool(speed.missing) is not is_known


def test_two_sizes_tell_of_a_third():
    """t = G + C(n - 1)/n with G = 0.8 and C = 0.2 seconds, 16 samples for each GPU."""

    def of(gpus: int) -> Measurement:
        seconds = 0.8 + 0.2 * (gpus - 1) / gpus
        batch = 16.0 * gpus
        return dataclasses.replace(PRESENT, gpus=gpus, batch=batch, throughput=batch / seconds)

    predicted = predict([of(4), of(2)], [Target(PRESENT.gpu, n) for n in (3, 8, 64)], Knowledge())
    three, eight, many = predicted.speeds
    assert three.median == pytest.approx(of(3).throughput / of(4).throughput)
    assert eight.median == pytest.approx(of(8).throughput / of(4).throughput)
    assert eight.log_sd > three.log_sd > 0
    assert many.missing


def test_half_precision_on_modern_gpus_counts_the_tensor_rate_too():
    """L40S over A100: 4.7 times the FP32 rate, and 1.16 times the tensor rate."""
    a100, l40s, v100 = (data_sheet(name) for name in ("A100-40-SXM", "L40S", "V100-SXM2-16"))
    pascal, turing = data_sheet("TITANXP"), data_sheet("T4")
    fp32 = l40s.log_ratio - a100.log_ratio
    assert plain_log_ratio(a100, l40s, "fp32") == plain_log_ratio(a100, l40s, "tf32") == fp32
    tensor = math.log(362 / 312)
    by_fp32 = math.log(91.6 / 19.5)
    expected = fp32 + (tensor - by_fp32) / 4
    assert plain_log_ratio(a100, l40s, "mixed") == pytest.approx(expected)
    assert plain_log_ratio(l40s, a100, "mixed") == pytest.approx(-expected)
    for one, other in ((v100, turing), (pascal, l40s)):
        old = other.log_ratio - one.log_ratio
        assert plain_log_ratio(one, other, "mixed") == old


def test_a_run_in_half_precision_is_predicted_by_it():
    a100, l40s = data_sheet("A100-40-SXM"), data_sheet("L40S")
    [half], [full] = (
        predict([dataclasses.replace(PRESENT, gpu="A100-40-SXM", precision=p)], _targets("L40S"),
                Knowledge()).speeds
        for p in ("mixed", "fp32")
    )  # fmt: skip
    assert half.log_median < full.log_median
    assert plain_log_ratio(a100, l40s, "mixed") < plain_log_ratio(a100, l40s, "fp32")
