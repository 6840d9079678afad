"""The figures of a report are NumPy's on the raw values of a recording of 80 minutes."""

from __future__ import annotations

import re
from collections import defaultdict
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from django.test import Client
from django.urls import reverse

from rules.rule import Numbers
from tests.imports.known_job import (
    CORES,
    GPUS,
    NODES,
    PROCESSES,
    SECONDS,
    WARM_UP_SECONDS,
    KnownJob,
    known_job,
)
from tests.imports.test_service import upload, work
from tests.service.uploads import FakeAgent
from webapp.accounts.models import Token
from webapp.analysis import tasks as analyses
from webapp.runs.models import Run

USAGE = (100, 99, 95, 90, 50, 0)
DEVICE = (100, 99, 95, 90, 75, 50, 25, 5, 0)
STEP = (100, 99, 95, 90, 50, 0)
MIB, GIB = 2**20, 2**30
SCALES = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3}


class Tables(HTMLParser):
    """The rows of all tables as texts, by the heading before the table."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.page = html
        self.rows: dict[str, list[list[str]]] = defaultdict(list)
        self._heading, self._tag = "", ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[Any]) -> None:
        if tag in ("h2", "h3", "h4"):
            self._heading = ""
        if tag == "tr":
            self.rows[self._heading.strip()].append([])
        if tag in ("td", "th"):
            self.rows[self._heading.strip()][-1].append("")
        if tag in ("h2", "h3", "h4", "td", "th"):
            self._tag = tag

    def handle_endtag(self, tag: str) -> None:
        if tag == self._tag:
            self._tag = ""

    def handle_data(self, data: str) -> None:
        if self._tag in ("td", "th"):
            self.rows[self._heading.strip()][-1][-1] += data
        elif self._tag:
            self._heading += data

    def of(self, heading: str, *start: str) -> list[str]:
        """Return the other cells of the row that starts so."""
        rows = [row for row in self.rows[heading] if tuple(row[: len(start)]) == start]
        assert len(rows) == 1, (heading, start, self.rows[heading])
        return rows[0][len(start) :]


def seconds(text: str) -> float:
    """Return the seconds of `1 h 6 m` or `447 ms`."""
    pairs = re.findall(r"([\d.,]+) (h|ms|m|s)\b", text)
    return sum(float(number.replace(",", "")) * SCALES[unit] for number, unit in pairs)


def numbers(cells: list[str]) -> list[float]:
    return [float(cell.split()[0]) for cell in cells]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> KnownJob:
    return known_job(tmp_path_factory.mktemp("known"))


@pytest.fixture
def run(owner, job, tmp_path, settings) -> Run:
    settings.OBJECTS_URL = str(tmp_path / "objects")
    token = Token.make(owner.workspace, "agent", ["ingest"])[1]
    upload(FakeAgent(Client(), token, job="known"), job.folder, tmp_path, part_bytes=1_000_000)
    done = work()
    assert done.result["records"] == {"samples": job.sample_count, "steps": job.step_count}
    assert done.result["skipped"] == []
    analyses.evaluate(str(Run.objects.get().pk))
    return Run.objects.get()


def test_percentiles_and_verdicts_are_those_of_the_raw_values(owner, run, job):
    tables = Tables(owner.page(reverse("dashboard:report", args=[run.pk])))
    for node in NODES:
        _check_usage(tables, job, node)
        for gpu in range(GPUS):
            where = (node, str(gpu))
            for title, dimension in (
                ("Busy", "GPUUtilization"),
                ("Memory controller", "GPUMemoryUtilization"),
            ):
                cells = tables.of("By GPU", *where, title)[: len(DEVICE)]
                expected = np.percentile(job.gpu(node, gpu, dimension), DEVICE)
                assert numbers(cells) == pytest.approx(expected, abs=0.006), (where, title)
        for core in range(CORES):
            cells = tables.of("By CPU core", node, str(core), "Busy")[: len(DEVICE)]
            expected = np.percentile(job.core(node, core), DEVICE)
            assert numbers(cells) == pytest.approx(expected, abs=0.006), (node, core)
    _check_totals(tables.page, job)
    _check_steps(tables, job)
    _check_loop(tables, job)
    _check_verdicts(run, job)


def _check_usage(tables: Tables, job: KnownJob, node: str) -> None:
    own = job.series[node]
    traffic = [own["network", f"{way}BytesPerSecond", "Algorithm"] for way in _WAYS]
    of_node = {
        "CPU": job.host(node),
        "CPU memory": own["memory", "MemoryUsedPercent", ""],
        "GPU": np.mean([job.gpu(node, gpu) for gpu in range(GPUS)], axis=0),
        "I/O wait": job.host(node, "I/OWaitPercentage"),
    }
    for title, values in of_node.items():
        cells = tables.of("By node", node, title, "%")[: len(USAGE)]
        assert numbers(cells) == pytest.approx(np.percentile(values, USAGE), abs=0.011), title
    cells = tables.of("By node", node, "Network", "bytes/s")[: len(USAGE)]
    assert all(cell.endswith(" MiB") for cell in cells)
    # Rates become counters when they are imported, and whole bytes.
    expected = np.percentile(np.sum(traffic, axis=0), USAGE) / MIB
    assert numbers(cells) == pytest.approx(expected, rel=0.01)


_WAYS = ("Receive", "Transmit")


def _check_totals(page: str, job: KnownJob) -> None:
    for node in NODES:
        received, sent = (
            job.series[node]["network", f"{way}BytesPerSecond", "Algorithm"].sum() / 2 / GIB
            for way in _WAYS
        )
        found = re.search(rf"{node}: [^<]*; ([\d.]+) GiB received; ([\d.]+) GiB sent", page)
        assert found is not None
        assert float(found[1]) == pytest.approx(received, rel=0.01)
        assert float(found[2]) == pytest.approx(sent, rel=0.01)


def _check_steps(tables: Tables, job: KnownJob) -> None:
    ranks = sorted({(node, process) for node, process, _ in job.steps})
    assert len(ranks) == PROCESSES * len(NODES)
    for (node, process, phase), (_, durations) in job.steps.items():
        ours = {"TRAIN": "train", "EVAL": "evaluate"}[phase]
        rank = str(ranks.index((node, process)))
        row = tables.of("Step durations by rank and phase", node, rank, ours)
        count, mean, *cells, wait, deviation, threshold, outliers = row
        assert int(count.replace(",", "")) == len(durations)
        assert seconds(mean) == pytest.approx(durations.mean(), abs=0.0006)
        assert [seconds(cell) for cell in cells] == pytest.approx(
            np.percentile(durations, STEP), abs=0.0011
        )
        assert wait == "–"
        fence = durations.mean() + 3 * durations.std()
        assert seconds(deviation) == pytest.approx(durations.std(), abs=0.0006)
        assert seconds(threshold) == pytest.approx(fence, abs=0.0006)
        assert int(outliers.replace(",", "")) == (durations > fence).sum()


def _check_loop(tables: Tables, job: KnownJob) -> None:
    ranks = len({process for _, process, _ in job.steps})
    totals = {
        title: sum(d.sum() for (*_, phase), (_, d) in job.steps.items() if phase == ours) / ranks
        for title, ours in (("Training steps", "TRAIN"), ("Evaluation steps", "EVAL"))
    }
    whole = 0.0
    for process in {process for _, process, _ in job.steps}:
        own = [steps for (_, each, _), steps in job.steps.items() if each == process]
        ends = max(float((starts + lengths).max()) for starts, lengths in own)
        whole += (ends - min(float(starts.min()) for starts, _ in own)) / ranks
    totals["Between steps"] = whole - sum(totals.values())
    for title, expected in totals.items():
        length, share, *_ = tables.of("Training, evaluation and others", title)
        assert seconds(length) == pytest.approx(expected, abs=60 if expected > 3600 else 1)
        assert float(share.split()[0]) == pytest.approx(100 * expected / whole, abs=0.51)
    begin = tables.of("Initialisation, loop and finalisation", "Initialisation")
    assert seconds(begin[0]) == WARM_UP_SECONDS


def _check_verdicts(run: Run, job: KnownJob) -> None:
    found = {row.rule: Numbers.from_document(row.numbers) for row in run.judgements.all()}
    states = dict(run.judgements.values_list("rule", "state"))
    keys = {node.hostname: node.key for node in _nodes(run)}
    last = max(float((at + long).max()) for at, long in (s for s in job.steps.values()))
    work_of = slice(2 * WARM_UP_SECONDS, int(2 * last))
    for node in NODES:
        for gpu in range(GPUS):
            values, entity = job.gpu(node, gpu), f"{keys[node]}/gpu{gpu}"
            windows = [values[at : at + 500] for at in range(2 * WARM_UP_SECONDS, 9600, 500)]
            whole = [window for window in windows if len(window) == 500]
            for name, percent in (("p95_pct", 95), ("p5_pct", 5)):
                expected = np.median([np.percentile(window, percent) for window in whole])
                got = found["low_gpu_utilization"].by_entity(name)[entity]
                assert got == pytest.approx(expected, abs=0.51), (entity, name)
            whole_run = found["low_gpu_utilization"].by_entity("whole_run_p99_pct")[entity]
            assert whole_run == pytest.approx(np.percentile(values, 99), abs=0.01)
            if values.any():
                mean = found["load_balancing"].by_entity("mean_pct")[entity]
                assert mean == pytest.approx(values[work_of].mean(), abs=0.05)
    assert states["low_gpu_utilization"] == states["load_balancing"] == "fired"
    assert states["unused_gpus"] == "fired"
    assert [e for e, v in _unused(found).items() if v <= 2] == [f"{keys['algo-2']}/gpu1"]
    idle = stuck = 0
    for node in NODES:
        used = [job.gpu(node, gpu)[work_of] for gpu in range(GPUS) if job.gpu(node, gpu).any()]
        low = np.mean(used, axis=0) < 10
        idle, stuck = idle + low.sum(), stuck + (low & (job.host(node)[work_of] > 90)).sum()
    measured = found["cpu_bottleneck"].get
    assert measured("low_gpu_seconds") == pytest.approx(idle / 2 / len(NODES), abs=1.0)
    assert measured("bottleneck_seconds") == pytest.approx(stuck / 2 / len(NODES), abs=1.0)
    assert states["cpu_bottleneck"] == states["io_bottleneck"] == "passed"
    assert run.duration.total_seconds() == pytest.approx(SECONDS, abs=1)


def _unused(found: dict[str, Numbers]) -> dict[str, float]:
    return found["low_gpu_utilization"].by_entity("whole_run_p99_pct")


def _nodes(run: Run) -> list[Any]:
    return [node for attempt in run.attempts.all() for node in attempt.nodes.all()]
