"""Advice is saved with the analysis that it follows from."""

from __future__ import annotations

import pytest
from django.utils import timezone

from tests.service.uploads import FakeAgent
from webapp.advice.models import Recommendation
from webapp.analysis import hooks
from webapp.analysis.models import Analysis, Judgement
from webapp.analysis.outcome import FollowUp, Outcome
from webapp.analysis.tasks import evaluate
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db


def test_an_analysis_is_saved_with_all_that_follows_from_it_or_not_at_all(
    agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.declare()
    for segment in agent.segments(6):
        assert agent.put(segment).status_code == 200

    with monkeypatch.context() as patched:
        patched.setattr(hooks, "_preparations", [*hooks._preparations])
        hooks.follow_analyses(_broken)
        evaluate(str(agent.run_id))
    assert "disk full" in Analysis.objects.get().error
    assert not Judgement.objects.exists()
    assert not Recommendation.objects.exists()

    Analysis.objects.update(due_at=timezone.now())
    evaluate(str(agent.run_id))
    assert Analysis.objects.get().error == ""
    assert Judgement.objects.filter(state=Judgement.FIRED).exists()
    assert Recommendation.objects.filter(run_id=agent.run_id).exists()


def _broken(_outcome: Outcome) -> FollowUp:
    def save(_run: Run) -> None:
        raise OSError("disk full")

    return save
