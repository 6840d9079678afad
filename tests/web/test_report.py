"""The report of a run: one file with all that the page shows, that loads nothing."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from tests.html import read_page
from tests.imports.folders import DESCRIBED, TRAINING_JOB, sagemaker, step_events
from tests.imports.test_recorded import FILES, RECORDED
from tests.imports.test_service import upload, work
from tests.service.uploads import FakeAgent
from tests.web import factories, training
from webapp.accounts.models import Token
from webapp.analysis import tasks as analyses
from webapp.runs.models import Run

HOSTILE = "\"><script>alert('x')</script><img src=//evil.example/x>{{ run }}"
CHECKLIST = {
    "": ("What this run cost", "for your information", "replace no judgement of your own"),
    "headline": ("Cost", "Verdict", "Waste", "Do this first", "First run of this workload"),
    "facts": (
        *("Run id", "ml.p3.2xlarge", "on demand", "3,240 samples", TRAINING_JOB),
        *("Started 2025-12-31 23:59:00", "Ended 2026-01-01 00:04:00"),
    ),
    "money": ("Effective", "Idle GPU", "Share", "$0.3188", "$3.825", "Per thousand steps"),
    "time": (
        *("Initialisation", "Training loop", "Finalisation", "By phase"),
        "The job started on 2025-12-31 at 23:59:00 and ran for 300 seconds.",
        "The training loop began on 2026-01-01 at 00:00:10 and ended on 2026-01-01 at 00:02:59.",
    ),
    "usage": (
        *("Max p99 p95 p90 p50 Min", "CPU memory", "GPU memory", "I/O wait", "Network"),
        *("algo-1: p95 of CPU 30 %", "87.6 KiB received", "hardly ever busy"),
        *("GPU busy", "GPU memory controller", "every core", "Waiting for I/O, network and disk"),
        *("By GPU", "0 Busy 60 60 60", "0 Memory controller 30 30 30", "Histogram"),
        *("By CPU core", "all Busy 30 30 30", "all Waiting for I/O 2 2 2", "0 Busy 40 40 40"),
        *("1 Busy 20 20 20", "Whiskers", "60 to 60", "1.5 times", "Training progress"),
    ),
    "framework": ("Training steps", "Between steps", '"others"', "GLOBAL"),
    "operators": (
        *("CPU operators", "aten::conv2d", "Calls Cumulative time Share", "75 %", "CPU and GPU"),
        *("GPU operators", "volta_sgemm", "Communication", "ALLREDUCE", "Data loading"),
        *("72 % was spent in CPU operators", "less than 2 % each", "General framework operations"),
        *("Forward and backward", "Forward pass 300 ms 30 % Backward pass 700 ms 70 %"),
    ),
    "rules": (
        *("Times fired Windows analysed Data points", "StepOutlier", "Dataloader", "BatchSize"),
        *("LowGPUUtilization", "LoadBalancing", "IOBottleneck", "CPUBottleneck", "threshold_p95"),
        *("GPUMemoryIncrease", "MaxInitializationTime", "169 steps", "What to do", "Evidence"),
        *("OverallSystemUsage", "OverallFrameworkMetrics", "Measured", "If it fires"),
        *("SageMaker's own rules", "Violations", "stddev:3", "Outliers of algo-1-7: steps 12, 40"),
        *("profiler-reports/StepOutlier.json", "The findings as JSON: GET /api/v1/runs/"),
    ),
    "loop": (
        *("Mean Max p99 p95 p90 p50 Min Mean data wait Deviation Threshold Outliers", "900 ms"),
        *("3 standard deviations", "By node: algo-1 1", "Time of outliers by phase"),
        *("Training steps by duration", "Without outliers, by node", "Last 30 training steps"),
        *("GPU utilisation", "Medians over windows of 4 m 10 s", "p95 of windows"),
        *("Workload balancing", "fewer than two GPUs", "GPU memory"),
        *("Data loading", "median 20 ms", "by wait for data", "1 of 1 loader", "Prefetched"),
        *("Batch size", "CPU and I/O bottlenecks", "GPUs at 10 % or above"),
        *("GPUs below 10 %, cores above 90 %", "GPUs below 10 %, I/O wait above 50 %"),
    ),
    "recommendations": ("Shorten the start-up", "Saving per run", "$0.0053 to $0.0096", "Risk"),
    "lacking": (
        *("Rules with insufficient data", "Not measured on every node: GPU memory"),
        "Not recorded: how long each batch took to load, beyond the wait for it",
        "the first in profiler-output/system/incremental/2026010100/broken.json",
    ),
}
"""Section -> what SageMaker's report and Studio show, and what comes beside it."""


