"""The simulated runs: complete on the wire, the same each time, and true to the published
figures."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from advisor.figures import figures
from rules.engine import evaluate
from rules.frame import RunFrame
from tests.sample_data.received import Received, frame_of, received
from webapp.sample_data import published
from webapp.sample_data.histories import runs_of, sample_runs
from webapp.sample_data.load import uploads_of
from webapp.sample_data.published import published_runs
from webapp.sample_data.simulation import FINISHED

NOW = datetime(2026, 3, 14, 15, 9, tzinfo=UTC)


@dataclass(frozen=True)
class Facts:
    """The figures that were published of a run."""

    seconds: int
    nodes: int
    gpus: int
    gpus_used: int
    gpu_p95_pct: float
    cpu_p95_pct: float
    batch: int


PUBLISHED = (Facts(503, 3, 12, 9, 13.5, 24.4, 256), Facts(502, 2, 2, 2, 46.0, 61.0, 512))
Case = tuple[Facts, RunFrame]


PHOTOS = "product-photos/train.py"
"""A job that was slower from its tenth to its twelfth run."""
SLOWDOWN = 1.18


@pytest.fixture(scope="module")
def runs() -> list[Received]:
    """Return the published ones first, then those of one job."""
    return [received(run) for run in [*published_runs("ours"), *runs_of(PHOTOS, NOW)]]


@pytest.fixture(scope="module")
def frames(runs: list[Received], tmp_path_factory: pytest.TempPathFactory) -> list[RunFrame]:
    """Return frames at the resolutions at which the service analyses them."""
    folder = tmp_path_factory.mktemp("objects")
    resolutions = [1.0] * 2 + [5.0] * 17
    return [frame_of(run, folder, r) for run, r in zip(runs, resolutions, strict=True)]


@pytest.fixture(scope="module", params=[0, 1])
def case(request: pytest.FixtureRequest, frames: list[RunFrame]) -> Case:
    return PUBLISHED[request.param], frames[request.param]


def rule_states(frame: RunFrame) -> dict[str, str]:
    return {j.rule_id: j.verdict.state for j in evaluate(frame, {})}


def node_gpus(frame: RunFrame) -> list[NDArray[np.float64]]:
    """Return the utilisation of each node's GPUs: ticks by GPUs."""
    return [
        node.samples[[f"gpu{number}.busy_pct" for number in node.allocated_gpus()]].to_numpy()
        for node in frame.nodes.values()
    ]


def test_nothing_of_it_is_refused_and_it_stays_small() -> None:
    every = [received(run) for run in sample_runs(NOW)]
    assert [segment.refused for run in every for segment in run.segments if segment.refused] == []
    assert sum(len(run.segments) for run in every) < 400
    assert sum(len(body) for run in every for body in run.bodies) < 4_000_000


def test_the_same_day_gives_the_same_bytes_and_another_workspace_other_ids() -> None:
    later = NOW + timedelta(hours=3)
    first, again = sample_runs(NOW), sample_runs(later)
    assert [u for r in first for u in uploads_of(r)] == [u for r in again for u in uploads_of(r)]
    other = sample_runs(NOW, "another workspace")
    assert not {run.run_id for run in first} & {run.run_id for run in other}


def test_every_session_ends_to_the_millisecond_where_its_last_segment_does() -> None:
    for run in sample_runs(NOW):
        for declared in run.declarations():
            own = [s for s in run.segments() if s.machine_id == declared.node.machine_id]
            [end] = [e for e in own[-1].events if e.kind == "session_end"]
            assert own[-1].start_ms + end.time_ms == run.duration_ms
            assert own[-1].start_ms + own[-1].duration_ms == run.duration_ms
            assert end.data["final_seq"] == len(own) - 1
            assert all(b.start_ms == a.start_ms + a.duration_ms for a, b in pairwise(own))


def test_no_tick_step_or_event_is_lost_between_segments() -> None:
    for run in sample_runs(NOW):
        for node, declared in zip(run.nodes, run.declarations(), strict=True):
            own = [s for s in run.segments() if s.machine_id == declared.node.machine_id]
            ticks = [s.start_ms + t for s in own for b in s.blocks for t in b.times_ms]
            assert ticks == list(range(0, run.duration_ms, run.resolution_ms))
            if run.ending != FINISHED:
                continue
            sent = sum(len(block.start_us) for s in own for block in s.steps)
            assert sent == sum(len(steps.start_us) for steps in node.steps)
            # The process's start and exit and the session's end come on top.
            assert sum(len(s.events) for s in own) == len(node.events) + 3


