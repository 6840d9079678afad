"""Trainings of known truth on a real GPU, analysed offline."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from trimtab.wire import NodeFacts

from advisor.offline.nodes import Timeline
from advisor.offline.reading import read_folder
from advisor.probing.loop_speed import GPU, UNKNOWN, LoopSpeed, loop_speed
from advisor.store.frames import load_frame
from tests.offline.folders import command, document

BESIDE = Path(__file__).parents[2].parent / "shared" / "fixtures"
RECORDED = Path(os.environ.get("TRIMTAB_FIXTURES", BESIDE)) / "h200"
pytestmark = pytest.mark.skipif(not RECORDED.exists(), reason="no recordings beside the checkout")


def speed_of(name: str) -> LoopSpeed:
    [run] = read_folder(RECORDED / name).runs.values()
    timeline = Timeline.from_run(run, NodeFacts(machine_id=""))
    histories = [node.history for node in timeline.nodes]
    times = timeline.started_at, timeline.ended_at
    frame, _ = load_frame(timeline.bodies, histories, *times, 0.5, timeline.is_final)
    speed = loop_speed(frame)
    assert speed is not None
    return speed


def test_an_unseen_wait_leaves_a_busy_gpu_the_pace_and_an_idle_one_unknown() -> None:
    probe, tiny = speed_of("probe"), speed_of("tiny")
    assert probe.data_wait_share is tiny.data_wait_share is None
    assert probe.pace == GPU
    assert tiny.pace == UNKNOWN


def test_another_gpu_than_the_declared_one_is_said() -> None:
    found = "gpu-h100-sxm_1gpu-16vcpu-200gb is declared, but NVIDIA H200 was found instead of H100"
    assert document(RECORDED / "tiny")["machine_doubts"] == [f"{found}."]
    assert found in command(RECORDED / "tiny").stdout


def test_what_saves_most_is_advised_first() -> None:
    """The loader's fix, although it isn't known whether the cores are enough for it."""
    analysed = document(RECORDED / "input")
    advised = [each["kind"] for each in analysed["recommendations"]]
    assert advised == ["fix_input_pipeline", "shorten_start_up"]
    findings = [each["rule"] for each in analysed["judgements"] if is_waste(each)]
    assert findings == ["input_bound", "startup_breakdown"]


def is_waste(judgement: dict[str, Any]) -> bool:
    return judgement["state"] == "fired" and float(judgement["waste_usd_high"]) > 0


def test_a_large_gpu_that_is_busy_is_not_said_to_have_no_room() -> None:
    """99 % busy with 10 % of the memory; known for 26 s."""
    said = {each["rule"]: each["summary"] for each in document(RECORDED / "busy")["judgements"]}
    assert said["batch_size"].startswith(
        "No sign of too small a batch: p95 of GPU utilisation 99 %, of GPU memory 10 %"
    )
    assert said["unused_gpus"] == "The only GPU was used."
    assert said["restart_loop"] == "No start failed."
