"""The charts of a run's page: which lines, heat maps, step times, and events they draw."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from django.urls import reverse
from trimtab.wire import Event, Segment

from advisor.store.series import SeriesView
from tests.web import factories, training
from webapp.analysis.tasks import evaluate
from webapp.dashboard.selectors.lines import Member, drawn_lines
from webapp.directives.models import Directive
from webapp.imports.models import Import
from webapp.imports.queue import WHOLE
from webapp.runs.models import Artefact, Attempt, Run, Session


def _view(*values: float, node: str = "node-1", width: float = 10.0) -> SeriesView:
    known = np.array(values, dtype=float)
    at = np.arange(len(known)) * width
    return SeriesView(node, "s", "pct", width, at, known, known, known, np.ones(len(known), int))


def _gpus(*levels: float) -> list[Member]:
    return [Member("GPU", f"GPU {n}", _view(level, level)) for n, level in enumerate(levels)]


def _shown(members: list[Member], unit: str = "pct") -> list[tuple[str, str]]:
    return [(line.label, line.kind) for line in drawn_lines(members, unit)]


def test_two_series_are_drawn_as_they_are():
    assert _shown(_gpus(0, 90)) == [("GPU 0", "plain"), ("GPU 1", "plain")]


def test_of_many_the_unused_and_the_outlier_stand_beside_the_rest():
    members = _gpus(60, 62, 64, 61, 20, 0, 1)

    lines = drawn_lines(members, "pct")

    assert [(line.label, line.kind) for line in lines] == [
        ("GPU, mean of 4", "rest"),
        ("GPU 4", "outlier"),
        ("2 GPUs at 0 %", "idle"),
    ]
    rest = lines[0].view
    assert (rest.minimum[0], rest.mean[0], rest.maximum[0]) == (60, 61.75, 64)


def test_a_gpu_that_was_not_seen_is_not_called_unused():
    members = _gpus(60, 62, 64)
    members.append(Member("GPU", "GPU 3", _view(np.nan, np.nan)))

    assert _shown(members) == [("GPU, mean of 4", "rest")]
    assert drawn_lines(members, "pct")[0].view.mean[0] == 62


def test_where_no_member_is_known_the_rest_is_unknown():
    members = [Member("busy", "busy", _view(np.nan, 40, node=f"node-{n}")) for n in range(3)]

    (line,) = drawn_lines(members, "pct")

    assert np.isnan(line.view.mean[0])
    assert line.view.mean[1] == 40


def test_series_with_other_buckets_are_not_averaged():
    members = [Member("step", "step", _view(1, 2, width=width)) for width in (10.0, 10.0, 20.0)]

    assert _shown(members, "seconds") == [("step", "plain")] * 3


@pytest.fixture
def charts(owner) -> dict[str, Any]:
    return _charts(owner, training.uploaded_run(owner.workspace, minutes=1, gpus=4))


def _charts(person, run: Run, **query: object) -> dict[str, Any]:  # type: ignore[no-untyped-def]
    address = reverse("dashboard:run_charts", args=[run.pk])
    response = person.client.get(address, {"buckets": 60, **query})
    assert response.status_code == 200
    return response.json()


def test_every_gpu_has_a_row_of_whole_percent(charts):
    rows = charts["heat"]["rows"]

    assert [row["label"] for row in rows] == [f"GPU {n}" for n in range(4)]
    values = [value for row in rows for value in row["values"]]
    assert {type(value) for value in values} == {int}
    assert 0 < max(values) <= 100


def test_the_histogram_and_the_percentiles_count_every_training_step(charts):
    steps = charts["steps"]
    total = training.STEPS_A_SECOND * 60

    assert sum(count for _, _, count in steps["bins"]) == pytest.approx(
        total, abs=len(steps["bins"])
    )
    (rank,) = steps["ranks"]
    assert (rank["rank"], rank["phase"], rank["count"]) == (0, "train", total)
    low, middle, high = rank["percentiles"]
    assert 0.199 <= low <= middle <= high <= 0.201
    assert rank["wait"] == pytest.approx(0.124, abs=0.001)


def test_phases_and_progress_cover_the_run(charts):
    assert [phase for _, _, phase in charts["phases"]] == ["train"]
    assert charts["progress"][0][1] == 0
    assert charts["progress"][-1][1] == training.STEPS_A_SECOND * 60


def test_a_gap_is_unknown_in_the_heat_map_and_no_phase(owner):
    run = training.uploaded_run(owner.workspace, minutes=2, gpus=2, gap=(5, 6))

    found = _charts(owner, run)

    assert all(None in row["values"] for row in found["heat"]["rows"])
    (_, first_end, _), (second_start, _, _) = found["phases"]
    assert second_start - first_end == pytest.approx(20, abs=3)


def test_one_node_needs_no_drawing_beside_the_charts(charts):
    assert charts["nodes"] == []


def test_operators_of_an_imported_trace_stand_with_the_charts(owner):
    run = training.uploaded_run(owner.workspace)
    address = reverse("dashboard:run", args=[run.pk])
    assert 'id="operators"' not in owner.page(address)
    artefact = factories.artefact(run)
    Artefact.objects.filter(pk=artefact.pk).update(kind=WHOLE)
    rows = [
        {
            "category": "CPU operators",
            "name": "aten::conv2d",
            "count": 12,
            "total_us": 3_000_000,
            "own_us": None,
        },
        {
            "category": "GPU kernels",
            "name": "sm80_gemm",
            "count": 40,
            "total_us": 1_000_000,
            "own_us": None,
        },
    ]
    result = {"format": "a PyTorch trace", "operators": rows}
    Import.objects.create(artefact=artefact, wanted=1, done=1, result=result)

    page = owner.page(address)

    (tables,) = re.findall(r'id="operators".*?</details>', page, re.DOTALL)
    assert "aten::conv2d" in tables
    assert "sm80_gemm" in tables
    assert 'href="#operators"' in page


def test_cores_are_read_on_demand(owner):
    run = training.uploaded_run(owner.workspace)

    assert _charts(owner, run)["heat"] is None
    assert set(_charts(owner, run, cores="1")) == {"heat"}


def _events(person, run: Run) -> list[dict[str, Any]]:  # type: ignore[no-untyped-def]
    page = person.client.get(reverse("dashboard:run", args=[run.pk]))
    return page.context["chart"]["events"]


def test_events_are_listed_in_order_with_what_happened_first(owner):
    run = training.uploaded_run(owner.workspace, minutes=1)
    assert _events(owner, run) == []
    session = Session.objects.get(node__attempt__run=run)
    Session.objects.filter(pk=session.pk).update(end_state="failed", exit_code=3)
    Run.objects.filter(pk=run.pk).update(state=Run.FAILED)
    factories.judgement(run)
    factories.artefact(run)

    found = _events(owner, run)

    assert [event["words"] for event in found] == [
        "Training waits for data begins",
        "Exit code 3",
        "Profile received: rank0-step5.trace.json.gz",
    ]
    assert [event["is_trouble"] for event in found] == [True, True, False]
    assert found[0]["seconds"] == 10


def test_a_second_attempt_is_a_restart_and_a_request_an_event(owner):
    run = training.upload(owner.workspace, training.Training("growing", ended=False), upto=3)
    second = Attempt.objects.create(run=run, number=1)
    node = factories.node(run, number=2)
    node.attempt = second
    node.save()
    first = Session.objects.get(node__attempt__run=run)
    Session.objects.create(
        id=run.pk, node=node, boot_id="b", started_at=first.interval[1], last_ms=1_000
    )
    Directive.objects.create(attempt=second, kind=Directive.PROFILE, asked_by="Ada")

    words = [event["words"] for event in _events(owner, run)]

    assert words == ["Restarted on trainer-1", "Profile requested"]


class _Troubled(training.Training):
    """GPU 1 gets hot in the third segment, then fails, and the kernel kills a worker."""

    def _segment(self, seq: int) -> Segment:
        made = super()._segment(seq)
        (block,) = made.blocks
        ticks = len(block.times_ms)
        hot_ns = 2 * 10**9 * max(seq - 2, 0)
        columns = block.columns | {
            "gpu0.throttled_thermal_ns_total": [0] * ticks,
            "gpu1.throttled_thermal_ns_total": [hot_ns] * ticks,
            "container.oom_kills_total": [7 + int(seq >= 5)] * ticks,
        }
        events = list(made.events)
        if seq in (4, 5):
            events.insert(0, Event(2_000, "gpu_xid", {"gpu": 1, "xid": 79}))
        if seq == 5:
            full = {"rank": 1, "gpu": 0, "requested_bytes": 4 << 30, "free_bytes": 1 << 29}
            events.insert(0, Event(5_000, "gpu_out_of_memory", full))
        return replace(made, blocks=[replace(block, columns=columns)], events=events)


def test_throttling_gpu_errors_and_kills_are_events_in_the_order_of_their_first_time(owner):
    run = training.upload(owner.workspace, _Troubled("hot", minutes=1, gpus=2))
    evaluate(str(run.pk))

    found = [event for event in _events(owner, run) if "begins" not in event["words"]]

    assert [(event["words"], event["is_trouble"]) for event in found] == [
        ("GPU 1 throttled by heat", True),
        ("XID 79 on GPU 1", True),
        ("The kernel killed a process for memory", True),
        (
            "GPU 0's memory ran out: rank 1 asked for 4.00 GiB, 0.50 GiB were free",
            True,
        ),
    ]
    assert [event["seconds"] for event in found] == pytest.approx([30, 42, 50, 55], abs=1.5)


def test_a_run_without_troubles_has_no_such_events(owner):
    run = training.uploaded_run(owner.workspace, gpus=2)
    evaluate(str(run.pk))

    assert Run.objects.get(pk=run.pk).summary.troubles == []
