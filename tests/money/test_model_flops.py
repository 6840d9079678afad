"""The operations that a run computed, and their share of its GPUs' peak."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.figures import figures
from rules.frame import EVENT_COLUMNS, STEP_COLUMNS, GpuHardware, Hardware, NodeFrame, RunFrame

GIB = 2**30
H200 = GpuHardware("NVIDIA H200", 140 * GIB)
A100 = GpuHardware("NVIDIA A100-SXM4-80GB", 80 * GIB)
T4 = GpuHardware("Tesla T4", 15 * GIB)
HALF = {"rank": 0, "amp": "bfloat16", "parameters": "float32", "tf32": False, "cudnn_tf32": True}
PARAMETERS = {"rank": 0, "total": 1000, "trainable": 1000, "optimised": 1000}
PARAMETERS |= {"embedding": 300, "tied": False}


def counted(forward, backward, recomputed=0, samples=None, tokens=None, at_least=False, rank=0):
    data = {"rank": rank, "forward": forward, "backward": backward, "recomputed": recomputed}
    return "flops", data | {"samples": samples, "tokens": tokens, "at_least": at_least}


def steps(*sizes, rank=0, count=1):
    """Make steps of a second each, of (samples, tokens)."""
    rows = [
        (rank, "train", float(at), 1.0 / count, np.nan, samples, count, tokens)
        for at, (samples, tokens) in enumerate(sizes)
    ]
    return pd.DataFrame(rows, columns=list(STEP_COLUMNS))


def computed(tables, events, gpus=(H200,), seconds=100.0, series=(), held=None):
    """Return what a run of one node computed."""
    told = [(0.5, kind, data) for kind, data in events]
    node = NodeFrame(
        key="n1",
        hardware=Hardware(gpus=tuple(gpus)),
        samples=pd.DataFrame(0.0, index=[0.0], columns=list(series)),
        steps=pd.concat(tables, ignore_index=True),
        events=pd.DataFrame(told, columns=list(EVENT_COLUMNS)),
        intervals=held or ((0.0, seconds),),
    )
    return figures(RunFrame(1.0, seconds, final=True, nodes={"n1": node})).model_flops


def test_resnet_50_at_2457_images_a_second_is_at_6_percent_of_an_h200():
    """The recorded run computed in bfloat16, in batches of 256; test_flops counts by hand."""
    forward, backward = 256 * 8_178_368_512, 256 * 16_120_709_120
    made = steps(*[(2457.0, np.nan)] * 100)
    found = computed([made], [("precision", HALF), counted(forward, backward, samples=256)])
    assert (found.gpu, found.precision, found.source) == ("H200 SXM 141GB", "bfloat16", "counted")
    assert found.mfu == pytest.approx(0.0603, abs=0.0001)
    assert found.flops == pytest.approx(2457 * 100 * (8_178_368_512 + 16_120_709_120))


def test_time_that_two_sessions_held_a_gpu_together_counts_once():
    told = [("precision", HALF), counted(10**15, 2 * 10**15, samples=256)]
    once, overlapping = (
        computed([steps(*[(256.0, np.nan)] * 3)], told, held=held)
        for held in (None, ((0.0, 80.0), (40.0, 100.0)))
    )
    assert overlapping.peak_flops == once.peak_flops


def test_what_is_recomputed_is_no_part_of_the_mfu():
    made = steps(*[(1.0, np.nan)] * 50)
    events = [("precision", HALF), counted(2 * 10**12, 4 * 10**12, 10**12, samples=1)]
    found = computed([made], events)
    assert found.mfu == pytest.approx(50 * 6e12 / (100 * 989.4e12))
    assert found.hfu == pytest.approx(50 * 7e12 / (100 * 989.4e12))


@given(
    st.integers(1, 10**6),
    st.integers(1, 10**4),
    st.lists(st.tuples(st.integers(1, 64), st.integers(1, 4096)), min_size=1, max_size=30),
    st.sampled_from([(2, 128, 1024), (1, 16, 4096), (8, 64, 65)]),
)
def test_steps_of_other_lengths_are_those_of_the_same_model(dense, attention, made, sizes):
    batch, short, long = sizes

    def work(samples, length):
        return samples * length * (dense + attention * length)

    counts = [
        counted(work(batch, length), 0, samples=batch, tokens=batch * length)
        for length in (short, long)
    ]
    rows = steps(*[(float(samples), float(samples * length)) for samples, length in made])
    found = computed([rows], counts)
    assert found.flops == pytest.approx(sum(work(*each) for each in made), rel=1e-6)


def test_each_rank_counts_by_its_own_steps_and_none_may_lack_a_count():
    made = [steps((2.0, np.nan), (2.0, np.nan)), steps((2.0, np.nan), rank=1)]
    both = [counted(100, 200, samples=2), counted(10, 20, samples=2, rank=1)]
    assert computed(made, both).flops == 2 * 300 + 30
    lacking = computed(made, both[:1])
    assert (lacking.flops, lacking.mfu) == (None, None)
    assert lacking.unknown == "not every process counted a step"


def test_summarised_steps_and_the_first_one_count():
    first = ("step_untimed", {"rank": 0, "phase": "train", "samples": 2})
    made = steps((20.0, np.nan), count=10)
    found = computed([made], [counted(100, 200, samples=2), first])
    assert found.flops == 11 * 300


def test_steps_whose_sizes_are_unknown_are_alike_or_unknown():
    made = steps(*[(np.nan, np.nan)] * 4)
    assert computed([made], [counted(100, 200), counted(104, 200)]).flops == 4 * 302
    other = computed([made], [counted(100, 200), counted(200, 400)])
    assert (other.flops, other.unknown) == (None, "its steps differ, and their sizes aren't known")


def test_where_nothing_is_counted_it_is_the_formula_of_tokens_and_parameters():
    made = steps((2.0, 64.0), (2.0, 64.0))
    found = computed([made], [("parameters", PARAMETERS), ("precision", HALF)])
    assert (found.source, found.flops, found.parameters) == ("formula", 128 * 6 * 700, 1000)
    assert (found.recomputed_flops, found.hfu) == (None, None)
    tied = computed([made], [("parameters", PARAMETERS | {"tied": True})])
    assert tied.flops == 128 * 6 * 1000
    adapted = computed([made], [("parameters", PARAMETERS | {"trainable": 310})])
    assert adapted.flops == 128 * (4 * 700 + 2 * 10)
    no_text = computed([steps((2.0, np.nan))], [("parameters", PARAMETERS)])
    assert (no_text.flops, no_text.source) == (None, "")
    assert no_text.unknown == "no step was counted, and its tokens aren't known"


@pytest.mark.parametrize(
    ("gpus", "precision", "unknown"),
    [
        ((), {}, "the run has no GPU"),
        ((GpuHardware("NVIDIA Q9", 8 * GIB),), {}, "the data sheet of NVIDIA Q9 isn't known"),
        ((H200, A100), {}, "its GPUs differ: NVIDIA A100-SXM4-80GB, NVIDIA H200"),
        ((H200,), {}, ""),
        ((H200,), {"amp": "other"}, "the numbers in which it computes"),
        ((H200,), {"amp": "off", "parameters": "float64"}, "the numbers in which it computes"),
        ((T4,), {}, "the data sheet of Tesla T4 has no rate for bfloat16"),
    ],
)
def test_it_says_why_the_utilisation_is_unknown_and_never_0(gpus, precision, unknown):
    events = [("precision", HALF | precision), counted(10**9, 10**9, samples=1)]
    found = computed([steps((1.0, np.nan))], events, gpus)
    assert found.unknown.startswith(unknown)
    assert (found.mfu is None) == bool(found.unknown)
    assert found.flops == 2 * 10**9


def test_a_slice_is_not_taken_for_the_whole_gpu():
    events = [("precision", HALF), counted(10**9, 10**9, samples=1)]
    found = computed([steps((1.0, np.nan))], events, series=["gpu0.mig1.sm_active_pct"])
    assert (found.mfu, found.unknown) == (None, "a GPU is divided into MIG slices")


@pytest.mark.parametrize(
    ("told", "convolutions", "precision", "tera"),
    [
        ({"amp": "float16"}, 0, "float16", 312),
        ({"amp": "off", "parameters": "bfloat16"}, 0, "bfloat16", 312),
        ({"amp": "off", "tf32": True}, 0, "TF32", 156),
        ({"amp": "off"}, 5, "TF32", 156),
        ({"amp": "off"}, 0, "float32", 19.5),
    ],
)
def test_the_peak_is_that_of_the_numbers_in_use(told, convolutions, precision, tera):
    formats = ("memory_format", {"rank": 0, "convolutions": convolutions, "channels_last": 0})
    events = [("precision", HALF | told), formats, counted(10**12, 0, samples=1)]
    found = computed([steps((1.0, np.nan))], events, [A100, A100])
    assert (found.precision, found.peak_flops) == (precision, pytest.approx(200 * tera * 1e12))


def test_more_than_the_gpus_can_compute_is_a_wrong_count():
    events = [("precision", HALF), counted(10**18, 0, samples=1, at_least=True)]
    found = computed([steps((1.0, np.nan))], events, seconds=1.0)
    assert (found.mfu, found.is_at_least) == (None, True)
    assert found.unknown == "more was counted than the GPUs can compute"


def test_a_run_without_the_hook_has_nothing_to_say():
    assert computed([steps((1.0, np.nan))], []) is None
