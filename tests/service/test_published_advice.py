"""The published case: advice from three large machines that were mostly idle, and its proof."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from advisor.pricing.catalogue import catalogue
from tests.upgrade.uploads import send
from webapp.accounts.models import Token
from webapp.advice import advising
from webapp.advice.models import Recommendation
from webapp.analysis.tasks import evaluate
from webapp.runs.models import Run
from webapp.sample_data.histories import WORKSPACE
from webapp.sample_data.load import uploads_of
from webapp.sample_data.published import published_runs

pytestmark = pytest.mark.django_db(transaction=True)
THEN = datetime(2020, 12, 15, tzinfo=UTC)


@pytest.fixture
def upload(live_server: Any, workspace: Any) -> Any:
    """Sends and analyses one of the two runs."""
    token = Token.make(workspace, "all", [Token.INGEST, Token.READ])[1]

    def uploaded(number: int) -> Run:
        for body in uploads_of(published_runs(WORKSPACE)[number - 1]):
            send(live_server.url, token, body)
        run = Run.objects.get(job__name="review-sentiment/train.py", number=number)
        evaluate(str(run.pk))
        run.refresh_from_db()
        return run

    return uploaded


def test_the_first_advice_is_the_published_one_and_the_second_run_proves_it(
    upload: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advising, "timezone", SimpleNamespace(now=lambda: THEN))
    first = upload(1)
    advised = Recommendation.objects.order_by("-saving_usd").first()
    assert advised is not None
    assert advised.change == {"instance_type": "ml.p3.2xlarge", "node_count": 2}
    assert (advised.rung, advised.state) == ("same", Recommendation.ACTIVE)
    assert advised.risk < 1

    second = upload(2)
    advised.refresh_from_db()
    assert (advised.state, advised.claimed_by) == (Recommendation.VERIFIED, second)
    assert advised.claimed_candidate["instance_type"] == "ml.p3.2xlarge"
    assert advised.claimed_candidate["node_count"] == 2
    followed = Recommendation.objects.filter(claimed_by=second)
    realised = sum((row.realised_usd for row in followed), Decimal(0))
    assert realised == pytest.approx(first.cost_usd - second.cost_usd, abs=Decimal("0.01"))
    assert advised.realised_low_usd <= advised.realised_usd <= advised.realised_high_usd
    left = Recommendation.objects.filter(state=Recommendation.ACTIVE, run=second)
    assert left
    assert all(row.saving_usd < second.cost_usd / 2 for row in left)


def test_today_no_machine_is_advised_that_nothing_confirms(upload: Any) -> None:
    """A list lacks the run's family; a later price speaks for it, which a person has to check."""
    upload(1)
    for row in Recommendation.objects.all():
        machine = row.change.get("instance_type", "").removeprefix("ml.")
        is_to_check = "check that your region still offers it" in " ".join(row.assumptions)
        assert not machine or is_to_check == catalogue()[machine].is_unlisted
