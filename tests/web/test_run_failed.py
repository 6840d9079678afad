"""The page and the report of a run that failed or is too short, which are never good news."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.urls import reverse

from tests.web import factories
from webapp.analysis.models import Life
from webapp.runs.models import Node, Run, Session

GIB = 2**30
TICK = "notice-good"
CUDA = [
    'File "/app/train.py", line 212, in step',
    'File "/usr/lib/python3/dist-packages/torch/nn/functional.py", line 9, in linear',
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.31 GiB. GPU 1 has a total",
]


def _text(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def _page(owner: Any, run: Run, name: str = "run") -> str:
    page: str = owner.page(reverse(f"dashboard:{name}", args=[run.pk]))
    return page


@pytest.fixture
def failed(owner: Any) -> Run:
    run = factories.run(factories.job(owner.workspace), cost="3.00", state=Run.FAILED)
    factories.node(run, gpus=[{"model": "NVIDIA A10G", "memory_bytes": 24 * GIB}] * 2)
    factories.ledger(run, effective=540.0, initialise=60.0)
    use = {"gpu_memory_pct_max@n": 92.0, "cpu_memory_pct_max@n": 99.0}
    numbers = {"values": use, "windows": [], "missing": []}
    factories.judgement(run, "overall_system_usage", "passed", numbers=numbers)
    return run


def _end(run: Run, *, stderr: tuple[str, ...] | list[str] = (), **more: Any) -> None:
    node = Node.objects.get(attempt__run=run)
    assert run.started_at is not None
    assert run.ended_at is not None
    Session.objects.create(
        id=uuid4(),
        node=node,
        boot_id="b",
        started_at=run.started_at,
        ended_ms=600_000,
        end_state=Run.FAILED,
        stderr=list(stderr),
        **{"exit_code": 1} | more,
    )
    span = {"began_at": run.started_at, "ended_at": run.ended_at}
    Life.objects.create(run=run, number=0, node=node, ending="oom", lost_usd=0, **span)


def test_a_failed_run_gets_no_tick_and_no_bare_no_recommendation(owner: Any, failed: Run) -> None:
    _end(failed)

    for name in ("run", "report"):
        page = _page(owner, failed, name)
        text = _text(page)
        assert TICK not in page
        assert "No rule fired on this run" not in text
        assert "No rule fired on what was recorded before the run failed" in text
        assert "No recommendation: mend the failure first." in text
        assert "Waste before the failure" in text
    assert "Out of memory" not in _text(_page(owner, failed))


@pytest.mark.parametrize(
    ("state", "words"), [(Run.STOPPED, "was stopped"), (Run.LOST, "went silent")]
)
def test_neither_does_one_that_was_stopped_or_went_silent(
    owner: Any, failed: Run, state: str, words: str
) -> None:
    Run.objects.filter(pk=failed.pk).update(state=state)

    page = _page(owner, failed)

    assert TICK not in page
    assert f"before the run {words}" in _text(page)


def test_all_of_a_run_that_nothing_continues_is_the_cost_of_its_failure(
    owner: Any, failed: Run
) -> None:
    _end(failed)

    text = _text(_page(owner, failed))

    assert "so all of its $3.00 is the cost of the failure" in text


def test_gpu_memory_that_ran_out_is_named_with_peak_place_and_help(owner: Any, failed: Run) -> None:
    _end(failed, stderr=CUDA)

    page = _page(owner, failed)
    text = _text(page)

    assert "The memory of GPU 1, NVIDIA A10G" in text
    assert "22.1 of 24.0 GiB, 92 %, in the fullest sample" in text
    assert "/app/train.py, line 212, in step" in text
    assert "Halve the batch" in text
    assert text.count("Tried to allocate") == 2  # The last lines, and all lines under Files.
    assert _folded(page) == {"gpu_memory": False, "memory": True}
    assert "The memory of GPU 1, NVIDIA A10G ran out" in _text(_page(owner, failed, "report"))


def test_the_line_that_matters_is_shown_below_others(owner: Any, failed: Run) -> None:
    _end(failed, stderr=[*CUDA, *(f"cleaning up {n}" for n in range(9))])

    assert _text(_page(owner, failed)).count("Tried to allocate") == 2


@pytest.mark.parametrize(
    ("ending", "peak"),
    [
        ({"oom_kills": 1, "memory_bytes": 7 * GIB, "memory_limit_bytes": 8 * GIB}, "7.0 of 8.0"),
        ({"oom_kills": 1}, "4.0 of 4.0 GiB, 99 %"),
    ],
)
def test_host_memory_that_ran_out_is_told_apart(
    owner: Any, failed: Run, ending: dict[str, int], peak: str
) -> None:
    _end(failed, exit_code=137, ending=ending)

    page = _page(owner, failed)
    text = _text(page)

    assert "The memory of the machine" in text
    assert peak in text
    assert "Use fewer data-loader workers" in text
    assert "GPU with more memory" not in text
    assert _folded(page) == {"gpu_memory": True, "memory": False}


def test_a_short_run_says_so_with_what_its_time_went_to(owner: Any) -> None:
    run = factories.run(factories.job(owner.workspace), cost="1.00", seconds=59)
    factories.node(run)
    factories.ledger(run, initialise=41.89, effective=17.11)
    for rule in ("one", "two"):
        factories.judgement(run, rule, "insufficient_data")
    factories.judgement(run, "three", "passed")
    said = (
        "Too short to judge: in 59 s, 1 of 3 rules had enough data. "
        "71 % of it was start-up ($0.7100)."
    )

    for name in ("run", "report"):
        page = _page(owner, run, name)
        assert said in _text(page)
        assert TICK not in page


def test_large_waste_is_told_beside_no_finding_instead_of_a_tick(owner: Any) -> None:
    run = factories.run(factories.job(owner.workspace), cost="1.00", seconds=600)
    factories.node(run)
    factories.ledger(run, initialise=588.0, effective=12.0)
    factories.judgement(run, "three", "passed")

    for name in ("run", "report"):
        page = _page(owner, run, name)
        told = "though $0.9800, 98 % of its cost, was waste, most of it start-up."
        assert f"No rule fired on this run, {told}" in _text(page)
        assert "Nothing to change" not in page
        assert TICK not in page


def test_a_run_as_short_that_most_rules_judged_is_judged(owner: Any) -> None:
    run = factories.run(factories.job(owner.workspace))
    Run.objects.filter(pk=run.pk).update(ended_at=run.started_at + timedelta(seconds=59))
    factories.judgement(run, "one", "passed")

    assert TICK in _page(owner, run)


def _folded(page: str) -> dict[str, bool]:
    [found] = re.findall(r'<script id="run-chart"[^>]*>(.*?)</script>', page, re.DOTALL)
    charts = {each["key"]: each["is_folded"] for each in json.loads(found)["charts"]}
    return {key: charts[key] for key in ("gpu_memory", "memory")}
