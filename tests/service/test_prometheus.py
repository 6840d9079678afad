"""Jobs, runs and spend for Prometheus: of the service for its operator, of a workspace for its
tokens."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from tests.html import read_page
from tests.web import factories
from webapp.accounts.models import Token
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db
LONG_AGO = timedelta(days=31)


@pytest.fixture(autouse=True)
def runs(workspace) -> None:
    """Make four runs of two jobs; one in another workspace, one of sample data, and deleted
    ones.
    """
    job = factories.job(workspace, 'a "job"\\with\nlines')
    factories.run(job, cost="1.5")
    factories.run(job, cost="2.25", state=Run.FAILED)
    factories.run(job, cost=None, state=Run.RUNNING)
    factories.run(job, cost="100", started_at=timezone.now() - LONG_AGO)
    factories.run(job, cost="7", deleted_at=timezone.now())
    gone = factories.job(workspace, "gone", deleted_at=timezone.now())
    factories.run(gone, cost="7")
    factories.run(factories.job(factories.workspace("Theirs"), "secret"), cost="4")
    sample = factories.workspace("Sample", is_sample_data=True)
    factories.run(factories.job(sample, "sample"), cost="7")


def lines(path: str, token: str) -> dict[str, float]:
    answer = Client().get(path, headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/plain")
    rows = [row for row in read_page(answer).splitlines() if not row.startswith("#")]
    return {name: float(value) for name, _, value in (row.rpartition(" ") for row in rows)}


def test_the_operator_reads_figures_of_the_whole_service(settings):
    settings.METRICS_TOKEN = "operators"
    found = lines("/metrics", "operators")
    assert found["trimtab_workspaces"] == 2
    assert found["trimtab_jobs"] == 2
    assert found['trimtab_runs{state="finished"}'] == 3
    assert found['trimtab_runs{state="failed"}'] == 1
    assert found['trimtab_runs{state="lost"}'] == 0
    assert found["trimtab_spend_30_days_usd"] == 7.75
    assert found["trimtab_runs_without_price_30_days"] == 1
    assert not any("job" in name and "secret" in name for name in found)


def test_a_workspace_reads_its_own_jobs(workspace):
    found = lines("/api/v1/metrics", Token.make(workspace, "reader", [Token.READ])[1])
    job = 'job="a \\"job\\"\\\\with\\nlines"'
    began = found.pop(f"trimtab_job_last_run_began_seconds{{{job}}}")
    assert began == pytest.approx(timezone.now().timestamp() - 3600, abs=120)
    assert found == {
        f'trimtab_job_runs{{{job},state="finished"}}': 2,
        f'trimtab_job_runs{{{job},state="failed"}}': 1,
        f'trimtab_job_runs{{{job},state="running"}}': 1,
        f"trimtab_job_spend_30_days_usd{{{job}}}": 3.75,
        f"trimtab_job_runs_without_price_30_days{{{job}}}": 1,
    }


@pytest.mark.parametrize("scope", [Token.INGEST, Token.WRITE])
def test_other_tokens_read_no_figures(workspace, settings, scope):
    settings.METRICS_TOKEN = "operators"
    token = Token.make(workspace, scope, [scope])[1]
    for path, plain in [("/api/v1/metrics", token), ("/metrics", token)]:
        answer = Client().get(path, headers={"Authorization": f"Bearer {plain}"})
        assert answer.status_code == 403
    headers = {"Authorization": "Bearer operators"}
    assert Client().get("/api/v1/metrics", headers=headers).status_code == 401