class Sections(HTMLParser):
    """The text of each section, and every attribute that may load or lead somewhere."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.texts: dict[str, str] = {}
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self._inside = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        named = dict(attrs)
        if tag == "section":
            self._inside = named.get("id") or ""
        self.links += [v or "" for n, v in attrs if n in ("href", "src", "srcset", "action")]

    def handle_data(self, data: str) -> None:
        joined = f"{self.texts.get(self._inside, '')} {data}"
        self.texts[self._inside] = re.sub(r"\s+", " ", joined)


def _page(run: Run) -> str:
    return reverse("dashboard:report", args=[run.pk])


PHASES = {
    2: ("cpu_functions", (("aten::conv2d", 750), ("aten::relu", 250), ("aten::t", 5))),
    3: ("gpu_functions-dev:0", (("volta_sgemm", 400),)),
    4: ("Forward-SubModuleInternal", (("resnet", 300_000),)),
    5: ("Backward-SubModuleInternal", (("resnet", 700_000),)),
    6: ("DataLoaderIter", [("_MultiProcessingDataLoaderIter::GetNext", 20_000)] * 160),
    8: ("Optimizer", (("Optimizer.step", 900),)),
}
"""Process -> phase, and its operations: name and microseconds; one a second, as steps are."""


@pytest.fixture
def imported(owner, tmp_path) -> Run:
    """Return a SageMaker job of 300 s with operators in its timelines."""
    folder = sagemaker(tmp_path)
    (path,) = folder.rglob("*_pythontimeline.json")
    events = step_events(180)
    for pid, (phase, calls) in PHASES.items():
        header = {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": phase}}
        events.append(header)
        events += [
            {"name": name, "ph": "X", "pid": pid, "ts": (20 + n) * 10**6 - 50_000, "dur": length}
            for n, (name, length) in enumerate(calls)
        ]
    loader = {"name": "process_name", "ph": "M", "pid": 7}
    events.append(loader | {"args": {"name": "DataLoaderIterInitialize"}})
    settings = {"num_workers": "2", "pin_memory": "True"}
    events.append({"name": "x", "ph": "X", "pid": 7, "ts": 10**6, "dur": 9, "args": settings})
    # One step that takes much longer than the others.
    events[100] = events[100] | {"dur": 990_000}
    path.write_text(json.dumps(events))
    _add_reports(folder)
    ring = [{"ph": "X", "pid": 1, "ts": 30 * 10**6, "dur": 900, "name": "ALLREDUCE"}]
    name = path.name.replace("pythontimeline", "horovod_timeline")
    path.with_name(name).write_text(json.dumps([events[0], *ring]))
    token = Token.make(owner.workspace, "agent", ["ingest"])[1]
    upload(FakeAgent(Client(), token, job="vision"), folder, tmp_path, describe=DESCRIBED)
    assert work().error == ""
    run = Run.objects.get()
    analyses.evaluate(str(run.pk))
    return Run.objects.get()


def _add_reports(folder: Path) -> None:
    """Add SageMaker's own report of a rule, and a file of metrics that is broken."""
    reports = folder / "rule-output" / "ProfilerReport" / "profiler-output" / "profiler-reports"
    reports.mkdir(parents=True)
    found = {"step_details": {"algo-1-7": {"number_of_outliers": 2, "step_numbers": ["12", "40"]}}}
    said = {"RuleTriggered": 1, "Violations": 2, "Datapoints": 170, "Details": found}
    parameters = {"RuleParameters": "threshold:3\nstddev:3"}
    (reports / "StepOutlier.json").write_text(json.dumps(said | parameters))
    (path, *_) = sorted(folder.rglob("*.algo-1.json"))
    path.with_name("broken.json").write_text("{")


def test_every_item_of_the_checklist_is_there(owner, imported):
    found = Sections(owner.page(_page(imported)))
    missing = [
        (section, item)
        for section, items in CHECKLIST.items()
        for item in items
        if item not in found.texts[section]
    ]
    assert not missing, (missing, found.texts)
    assert {"svg", "path", "table"} <= found.tags
    page = owner.page(reverse("dashboard:run", args=[imported.pk]))
    for line in imported.judgements.all():
        assert line.rule in page
        assert " ".join(line.summary.split()) in found.texts["rules"]


