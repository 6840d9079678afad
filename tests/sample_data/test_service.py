"""The simulated history in the real service: its API, rows and clocks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from tests.upgrade.uploads import send
from webapp.accounts.models import Token, Workspace
from webapp.analysis.tasks import evaluate
from webapp.runs.models import Run, Session
from webapp.sample_data.histories import WORKSPACE
from webapp.sample_data.load import load, uploads_of
from webapp.sample_data.published import published_runs

pytestmark = pytest.mark.django_db(transaction=True)


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
    assert Run.objects.count() == 14
    assert set(Run.objects.values_list("state", flat=True)) == {Run.FINISHED}
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
