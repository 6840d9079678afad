"""The report says which operators ran during step outliers and bottlenecks."""

from __future__ import annotations

import json
import re
from collections import Counter
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.test import Client
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from tests.html import read_page
from tests.imports.folders import DESCRIBED, START, TRAINING_JOB, sagemaker, step_events
from tests.imports.test_service import upload, work
from tests.service.uploads import FakeAgent
from webapp.accounts.models import Token
from webapp.analysis import tasks as analyses
from webapp.dashboard.report.during import PlacedOperator
from webapp.imports.models import Import
from webapp.runs.models import Run

LONG_STEPS = (20, 33, 58, 77, 94, 121, 139, 168)
"""The places of long steps, at no distance that most of them have in common."""
BUSY = range(60, 101)
"""Seconds in which all cores are busy and the GPU is idle."""
ARN = "arn:aws:sagemaker:us-west-2:111122223333:processing-job/vision-profilerreport-5099b068"
STATUSES = [{"RuleConfigurationName": "ProfilerReport", "RuleEvaluationJobArn": ARN}]
DESCRIPTION = DESCRIBED | {"ProfilerRuleEvaluationStatuses": STATUSES}
PHASES = {
    2: ("cpu_functions", "aten::conv2d"),
    3: ("gpu_functions-dev:0", "volta_sgemm"),
    4: ("Forward", "resnet"),
    5: ("Backward(post-forward)", "resnet"),
    6: ("cpu_functions", "aten::copy_"),
}


def operations(seconds: int) -> list[tuple[int, int, int]]:
    """Return phase, start and length in microseconds since START: more copying in long steps."""
    found = []
    for at in range(10, seconds):
        begin = at * 10**6
        copying = 400_000 if at in LONG_STEPS else 30_000
        lengths = {2: 200_000, 3: 300_000 + 1_000 * at, 4: 250_000, 5: 450_000, 6: copying}
        found += [(pid, begin + 10_000 * pid, length) for pid, length in lengths.items()]
    return found


def folder_of(tmp_path: Path, nodes: int, reverse_events: bool) -> Path:
    folder = sagemaker(tmp_path, nodes=nodes)
    headers = [
        {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": phase}}
        for pid, (phase, _) in PHASES.items()
    ]
    calls = [
        {"name": PHASES[pid][1], "ph": "X", "pid": pid, "ts": ts, "dur": length}
        for pid, ts, length in operations(180)
    ]
    for path in sorted(folder.rglob("*_pythontimeline.json")):
        events = step_events(180)
        for each in events[2:]:
            if each["ts"] // 10**6 in LONG_STEPS:
                each["dur"] = 999_000
        body = calls if path.name.count("algo-1") else []
        both = [*events[2:], *body]
        path.write_text(
            json.dumps([*events[:2], *headers, *(both[::-1] if reverse_events else both)])
        )
    for path in folder.rglob("*.algo-*.json"):
        records = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps(_busy(record)) + "\n" for record in records))
    return folder


def _busy(record: dict[str, Any]) -> dict[str, Any]:
    if int(record["Timestamp"] - START) in BUSY:
        change = {"CPUUtilization": 97.0, "GPUUtilization": 2.0}
        return record | {"Value": change.get(record["Dimension"], record["Value"])}
    return record


@pytest.fixture
def imported(owner, tmp_path, request) -> Run:
    nodes, is_reversed = getattr(request, "param", (1, False))
    token = Token.make(owner.workspace, "agent", ["ingest"])[1]
    folder = folder_of(tmp_path, nodes, is_reversed)
    upload(FakeAgent(Client(), token, job="vision"), folder, tmp_path, describe=DESCRIPTION)
    assert work().error == ""
    run = Run.objects.get()
    analyses.evaluate(str(run.pk))
    run.refresh_from_db()
    return run


def shown(client: Client, run: Run) -> str:
    html = read_page(client.get(reverse("dashboard:report", args=[run.pk])))
    text = unescape(re.sub(r"<[^>]+>", " ", html[html.index("</style>") :]))
    return re.sub(r"\s+", " ", text)


def part(text: str, title: str) -> str:
    return text[text.index(title) :].partition("Their times are known to")[0]


def inside(run: Run, rule: str) -> Counter[str]:
    """Return the seconds of each operator in the windows of a rule, from the raw events."""
    windows = run.judgements.get(rule=rule).numbers["windows"]
    since = START - run.started_at.timestamp()
    node = next(n.key for n in run.attempts.get().nodes.all() if n.hostname == "algo-1")
    found: Counter[str] = Counter()
    for pid, start_us, length_us in operations(180):
        start = start_us / 1e6 + since
        for begins, ends, where in windows:
            if where == node:
                phase, name = PHASES[pid]
                share = max(min(start + length_us / 1e6, ends) - max(start, begins), 0)
                found[f"{phase[:8]} {name}"] += share
    return found