def test_the_published_runs_last_exactly_as_published(case: Case) -> None:
    facts, frame = case
    assert frame.duration_seconds == facts.seconds
    assert len(frame.nodes) == facts.nodes
    assert all(n.intervals == ((0.0, facts.seconds),) for n in frame.nodes.values())


def test_the_published_gpu_counts_hold(case: Case) -> None:
    facts, frame = case
    peaks = np.concatenate([busy.max(axis=0) for busy in node_gpus(frame)])
    assert len(peaks) == facts.gpus
    assert (peaks > 0).sum() == facts.gpus_used


def test_the_published_gpu_percentile_holds_for_every_node_and_for_all_samples(case: Case) -> None:
    facts, frame = case
    for busy in node_gpus(frame):
        assert np.percentile(busy.mean(axis=1), 95) == pytest.approx(facts.gpu_p95_pct, abs=0.5)
    assert figures(frame).gpu_busy_p95_pct == pytest.approx(facts.gpu_p95_pct, abs=0.5)


def test_the_published_cpu_percentile_holds_for_every_node(case: Case) -> None:
    facts, frame = case
    for node in frame.nodes.values():
        cpu = node.samples["host.cpu_busy_pct"]
        assert np.percentile(cpu, 95) == pytest.approx(facts.cpu_p95_pct, abs=0.5)


def test_the_published_share_of_the_training_loop_and_its_work_hold(case: Case) -> None:
    facts, frame = case
    run_figures = figures(frame)
    share = run_figures.phase_seconds["train"] / frame.duration_seconds
    assert share == pytest.approx(0.45, abs=0.001)
    assert run_figures.work["epochs"] == 25
    assert run_figures.work["samples"] == 25 * published.SAMPLES_PER_EPOCH
    assert run_figures.work["samples"] / run_figures.work["steps"] == facts.batch


def test_the_rules_find_in_the_published_case_what_was_wrong_with_it(
    frames: list[RunFrame],
) -> None:
    first, second = rule_states(frames[0]), rule_states(frames[1])
    fired = {rule for rule, state in first.items() if state == "fired"}
    assert fired == {
        "batch_size",
        "input_bound",
        "low_gpu_utilization",
        "startup_breakdown",
        "unused_gpus",
    }
    assert first["cpu_oversized"] == "not_applicable"
    assert second["input_bound"] == "passed"


def test_all_but_the_published_runs_lie_in_the_last_three_months() -> None:
    starts = [run.started_at for run in sample_runs(NOW)]
    ends = [run.started_at + timedelta(milliseconds=run.duration_ms) for run in sample_runs(NOW)]
    assert starts == sorted(starts)
    assert NOW - timedelta(days=92) < starts[2] < NOW - timedelta(days=85)
    midnight = NOW.replace(hour=0, minute=0)
    assert midnight - timedelta(days=1) < max(ends) < midnight


def test_an_epoch_takes_longer_while_the_job_was_slow(frames: list[RunFrame]) -> None:
    seconds = np.array([epoch_seconds(frame) for frame in frames[2:]])
    slow = np.arange(17) // 3 == 3  # The tenth to the twelfth
    calm = seconds[~slow]
    assert calm.std() / calm.mean() == pytest.approx(0.02, abs=0.005)
    assert seconds[slow].mean() / calm.mean() == pytest.approx(SLOWDOWN, abs=0.02)
    assert seconds[slow].min() > calm.max()


def epoch_seconds(frame: RunFrame) -> float:
    [node] = frame.nodes.values()
    ends = node.events.loc[node.events["kind"] == "epoch", "time_seconds"].to_numpy()
    return float(np.diff(ends).mean())


def test_the_job_waits_for_its_data_while_it_is_slow_and_nothing_else_is_found(
    frames: list[RunFrame],
) -> None:
    states = [rule_states(frame) for frame in frames[2:]]
    assert [each["input_bound"] for each in states] == ["passed"] * 9 + ["fired"] * 3 + [
        "passed"
    ] * 5
    for each in states[:9] + states[12:]:
        assert "fired" not in each.values()
