"""The figures of a run that lists and comparisons show."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from advisor.figures import figures
from rules.frame import EVENT_COLUMNS, STEP_COLUMNS, Hardware, NodeFrame, RunFrame


def _steps(rows: list[tuple]) -> pd.DataFrame:
    """Return steps; rows without a number of tokens have none that is known."""
    padded = [(*row, np.nan)[: len(STEP_COLUMNS)] for row in rows]
    return pd.DataFrame(padded, columns=list(STEP_COLUMNS))


def frame(steps: list[tuple], events: list[tuple]) -> RunFrame:
    busy = pd.DataFrame({"host.cpu_busy_pct": [10.0, 20.0, np.nan, 30.0]}, index=[0.0, 1, 2, 3])
    node = NodeFrame(
        key="node-1",
        hardware=Hardware(vcpus=4),
        samples=busy,
        steps=_steps(steps),
        events=pd.DataFrame(events, columns=list(EVENT_COLUMNS)),
    )
    return RunFrame(1.0, 4.0, final=True, nodes={"node-1": node})


def test_it_counts_the_work_of_a_first_step_that_has_no_time():
    steps = [(0, "train", 1.0, 0.5, 0.1, 32, 1), (0, "train", 1.5, 0.5, 0.1, 32, 1)]
    first = {"rank": 0, "phase": "train", "samples": 32}
    run_figures = figures(frame(steps, [(0.9, "step_untimed", first)]))
    assert run_figures.work == {"samples": 96, "steps": 3}
    assert run_figures.data_wait_share == 0.2


def test_it_gives_no_samples_where_one_step_did_not_tell_them():
    steps = [(0, "train", 1.0, 0.5, np.nan, 32, 1), (0, "train", 1.5, 0.5, np.nan, np.nan, 1)]
    run_figures = figures(frame(steps, []))
    assert run_figures.work == {"steps": 2}
    assert run_figures.data_wait_share is None


def test_it_counts_the_tokens_of_all_steps():
    text = [(0, "train", 1.0, 0.5, 0.1, 2, 1, 128), (0, "train", 1.5, 0.5, 0.1, 6, 3, 400)]
    first = {"rank": 0, "phase": "train", "samples": 2, "tokens": 100}
    counted = {"samples": 10, "tokens": 628, "steps": 5}
    assert figures(frame(text, [(0.9, "step_untimed", first)])).work == counted
    del first["tokens"]
    assert "tokens" not in figures(frame(text, [(0.9, "step_untimed", first)])).work


def test_it_weighs_summarised_steps_by_their_number():
    steps = [(0, "train", 0.0, 0.1, 0.0, 900, 9), (0, "train", 1.0, 9.0, 9.0, 100, 1)]
    run_figures = figures(frame(steps, []))
    assert run_figures.step_seconds_p50 == 0.1
    assert run_figures.steps == 10
    assert abs(run_figures.data_wait_share - 9.0 / 9.9) < 1e-12


def test_it_leaves_what_was_not_measured_unknown():
    run_figures = figures(RunFrame(1.0, 0.0, final=False))
    assert (run_figures.steps, run_figures.cpu_busy_p95_pct, run_figures.gpu_busy_p95_pct) == (
        None,
        None,
        None,
    )
    assert (run_figures.work, run_figures.phase_seconds) == ({}, {})


@pytest.mark.parametrize("own_cores", [0.0005, 2.0])
def test_neighbours_cores_and_memory_are_not_the_runs(own_cores):
    seconds = np.arange(600)
    samples = pd.DataFrame(
        {
            "host.cpu_busy_pct": 100.0,
            "host.memory_used_bytes": 60e9,
            "tree.cpu_seconds_total": own_cores * seconds,
            "tree.rss_bytes": 1e9,
        },
        index=seconds.astype(float),
    )
    node = replace(
        frame([], []).nodes["node-1"],
        hardware=Hardware(vcpus=16, effective_cpus=16.0, memory_bytes=64 * 10**9),
        samples=samples,
    )
    found = figures(RunFrame(1.0, 600.0, final=True, nodes={"node-1": node}))
    assert found.cores_busy_p95 == pytest.approx(own_cores)
    assert found.memory_p99_bytes == 1e9
    assert found.cpu_busy_p95_pct == 100.0


def test_it_ignores_gaps_in_percentiles():
    run_figures = figures(frame([], []))
    assert run_figures.cpu_busy_p95_pct == np.percentile([10, 20, 30], 95)
    assert run_figures.cores_busy_p95 == run_figures.cpu_busy_p95_pct / 100 * 4


def test_it_gives_the_rates_of_disk_and_network_as_a_machine_must_sustain_them():
    at = np.arange(100.0)
    samples = pd.DataFrame(
        {
            "disk.read_bytes_total": 3e6 * at,
            "disk.written_bytes_total": 1e6 * at,
            "net.received_bytes_total": 9e6 * at,
            "net.sent_bytes_total": 2e6 * at,
        },
        index=at,
    )
    node = replace(frame([], []).nodes["node-1"], samples=samples)
    found = figures(RunFrame(1.0, 100.0, final=True, nodes={"node-1": node}))
    assert found.disk_bytes_per_second_p95 == pytest.approx(4e6)
    assert found.network_bytes_per_second_p95 == pytest.approx(9e6)
    unknown = figures(frame([], []))
    assert unknown.disk_bytes_per_second_p95 is unknown.network_bytes_per_second_p95 is None
