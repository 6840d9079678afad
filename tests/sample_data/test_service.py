"""The simulated history in the real service: its API, rows and clocks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import requests
from django.utils import timezone

from tests.upgrade.uploads import send
from tests.web import factories
from webapp.accounts.models import Token, Workspace
from webapp.analysis.models import Regression
from webapp.analysis.tasks import evaluate
from webapp.runs.models import Run, Session
from webapp.sample_data.histories import WORKSPACE, runs_of, sample_runs
from webapp.sample_data.load import load, uploads_of
from webapp.sample_data.published import published_runs

pytestmark = pytest.mark.django_db(transaction=True)
SLOWDOWN = 1.18


@pytest.fixture
def token(settings: Any, tmp_path: Path) -> str:
    settings.OBJECTS_URL = str(tmp_path / "objects")
    workspace = Workspace.objects.create(name="Sample data", is_sample_data=True)
    return Token.make(workspace, "loading", ["ingest"])[1]


def test_it_lies_in_the_past_finished_exact_and_loads_only_once(
    live_server: Any, token: str
) -> None:
    now = timezone.now()
    first = load(live_server.url, token, now)
    second = load(live_server.url, token, now)
    assert (first.duplicates, second.duplicates) == (0, first.segments)
    assert Run.objects.count() == len(sample_runs(now))
    assert set(Run.objects.values_list("state", flat=True)) == {Run.FINISHED, Run.FAILED}
    published = Run.objects.filter(job__name="review-sentiment/train.py").order_by("started_at")
    assert [run.duration for run in published] == [timedelta(seconds=s) for s in (503, 502)]
    assert published[0].started_at == datetime(2020, 12, 14, 17, 20, tzinfo=UTC)
    assert set(Session.objects.values_list("clock_offset_ms", flat=True)) == {0}
    assert not Run.objects.filter(ended_at__gte=now).exists()


def test_the_published_costs_come_out_to_the_cent_and_beyond(live_server: Any, token: str) -> None:
    for upload in chain.from_iterable(map(uploads_of, published_runs(WORKSPACE))):
        send(live_server.url, token, upload)
    runs = Run.objects.filter(job__name="review-sentiment/train.py").order_by("started_at")
    for run in runs:
        evaluate(str(run.pk))
    assert [run.cost_usd for run in runs.all()] == [Decimal("6.15672"), Decimal("1.06675")]


def test_the_published_move_is_claimed_verified_and_saves_what_was_published(
    live_server: Any, token: str
) -> None:
    for upload in chain.from_iterable(map(uploads_of, published_runs(WORKSPACE))):
        send(live_server.url, token, upload)
    before, after = Run.objects.order_by("started_at")
    evaluate(str(before.pk))
    before.refresh_from_db()
    machines = {"node_count": 2, "purchase_option": "on_demand"}
    promised = {"ml.g4dn.xlarge": 0.95, "ml.p3.2xlarge": 1.1}
    table = [
        {"instance_type": kind, "cost_mid_usd": usd, **machines} for kind, usd in promised.items()
    ]
    row = factories.recommendation(before, candidates=table, change=table[0])
    evaluate(str(after.pk))
    row.refresh_from_db()
    assert (row.state, row.claimed_by, row.proven_by) == ("verified", after, after)
    assert row.claimed_candidate == table[1]
    # A finding of the first run is gone, too. Together they save what was published.
    saved = row.job.recommendations.exclude(realised_usd=None)
    assert sum(saved.values_list("realised_usd", flat=True)) == Decimal("5.08997")
    assert row.realised_usd > Decimal("4.5")


def test_the_slow_runs_are_an_open_regression_with_its_cost_in_whatever_order_they_are_analysed(
    live_server: Any, token: str
) -> None:
    # Before anybody mended it.
    for run in runs_of("product-photos/train.py", timezone.now())[:12]:
        for upload in uploads_of(run):
            send(live_server.url, token, upload)
    runs = list(Run.objects.order_by("started_at"))
    job = runs[0].job
    shuffled = [runs[n] for n in (11, 3, 9, 0, 10, 1, 8, 2, 7, 4, 6, 5)]
    for run in shuffled:
        evaluate(str(run.pk))
    reader = Token.make(job.workspace, "reading", ["read"])[1]
    answer = requests.get(
        f"{live_server.url}/api/v1/jobs/{job.uuid}/runs",
        headers={"Authorization": f"Bearer {reader}"},
        timeout=30,
    ).json()
    verdicts = {run["number"]: run["verdict"] for run in answer["runs"]}
    newest = verdicts[runs[11].number]
    assert (newest["status"], newest["direction"]) == ("open", "worse")
    assert newest["regression_since"] == runs[9].number
    assert newest["change"] == pytest.approx(SLOWDOWN - 1, abs=0.03)
    assert [verdicts[run.number]["status"] for run in runs[:9]] == ["ok"] * 9
    regression = Regression.objects.get()
    slow_usd = sum((run.cost_usd or Decimal(0) for run in Run.objects.filter(pk__in=[
        run.pk for run in runs[9:]])), Decimal(0))  # fmt: skip
    # The epochs are all but 72 of some 2,080 s, and of their time 0.18 of 1.18 is the change.
    expected = slow_usd * Decimal(str(0.965 * 0.18 / 1.18))
    assert regression.extra_usd == pytest.approx(expected, rel=Decimal("0.05"))
