"""Real trainings: three hours each, once a second, as `dcgmi` and `nvidia-smi` recorded them; and
some of known truth on an H200, as the agent recorded them."""

from __future__ import annotations

import gzip
import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from rules.frame import RunFrame
from rules.registry import all_rules
from tests.offline.folders import document
from tests.rules import frames as f
from tests.rules.scenarios.stored import Memory, stored, without_raw_samples
from tests.rules.test_grids import assert_same_ledger, stable_states, states

BESIDE = Path(__file__).parents[2].parent / "shared" / "fixtures"
FIXTURES = Path(os.environ.get("TRIMTAB_FIXTURES", BESIDE))
TRACES, H200 = FIXTURES / "dcgm", FIXTURES / "h200"
NAMES = {
    "gpu0.busy_pct": ("DCGMI - GPU Utilization", 1.0),
    "gpu0.power_watts": ("DCGMI - Power Usage", 1.0),
    "gpu0.sm_active_pct": ("DCGMI - SN Actuie", 100.0),
}

pytestmark = [
    pytest.mark.fixtures,
    pytest.mark.skipif(not FIXTURES.is_dir(), reason=f"no recorded runs in {FIXTURES}"),
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


class Truth:
    """The times that a training measured by itself; seconds since its run began."""

    def __init__(self, told: dict[str, Any], report: dict[str, Any]) -> None:
        began = datetime.fromisoformat(report["started_at"]).timestamp()
        self.told, self.run_seconds = told, float(report["duration_seconds"])
        self.marks = {name: at - began for name, at in told["marks"]}
        self.steps = [at - began for at in told["steps"]]

    def labels(self) -> dict[str, float]:
        """Return the seconds of the labels, or sums of labels, that it knows."""
        marks, steps, told = self.marks, self.steps, self.told
        loop = steps[-1] - steps[0] if steps else 0.0
        match told["mode"]:
            case "phases":
                return {
                    "initialise": steps[0],
                    "checkpoint": sum(told["ckpt_s"]),
                    "evaluation": marks["ckpt"] - marks["eval"],
                    "idle_tail": self.run_seconds - marks["tail"],
                }
            case "input":
                return {"data_stall": sum(told["waits"])}
            case "tiny":
                return {"effective+low_sm": 0.1 * loop, "data_stall": 0.0}
            case "hf":
                return {"initialise": marks["train"]}
            case _:
                return {"initialise": steps[0], "effective+gpu_idle": self.run_seconds - steps[0]}


@pytest.mark.parametrize("name", ["phases", "input", "busy", "tiny", "profile", "hf"])
def test_labels_of_an_h200_are_within_two_percent_of_the_truth(name: str) -> None:
    report = document(H200 / name)
    truth = Truth(json.loads((H200 / name / "truth.json").read_text()), report)
    seconds = {line["label"]: line["node_seconds"] for line in report["ledger"]}
    for labels, expected in truth.labels().items():
        found = sum(seconds.get(label, 0.0) for label in labels.split("+"))
        assert found == pytest.approx(expected, abs=0.02 * truth.run_seconds), labels
    assert {"gap", "hung", "unused_gpu"}.isdisjoint(seconds)
    fired = {each["rule"] for each in report["judgements"] if each["state"] == "fired"}
    assert {"step_outlier", "hung"}.isdisjoint(fired)
