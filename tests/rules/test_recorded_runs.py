"""Real trainings: three hours each, once a second, as `dcgmi` and `nvidia-smi` recorded them."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pandas as pd
import pytest

from rules.frame import RunFrame
from rules.registry import all_rules
from tests.rules import frames as f
from tests.rules.scenarios.stored import Memory, stored, without_raw_samples
from tests.rules.test_grids import assert_same_ledger, stable_states, states

BESIDE = Path(__file__).parents[2].parent / "shared" / "fixtures"
TRACES = Path(os.environ.get("TRIMTAB_FIXTURES", BESIDE)) / "dcgm"
NAMES = {
    "gpu0.busy_pct": ("DCGMI - GPU Utilization", 1.0),
    "gpu0.power_watts": ("DCGMI - Power Usage", 1.0),
    "gpu0.sm_active_pct": ("DCGMI - SN Actuie", 100.0),
}

pytestmark = [
    pytest.mark.fixtures,
    pytest.mark.skipif(not TRACES.is_dir(), reason=f"no recorded traces in {TRACES}"),
]


def recorded(name: str) -> RunFrame:
    columns = json.loads(gzip.decompress((TRACES / f"test_{name}.json.gz").read_bytes()))
    index = pd.Index([ms / 1000 for ms in columns["MSPast"]], name="seconds")
    series = {ours: factor * pd.Series(columns[theirs]) for ours, (theirs, factor) in NAMES.items()}
    samples = pd.DataFrame(series).set_axis(index, axis=0)
    hardware = f.hardware(gpus=1)
    node = f.node("n1", samples, of=hardware)
    return f.run(node, duration=float(index[-1]) + 1.0)


@pytest.mark.parametrize("name", ["11523", "12f6a"])
def test_no_verdict_on_a_real_run_depends_on_the_grid(name: str) -> None:
    run = stored(recorded(name), Memory())
    finest = run.read(0.5)
    expected = stable_states(finest)
    every = list(all_rules().values())
    rules = [rule for rule in every if rule.id in expected]
    fired = {rule for rule, state in states(finest, every).items() if state == "fired"}
    frames = [run.read(resolution) for resolution in (1.0, 2.0, 5.0, 10.0)]
    for frame in [*frames, without_raw_samples(run).read(30.0)]:
        assert states(frame, rules) == expected
        assert {rule for rule, state in states(frame, every).items() if state == "fired"} <= fired
    for frame in frames:
        assert_same_ledger(frame, finest)
