"""Presets and parameters: the values that a run is judged by."""

from __future__ import annotations

import pytest

from tests.service.test_analysis import analysed, send
from webapp.analysis.models import Judgement
from webapp.thresholds.models import ParameterValue

pytestmark = pytest.mark.django_db


def _set(agent, value: float, job=None, name: str = "fire_share_pct"):  # type: ignore[no-untyped-def]
    workspace = analysed(agent).workspace
    return ParameterValue.objects.create(
        workspace=workspace, job=job, rule="input_bound", name=name, value=value
    )


def _judged(agent) -> Judgement:  # type: ignore[no-untyped-def]
    return Judgement.objects.get(run_id=agent.run_id, rule="input_bound")


def _again(agent):  # type: ignore[no-untyped-def]
    """Make the run due by declaring it once more, and return how it is judged."""
    agent.declare()
    analysed(agent)
    return _judged(agent)


def test_a_run_is_judged_by_the_job_s_value_then_the_workspace_s_then_the_default(agent):
    """60 % of its time the loop waits."""
    send(agent, 6)
    run = analysed(agent)
    assert _judged(agent).state == "fired"
    _set(agent, 70)
    judged = _again(agent)
    assert (judged.state, judged.values["fire_share_pct"]) == ("passed", 70)
    _set(agent, 50, job=run.job)
    assert _again(agent).state == "fired"


def test_the_preset_sets_what_nobody_sets(agent, workspace):
    send(agent, 6)
    workspace.preset = "safe"
    workspace.save()
    analysed(agent)
    assert _judged(agent).values["fire_share_pct"] == 25
    _set(agent, 12)
    assert _again(agent).values["fire_share_pct"] == 12


def test_a_value_that_no_rule_allows_any_more_is_left_out(agent):
    send(agent, 6)
    _set(agent, 10_000)
    _set(agent, 1, name="gone")
    assert _again(agent).values["fire_share_pct"] == 15
