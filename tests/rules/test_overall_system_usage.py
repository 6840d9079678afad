"""`overall_system_usage`: a table and a sentence, never a finding."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rules import frames as f
from tests.rules.cases import judged

RULE = "overall_system_usage"
SCENARIO = None
"""The rule never fires: it is an overview."""


@pytest.mark.parametrize(
    ("cpu", "gpu", "sentence"),
    [
        (40.0, 40.0, "the GPUs were hardly ever busy"),
        (95.0, 40.0, "the GPUs were hardly ever busy while the cores were"),
        (40.0, 70.0, "the GPUs had busy times"),
        (95.0, None, "the cores had busy times"),
        (40.0, None, "the cores were hardly ever busy"),
    ],
)
def test_it_says_how_well_the_machines_were_used(
    cpu: float, gpu: float | None, sentence: str
) -> None:
    series = {"host__cpu_busy_pct": cpu} | ({"gpu0__busy_pct": gpu} if gpu is not None else {})
    node = f.node(series=f.samples(60, **series), of=f.hardware(gpus=0 if gpu is None else 1))
    verdict = judged(RULE, f.run(node)).verdict
    assert verdict.state == "passed"
    assert verdict.summary.endswith(f": {sentence}.")


def test_its_numbers_are_the_percentiles_of_each_node() -> None:
    values = np.arange(101.0)
    nodes = [
        f.node("n1", f.samples(101, host__cpu_busy_pct=values)),
        f.node("n2", f.samples(101, host__cpu_busy_pct=values / 2)),
    ]
    numbers = judged(RULE, f.run(*nodes)).numbers
    assert numbers.by_entity("cpu_pct_p95") == {"n1": 95, "n2": 47.5}
    assert numbers.by_entity("cpu_pct_p90") == {"n1": 90, "n2": 45}
    assert numbers.by_entity("cpu_pct_max") == {"n1": 100, "n2": 50}


def test_a_run_of_which_nothing_is_known_is_not_summed_up() -> None:
    assert judged(RULE, f.run(f.node())).verdict.state == "insufficient_data"
    gaps = f.node(series=f.samples(60, host__cpu_busy_pct=f.GAP))
    assert judged(RULE, f.run(gaps)).verdict.state == "insufficient_data"