@pytest.mark.fixtures
@pytest.mark.skipif(not FILES, reason=f"no recordings in {RECORDED}")
def test_a_recorded_job_has_its_operators_and_its_gaps(owner, tmp_path):
    token = Token.make(owner.workspace, "agent", ["ingest"])[1]
    folder = RECORDED / "current" / "test_traces"
    upload(FakeAgent(Client(), token, job="recorded"), folder, tmp_path, part_bytes=400)
    assert work().error == ""
    run = Run.objects.get()
    analyses.evaluate(str(run.pk))
    found = Sections(owner.page(_page(run)))
    assert "no price" in found.texts["headline"]
    assert "No price." in found.texts["lacking"]
    assert "$0.00" not in found.texts["money"]
    assert found.texts["operators"].count("Calls") >= 1


@pytest.fixture
def run(owner) -> Run:
    made = training.uploaded_run(owner.workspace, minutes=2, gpus=2)
    return factories.costed(made)


def test_the_file_loads_nothing_and_only_its_own_style_applies(owner, run):
    response = owner.client.get(_page(run))
    html = read_page(response)
    found = Sections(html)

    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)
    assert style is not None
    policy = response["Content-Security-Policy"]
    hashed = re.search(r"style-src 'sha256-([^']+)'", policy)
    assert hashed is not None
    assert b64decode(hashed[1]) == hashlib.sha256(style[1].encode()).digest()
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert found.tags.isdisjoint({"script", "img", "iframe", "form", "button", "input", "object"})
    assert "style" not in found.attributes
    assert not any(name.startswith("on") for name in found.attributes)
    own = reverse("dashboard:run", args=[run.pk])
    assert [link for link in found.links if not link.endswith(own)] == ["data:,"]
    assert not re.search(r"url\(|@import", style[1])
    assert "prefers-color-scheme: dark" in style[1]
    assert "@media print" in style[1]


def test_charts_and_steps_are_those_of_the_page(owner, run):
    found = Sections(owner.page(_page(run)))

    charts = owner.client.get(reverse("dashboard:run_charts", args=[run.pk])).json()
    assert f"{charts['steps']['ranks'][0]['count']:,}" in found.texts["loop"]
    assert "2 rows" in found.texts["usage"]
    assert "GPU utilisation, every GPU" in found.texts["usage"]
    assert found.texts["facts"].count("GiB") >= 2


def test_hostile_names_are_text(owner):
    job = factories.job(owner.workspace, HOSTILE, tags={HOSTILE: HOSTILE})
    run = factories.run(job, note=HOSTILE, parameters={HOSTILE: HOSTILE}, command=[HOSTILE])
    factories.node(run, hostname=HOSTILE, instance_type=HOSTILE)
    factories.costed(run)
    window = {"values": {f"p95_pct@{HOSTILE}": 1.0}, "windows": [[1.0, 2.0, HOSTILE]]}
    factories.judgement(run, summary=HOSTILE, advice=HOSTILE, numbers={**window, "missing": []})
    factories.recommendation(run, title=HOSTILE, evidence=[HOSTILE], how_to_apply=[HOSTILE])

    found = Sections(owner.page(_page(run)))

    assert found.tags.isdisjoint({"script", "img"})
    for section in ("facts", "rules", "recommendations"):
        assert "<script>alert('x')</script>" in found.texts[section]
        assert "{{ run }}" in found.texts[section]


def test_a_run_of_which_nothing_is_known_says_so(owner):
    run = factories.run(factories.job(owner.workspace), cost=None, summary=factories.summary())
    found = Sections(owner.page(_page(run)))
    for section in ("money", "usage", "framework", "operators", "rules"):
        assert "Insufficient data" in found.texts[section], section
    assert "No price." in found.texts["lacking"]
    assert "isn't analysed yet" in found.texts["lacking"]


def test_the_page_asks_as_often_for_many_findings_as_for_few(owner, django_assert_max_num_queries):
    run = factories.costed(factories.run(factories.job(owner.workspace)))
    factories.node(run)
    for rule in ("input_bound", "idle_tail", "hung", "cpu_oversized"):
        factories.judgement(run, rule)
        factories.recommendation(run)
    with django_assert_max_num_queries(22):
        owner.page(_page(run))


def test_the_run_page_leads_to_it(owner, run):
    assert _page(run) in owner.page(reverse("dashboard:run", args=[run.pk]))
