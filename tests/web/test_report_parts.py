"""Parts of the report: what is exact, what is left out and says so, and what is drawn of it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from django.test import Client
from django.urls import reverse

from advisor.store.room import RoomExceededError
from advisor.store.series_spread import SeriesSpread
from tests.imports.folders import START, sagemaker
from tests.imports.test_service import upload, work
from tests.service.uploads import FakeAgent
from tests.web import factories, training
from tests.web.test_report import Sections
from tests.web.test_report_percentiles import Tables, seconds
from webapp.accounts.models import Token
from webapp.analysis import tasks as analyses
from webapp.analysis.samples import chart_chunks
from webapp.dashboard.report import devices, drawn, steps
from webapp.dashboard.report.balance import balances
from webapp.dashboard.report.drawing import span
from webapp.dashboard.report.figures import UsageRow
from webapp.dashboard.report.operators import OperatorTable, operators_of
from webapp.dashboard.selectors import charts
from webapp.runs.models import Chunk, Node, Run

ROW = {
    "p95_pct@{node}/gpu0": 88.0,
    "p5_pct@{node}/gpu0": 4.0,
    "whole_run_p99_pct@{node}/gpu0": 97.0,
}


def sections(owner, run: Run) -> dict[str, str]:
    return Sections(owner.page(reverse("dashboard:report", args=[run.pk]))).texts


@pytest.fixture
def run(owner) -> Run:
    return factories.costed(training.uploaded_run(owner.workspace, minutes=2, gpus=2))


# Steps


@pytest.fixture
def long_run(owner, tmp_path, settings) -> tuple[Run, np.ndarray]:
    """Return a run of five hours of which charts read chunks of many hours, with a step every ten
    seconds.
    """
    settings.OBJECTS_URL = str(tmp_path / "objects")
    folder = sagemaker(tmp_path)
    (path,) = folder.rglob("*_pythontimeline.json")
    took = np.round(np.random.default_rng(3).gamma(4, 0.5, 1800), 6)
    header = json.loads(path.read_text())[:2]
    step = {"name": "Step:ModeKeys.TRAIN", "pid": 1, "ph": "X"}
    made = [
        {**step, "ts": (10 + 10 * n) * 10**6, "dur": round(each * 1e6), "args": {"pid": "7"}}
        for n, each in enumerate(took.tolist())
    ]
    path.write_text(json.dumps([*header, *made]))
    path.rename(path.with_name(f"{(START + 18_100) * 10**6}_7-algo-1_pythontimeline.json"))
    token = Token.make(owner.workspace, "agent", ["ingest"])[1]
    upload(FakeAgent(Client(), token, job="vision"), folder, tmp_path)
    assert work().error == ""
    run = Run.objects.get()
    analyses.evaluate(str(run.pk))
    for node in Node.objects.all():
        while chart_chunks.renew(node, float("inf")):
            pass
    assert Chunk.objects.filter(kind="chart_steps", replaced_at=None).exists()
    return run, took


def test_steps_of_a_long_run_are_exact_if_there_are_few(owner, long_run):
    run, took = long_run
    html = owner.page(reverse("dashboard:report", args=[run.pk]))
    cells = Tables(html).of("Step durations by rank and phase", "algo-1", "0", "train")

    assert cells[0] == "1,800"
    expected = np.percentile(took, steps.PERCENTS)
    assert [seconds(cell) for cell in cells[2:8]] == pytest.approx(expected, rel=0.005)
    threshold = took.mean() + 3 * took.std()
    assert seconds(cells[10]) == pytest.approx(threshold, rel=0.005)
    assert int(cells[11]) == (took > threshold).sum()
    assert "From summaries; counts" not in Sections(html).texts["loop"]


def test_summaries_of_steps_say_so_and_tell_no_tail_of_waits(owner, run, monkeypatch):
    assert "p99" in _waits(sections(owner, run))

    monkeypatch.setattr("webapp.dashboard.selectors.drawn.MOST_SINGLE_STEPS", 10)
    found = sections(owner, run)

    assert "From summaries; counts" in found["loop"]
    assert "from summaries" in _waits(found)
    assert "p99" not in _waits(found)


def _waits(found: dict[str, str]) -> str:
    return found["loop"].partition("Training steps waited for data: ")[2].partition(".")[0]


# What is left out


def test_what_is_left_out_is_counted(owner, run, monkeypatch):
    for number in range(2, 5):
        factories.node(run, number=number)
    monkeypatch.setattr(charts, "MOST_NODES", 1)
    for module in (devices, drawn, charts):
        monkeypatch.setattr(module, "MOST_GPUS", 1)
    found = sections(owner, run)

    assert "3 more nodes aren't drawn or listed" in found["usage"]
    assert "3 more nodes aren't drawn." in found["usage"]
    assert "1 more GPUs aren't listed" in found["usage"]
    assert "3 more nodes aren't drawn: charts and tables begin with" in found["lacking"]


def test_cores_and_ranks_that_are_left_out_are_counted(owner, long_run, monkeypatch):
    run, _ = long_run
    monkeypatch.setattr(devices, "MOST_CORES", 1)
    monkeypatch.setattr(steps, "MOST_RANKS", 0)
    found = sections(owner, run)

    assert "1 more cores aren't listed" in found["usage"]
    assert "1 more cores of these nodes aren't listed" in found["lacking"]
    assert "1 more ranks and phases aren't listed" in found["lacking"]


def test_objects_that_cannot_be_read_are_counted(owner, long_run, settings):
    run, _ = long_run
    for chunk in Chunk.objects.filter(kind="samples", replaced_at=None):
        Path(settings.OBJECTS_URL, chunk.object_key).write_bytes(b"broken")
    assert "Stored objects that can't be read" in sections(owner, run)["lacking"]


def test_a_run_too_large_to_draw_is_not_said_to_have_no_samples(owner, run, monkeypatch):
    def refuse(*_: Any, **__: Any) -> None:
        raise RoomExceededError("more than 9 steps")

    monkeypatch.setattr(drawn, "read_charts", refuse)
    found = sections(owner, run)

    assert "more than 9 steps, too many to draw" in found["usage"]
    assert "more than 9 steps, too many to draw" in found["loop"]
    for claim in ("no samples of this run", "no steps were recorded", "No training steps were"):
        assert claim not in " ".join(found.values()), claim


def test_devices_that_are_too_many_leave_the_charts(owner, run, monkeypatch):
    def refuse(*_: Any, **__: Any) -> None:
        raise RoomExceededError("more than 9 samples")

    monkeypatch.setattr(devices, "spreads_of_series", refuse)
    found = sections(owner, run)

    assert "more than 9 samples, too many for tables" in found["usage"]
    assert "GPU busy" in found["usage"]
    assert "By GPU" not in found["usage"]


def test_summaries_of_samples_say_so_whatever_the_reason(owner, run, monkeypatch):
    assert "From summaries of at least 10 s" not in sections(owner, run)["usage"]
    monkeypatch.setattr("advisor.store.series_spread.MOST_TICKS", 10)
    found = sections(owner, run)["usage"]
    assert "From summaries of at least 10 s; of cores, their means." in found
    assert "because the run is long" not in found


# Operators


def _traced(*rows: tuple[str, str, int]) -> Any:
    listed = [{"category": c, "name": n, "count": 1, "total_us": us} for c, n, us in rows]
    return SimpleNamespace(row=SimpleNamespace(result={"operators": listed}))


def test_a_category_has_the_time_of_all_its_operators_and_traces():
    many = [("CPU operators", f"op{n}", 10) for n in range(100)]
    found = operators_of([_traced(*many, ("GPU kernels", "k", 500)), _traced(*many)])

    cpu, gpu = found.categories
    assert (cpu.seconds, gpu.seconds) == pytest.approx((2e-3, 5e-4))
    assert [(part.name, part.share) for part in found.devices] == [
        ("CPU operators", 0.8),
        ("GPU kernels", 0.2),
    ]
    assert (cpu.operators, cpu.dropped, cpu.dropped_share) == ([], 100, 1)


def test_passes_that_overlap_with_devices_are_no_part_of_their_bar():
    rows = [("CPU operators", "a", 10), ("forward pass", "f", 80), ("backward pass", "b", 20)]
    found = operators_of([_traced(*rows)])

    assert [part.name for part in found.devices] == ["CPU operators"]
    assert [part.share for part in found.passes] == [0.8, 0.2]
    assert found.pass_words == "The forward pass takes more than 70 % of the two."
    assert operators_of([_traced(rows[0])]).passes == []
    assert OperatorTable([]).device_words == ""


# Rules


def test_numbers_without_a_unit_are_measured_too_and_the_rest_is_counted(owner, run):
    values = {"distance": 0.31, "has_begun": 1.0}
    values |= {f"workers@node{n}": float(n) for n in range(20)}
    numbers = {"values": values, "windows": [], "missing": []}
    factories.judgement(run, "load_balancing", numbers=numbers)
    found = sections(owner, run)["rules"]

    assert "distance 0.31" in found
    assert "workers node3 3" in found
    assert "; and 5 more" in found
    assert "has begun" not in found


def test_gpus_bottlenecks_and_memory_are_told_by_the_rules_own_thresholds(owner, run):
    key = run.attempts.get().nodes.get().key
    gpu = {name.format(node=key): value for name, value in ROW.items()}
    of_gpu = {"values": gpu, "windows": [[5.0, 50.0, f"{key}/gpu0"]], "missing": []}
    seen = {"seen_seconds": 100.0, "low_gpu_seconds": 40.0, "bottleneck_seconds": 30.0}
    stuck = {"values": seen, "windows": [[20.0, 50.0, key]], "missing": []}
    rise = {f"rise_points@{key}/gpu1": 7.25, f"last_pct@{key}/gpu1": 61.0}
    grown = {"values": rise, "windows": [[60.0, 118.0, f"{key}/gpu1"]], "missing": []}
    thresholds = {"gpu_threshold": 15.0, "cpu_threshold": 80.0}
    factories.judgement(run, "low_gpu_utilization", numbers=of_gpu)
    factories.judgement(run, "cpu_bottleneck", numbers=stuck, values=thresholds)
    factories.judgement(run, "gpu_memory_increase", numbers=grown, values={"increase": 5.0})
    found = sections(owner, run)["loop"]

    assert "GPUs at 15 % or above 1 m 0 s 60 %" in found
    assert "GPUs below 15 %, cores above 80 % 30 s 30 %" in found
    assert "Phase during bottlenecks Time Share Training steps 30 s 100 %" in found
    assert "/gpu0 88 % 4 % 97 % 1" in found
    assert "/gpu1 7.3 61 % – 1 m 0 s 1 m 58 s" in found
    assert "from 10 % to more than 15 %" in found


# Pictures


def _spread(values: list[float]) -> SeriesSpread:
    sorted_ = np.sort(np.array(values))
    ends = float(sorted_[0]), float(sorted_[-1])
    return SeriesSpread(sorted_, np.ones(len(values)), *ends, amount=0.0, is_exact=True)


@pytest.mark.parametrize("value", [0.0, 42.0, 100.0])
def test_a_constant_series_has_a_box_that_can_be_seen(value):
    row = devices._row("n", "0", "Busy", _spread([value] * 10))
    for name, x, width in row.parts:
        assert 0 <= x <= x + width <= 100, name
        assert width > 0
    usage = UsageRow("n", "CPU", "%", [value] * 6)
    assert all(0 <= x <= x + width <= 100 for _, x, width in usage.bars)
    assert span(100, 100)[0] < 100


def test_whiskers_end_at_the_last_value_within_reach():
    values = [*range(40, 61), 99.0]
    row = devices._row("n", "0", "Busy", _spread([float(each) for each in values]))
    quartiles = np.percentile(values, [25, 75])
    upper = min(quartiles[1] + 1.5 * (quartiles[1] - quartiles[0]), 99)
    assert row.box is not None
    assert row.box[4] == pytest.approx(upper)
    assert row.box[0] == 40


def test_gpus_of_one_node_are_compared_in_pairs():
    busy, idle = _spread([90.0] * 50 + [92.5] * 50), _spread([10.0] * 100)
    (found,) = balances({"k": {0: busy, 1: idle, 2: busy}, "other": {0: busy}}, {"k": "n1"}, 0.2)
    assert (found.node, found.labels) == ("n1", ["0", "1", "2"])
    assert found.rows[0] == ("0", [("", False), ("0.83", True), ("0.00", False)])


def test_restarts_are_marked_on_the_progress(owner, run):
    session = run.attempts.get().nodes.get().sessions.get()
    session.pk, session.started_at = factories.uuid4(), run.started_at
    session.save(force_insert=True)
    html = owner.page(reverse("dashboard:report", args=[run.pk]))
    assert 'class="mark"' in html
    assert "Broken lines: restarts" in html


def test_a_first_step_that_is_late_has_its_own_section(owner, run):
    job = {"initialisation_seconds": 90.0, "loop_seconds": 20.0, "finalisation_seconds": 10.0}
    loop = {"train_seconds": 10.0, "others_seconds": 10.0, "others_pct": 50.0}
    numbers = {"values": {**job, **loop}, "windows": [], "missing": []}
    factories.judgement(run, "overall_framework_metrics", numbers=numbers)
    factories.judgement(run, "max_initialization_time", summary="Training started after 90 s.")
    found = sections(owner, run)

    assert "Initialisation took 1 m 30 s, 75 % of the job" in found["initialisation"]
    assert "Training started after 90 s." in found["initialisation"]
    assert "More than a quarter of the loop is between steps" in found["framework"]