@pytest.mark.parametrize("imported", [(1, False), (1, True), (2, False)], indirect=True)
@pytest.mark.parametrize(
    ("rule", "title"),
    [
        ("step_outlier", "Operators during step outliers"),
        ("cpu_bottleneck", "Operators during CPU bottlenecks"),
    ],
)
def test_shares_are_those_of_the_raw_events(owner, imported, rule, title):
    text = part(shown(owner.client, imported), title)
    found = inside(imported, rule)
    conv, copy = found["cpu_func aten::conv2d"], found["cpu_func aten::copy_"]
    gpu = found["gpu_func volta_sgemm"]
    assert conv > 1
    assert gpu > 1
    share = 100 * copy / (conv + copy)
    row = re.search(r"aten::copy_ CPU operators .*? ([\d.]+) % ([\d.]+) %", text)
    assert row, text
    assert float(row[1]) == pytest.approx(share, abs=1.0)
    expected = 100 * (conv + copy) / (conv + copy + gpu)
    found_share = re.findall(r"Device Time Share CPU operators .*? ([\d.]+) %", text)
    assert float(found_share[0]) == pytest.approx(expected, abs=1.0)
    assert "Forward pass" in text
    assert "Backward pass" in text


def test_copying_stands_out_in_the_outliers(owner, imported):
    text = part(shown(owner.client, imported), "Operators during step outliers")
    row = re.search(r"aten::copy_ CPU operators .*? ([\d.]+) % ([\d.]+) %", text)
    assert row
    assert float(row[1]) > 2 * float(row[2])


def test_the_processing_job_is_among_the_facts(owner, imported):
    assert f"SageMaker's processing job {ARN}" in shown(owner.client, imported)


def test_an_older_import_says_so_until_it_is_sent_again(owner, imported, tmp_path):
    Import.objects.update(operator_times=None)
    before = shown(owner.client, imported)
    assert "before operators were kept with their times. Import the folder again." in before
    assert "Share of category" not in before
    token = Token.make(owner.workspace, "again", ["ingest"])[1]
    again = FakeAgent(Client(), token, job="vision", run_id=imported.pk)
    upload(again, tmp_path / TRAINING_JOB, tmp_path, describe=DESCRIPTION)
    assert work().operator_times["operators"]
    assert "Share of category" in shown(owner.client, imported)


def test_stretches_that_no_trace_covers_have_no_operators(owner, imported):
    row = imported.judgements.get(rule="step_outlier")
    row.numbers["windows"] = [[1.0, 2.0, row.numbers["windows"][0][2]]]
    row.save()
    text = shown(owner.client, imported)
    assert "the imported traces have no operator in the stretch that the rule found" in text


@given(
    st.dictionaries(st.integers(0, 500), st.floats(0.001, 5), min_size=1),
    st.lists(st.floats(-50, 600), max_size=8),
)
def test_stretches_never_have_more_than_the_whole(cells, edges):
    starts = np.array(sorted(cells), dtype="float64")
    spent = np.array([cells[int(start)] for start in starts])
    placed = PlacedOperator(("node-1",), "CPU operators", "x", starts, 1.0, spent)
    assert placed.seconds_within(np.array([[-1.0, 600.0]])) == pytest.approx(spent.sum())
    edges = sorted(set(edges))
    pairs = list(zip(edges[::2], edges[1::2], strict=False))
    if pairs:
        found = placed.seconds_within(np.array(pairs))
        assert -1e-6 <= found <= spent.sum() + 1e-6
        each = sum(placed.seconds_within(np.array([pair])) for pair in pairs)
        assert found == pytest.approx(each, abs=1e-6)


def test_without_a_trace_it_says_that_none_was_imported(owner, tmp_path):
    folder = folder_of(tmp_path, 1, False)
    for path in folder.rglob("*_pythontimeline.json"):
        events = json.loads(path.read_text())
        kept = [e for e in events if e["pid"] in (0, 1)]
        path.write_text(json.dumps(kept))
    token = Token.make(owner.workspace, "agent", ["ingest"])[1]
    upload(FakeAgent(Client(), token, job="vision"), folder, tmp_path, describe=DESCRIBED)
    assert work().error == ""
    run = Run.objects.get()
    analyses.evaluate(str(run.pk))
    run.refresh_from_db()
    text = shown(owner.client, run)
    assert "no trace was imported, so which operators ran is unknown" in text
