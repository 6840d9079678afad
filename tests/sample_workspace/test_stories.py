"""The conclusions of the service about each sample job. Nobody wrote them down: runs were
simulated, uploaded and analysed like any others.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.running_service import wait_until
from tests.sample_workspace.opened import SampleWorkspace
from webapp.sample_data.jobs import JOBS, LIVE_JOB
from webapp.sample_data.published import JOB as PUBLISHED

pytestmark = [
    pytest.mark.processes,
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("browser"),
]


@pytest.fixture(scope="module")
def jobs(sample: SampleWorkspace) -> dict[str, dict[str, Any]]:
    return {job["name"]: job for job in sample.api("jobs?limit=100")["jobs"]}


@pytest.fixture(scope="module")
def told(sample: SampleWorkspace, jobs: dict[str, dict[str, Any]]) -> Any:
    """Return a function that asks for a job by the start of its name: runs, newest first, and
    recommendations.
    """

    def ask(start: str) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
        [job] = [job for name, job in jobs.items() if name.startswith(start)]
        runs = sample.api(f"jobs/{job['id']}/runs?limit=100")["runs"]
        advised = sample.api(f"jobs/{job['id']}/recommendations")["recommendations"]
        return runs, {each["kind"]: each for each in advised}

    return ask


def test_jobs_of_four_teams_over_three_months(sample, jobs):
    assert set(jobs) == {PUBLISHED, LIVE_JOB.name, *(job.name for job in JOBS)}
    spent = [sample.api(f"spend?by=tag&key=team&month={month}") for month in _months(4)]
    teams = {line["label"] for month in spent for line in month["lines"] if line["usd"]}
    assert {"vision", "speech", "language", "ranking"} <= teams


def test_a_regression_on_two_nodes_is_still_open(sample, told):
    runs, advised = told("street-scenes")
    assert runs[0]["verdict"]["status"] == "open"
    assert runs[0]["verdict"]["regression_since"] == 9
    assert len(sample.api(f"runs/{runs[0]['id']}")["nodes"]) == 2
    assert advised["fix_input_pipeline"]["state"] == "active"
    assert "street-scenes/train.py" in sample.page("/")


def test_another_regression_is_fixed(told):
    runs, _ = told("product-photos")
    by_number = {run["number"]: run["verdict"]["status"] for run in runs}
    assert by_number[12] == "open"
    assert by_number[17] == "ok"


def test_a_saving_was_followed_and_is_verified(sample, told):
    _, advised = told("speech-commands")
    fix = advised["fix_input_pipeline"]
    assert fix["state"] == "verified"
    assert float(fix["realised"]["low_usd"]) > 0
    assert "speech-commands/train.py" in sample.page("/savings/")


def test_a_prediction_failed(told):
    _, advised = told("click-ranking")
    fix = advised["fix_input_pipeline"]
    assert fix["state"] == "failed"
    assert float(fix["realised"]["high_usd"]) < 0 < float(fix["estimated"]["usd"])


def test_a_job_fails_for_memory(sample, told):
    runs, _ = told("dialogue")
    assert [run["state"] for run in runs[:4]] == ["failed"] * 4
    said = sample.api(f"runs/{runs[0]['id']}")
    assert "CUDA out of memory" in " ".join(said["stderr"])
    failures = [each for month in _months(2) for each in _failures(sample, month)]
    assert [each["cause"] for each in failures] == ["oom"] * 4


def test_a_sweep_varies_its_learning_rate(sample, told):
    runs, advised = told("demand-forecast")
    assert len(runs) == 12
    assert len({run["verdict"]["status"] for run in runs}) == 1
    first, second = (sample.api(f"runs/{run['id']}") for run in runs[:2])
    assert first["metrics"]["validation_accuracy"] != second["metrics"]["validation_accuracy"]
    assert advised == {}


def test_a_budget_is_at_risk(sample):
    [budget] = sample.api("budgets")["budgets"]
    assert budget["of"] == "team: language"
    assert budget["state"] in ("forecast_over", "over_threshold", "over")


def test_a_job_without_gpus_has_too_many_cores(sample, told):
    runs, advised = told("churn")
    found = sample.api(f"runs/{runs[0]['id']}")
    assert [each["rule"] for each in found["findings"]] == ["cpu_oversized"]
    assert found["nodes"][0]["gpus"] == []
    assert advised["change_instance_type"]["state"] == "active"


def test_the_dearest_job_leaves_gpus_idle(sample, told):
    runs, advised = told("translation")
    assert "unused_gpus" in [e["rule"] for e in sample.api(f"runs/{runs[0]['id']}")["findings"]]
    assert advised["use_all_gpus"]["state"] == "active"
    spent = sample.api(f"spend?month={_months(2)[1]}")["lines"]
    assert max(spent, key=lambda line: float(line["usd"]))["label"] == "translation/train.py"


def test_the_published_case_saved_what_was_published(told):
    runs, advised = told("review-sentiment")
    assert [Decimal(run["cost_usd"]) for run in runs] == [Decimal("1.06675"), Decimal("6.15672")]
    assert advised["use_all_gpus"]["state"] == "verified"


def test_nothing_is_to_be_done_for_a_healthy_job(told):
    runs, advised = told("captions")
    assert {run["verdict"]["status"] for run in runs} == {"ok"}
    assert not set(advised) - {"probe"}


def test_a_run_goes_on(sample, told):
    assert sample.api(f"runs/{sample.live_run}")["state"] == "running"

    def seconds() -> float:
        return float(sample.api(f"runs/{sample.live_run}")["duration_seconds"] or 0)

    before = seconds()
    wait_until(lambda: seconds() >= before + 10, 120, "ten more seconds")
    assert told("transcripts")[0][0]["id"] == sample.live_run


def _months(count: int) -> list[str]:
    """Return this month and those before it."""
    found, day = [], datetime.now(UTC).date()
    for _ in range(count):
        found.append(f"{day:%Y-%m}")
        day = day.replace(day=1) - timedelta(days=1)
    return found


def _failures(sample: SampleWorkspace, month: str) -> list[dict[str, Any]]:
    failures: list[dict[str, Any]] = sample.api(f"failures?month={month}")["failures"]
    return failures
