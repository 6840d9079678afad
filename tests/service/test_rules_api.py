"""Thresholds over the API: reading and setting them with the same code as the page."""

from __future__ import annotations

from uuid import uuid4

import pytest

from rules.registry import all_rules
from tests.service.test_analysis import analysed
from tests.web import factories
from webapp.accounts.models import AuditEntry, Membership, Token, Workspace
from webapp.analysis.models import LedgerEntry
from webapp.rulebook import rejudging
from webapp.rulebook.models import Rejudging
from webapp.thresholds.models import ParameterValue

pytestmark = pytest.mark.django_db

SHARE = "input_bound.fire_share_pct"


@pytest.fixture
def person(workspace):
    """Return who made the tokens: an owner."""
    return factories.member(workspace)


@pytest.fixture
def call(client, workspace, person):
    """Calls the API by a token of the workspace; `of`: of another one."""

    def called(method, said=None, job=None, of=None, scopes=(Token.READ, Token.WRITE)):  # type: ignore[no-untyped-def]
        token = Token.make(of or workspace, "script", list(scopes), created_by=person)[1]
        path = "/api/v1/rules" + (f"?job={job}" if job else "")
        bearer = {"Authorization": f"Bearer {token}"}
        if said is None:
            return getattr(client, method)(path, headers=bearer)
        return getattr(client, method)(path, said, content_type="application/json", headers=bearer)

    return called


@pytest.fixture
def job(workspace):
    return factories.job(workspace, "vision/train.py")


def _held(answer, name=SHARE):  # type: ignore[no-untyped-def]
    """Return (value, set_by) of one parameter."""
    rule, _, parameter = name.partition(".")
    (rule_row,) = [each for each in answer.json()["rules"] if each["rule"] == rule]
    (held,) = [each for each in rule_row["parameters"] if each["name"] == parameter]
    return held["value"], held["set_by"]


def test_it_tells_each_rule_and_parameter_as_they_are_declared(call):
    answer = call("get").json()
    assert (answer["preset"], answer["job"], answer["own"]) == ("balanced", None, {})
    assert [each["rule"] for each in answer["rules"]] == list(all_rules())
    for shown in answer["rules"]:
        rule = all_rules()[shown["rule"]]
        assert shown["sagemaker_name"] == rule.sagemaker_name
        for parameter, said in zip(rule.parameters, shown["parameters"], strict=True):
            assert (said["name"], said["unit"]) == (parameter.name, parameter.unit)
            words = parameter.choices
            default = words[int(parameter.default)] if words else parameter.default
            assert said["value"] == said["default"] == default
            assert (said["low"], said["high"]) == (
                (None, None) if words else (parameter.low, parameter.high)
            )


def test_one_value_sets_the_materiality_floor_of_all_rules_about_waste(call, job):
    floor = "least_waste_pct"
    answer = call("put", {"parameters": {f"materiality.{floor}": 3}})
    assert answer.json()["own"] == {f"materiality.{floor}": 3}
    assert _held(answer, f"idle_tail.{floor}") == (3, "workspace")
    answer = call("put", {"parameters": {f"idle_tail.{floor}": 0.2}}, job=job.uuid)
    assert _held(answer, f"idle_tail.{floor}") == (0.2, "job")
    assert _held(answer, f"epoch_gaps.{floor}") == (3, "workspace")
    held = {
        rule["rule"]: [p["name"] for p in rule["parameters"]] for rule in answer.json()["rules"]
    }
    assert floor not in held["hung"]


def test_what_is_set_holds_by_layer_and_is_written_down_as_by_the_page(call, workspace, job):
    answer = call("put", {"preset": "safe", "parameters": {SHARE: 30}})
    assert answer.status_code == 200
    assert _held(answer) == (30, "workspace")
    assert _held(answer, "input_bound.high_share_pct")[1] == "preset"
    entry = AuditEntry.objects.get(action="rules.changed")
    assert entry.actor_name.startswith("token script")
    assert entry.change == {"preset": ["balanced", "safe"], SHARE: [None, 30.0]}
    assert Rejudging.objects.get().wanted == 1
    of_job = call("put", {"parameters": {SHARE: 40}}, job.uuid)
    assert (of_job.json()["job"], of_job.json()["own"]) == (str(job.uuid), {SHARE: 40})
    assert _held(of_job) == (40, "job")
    assert _held(call("get")) == (30, "workspace")
    assert call("get").json()["preset"] == "safe"


def test_put_replaces_all_that_was_set_and_twice_changes_nothing(call):
    call("put", {"preset": "save", "parameters": {SHARE: 30, "step_outlier.mode": "EVAL"}})
    own = call("get").json()["own"]
    assert own == {SHARE: 30, "step_outlier.mode": "EVAL"}
    assert call("put", {"parameters": own}).json()["own"] == own
    assert AuditEntry.objects.filter(action="rules.changed").count() == 1
    answer = call("put", {"parameters": {}})
    assert (answer.json()["own"], answer.json()["preset"]) == ({}, "save")
    assert not ParameterValue.objects.exists()


def test_it_takes_sagemaker_s_spelling_and_units(call):
    answer = call("put", {"parameters": {"LowGPUUtilization_window": 100}})
    assert _held(answer, "low_gpu_utilization.window_seconds") == (50, "workspace")


WRONG = [
    ({"parameters": {SHARE: 101}}, "outside 0..100"),
    ({"parameters": {SHARE: "much"}}, "is not a number (%)"),
    ({"parameters": {SHARE: True}}, ""),
    ({"parameters": {"step_outlier.mode": "maybe"}}, "is not one of None, TRAIN, EVAL"),
    ({"parameters": {"no_progress.fewest": 2.5}}, "is not a whole number"),
    ({"parameters": {"nothing": 1}}, "no such rule"),
    ({"parameters": {"input_bound.nothing": 1}}, "has no parameter"),
    ({"parameters": {SHARE: 30, "hung.idle_seconds": 1}}, "outside 30..86400"),
    ({"preset": "wild", "parameters": {}}, ""),
    ({"preset": "safe"}, ""),
    ({"parameters": {}, "more": 1}, ""),
]


@pytest.mark.parametrize(("said", "why"), WRONG, ids=str)
def test_what_is_wrong_is_said_and_nothing_is_saved(call, said, why):
    answer = call("put", said)
    assert answer.status_code == 422
    assert why in answer.json()["detail"]
    assert answer.json()["field"]
    assert not ParameterValue.objects.exists()
    assert not AuditEntry.objects.filter(action="rules.changed").exists()


def test_a_job_has_no_preset_and_has_to_be_one_of_the_workspace(call, job):
    refused = call("put", {"preset": "safe", "parameters": {}}, job.uuid)
    assert (refused.status_code, refused.json()["field"]) == (422, "preset")
    other = Workspace.objects.create(name="Theirs")
    for unknown in (call("get", job=uuid4()), call("get", job=job.uuid, of=other)):
        assert (unknown.status_code, unknown.json()["field"]) == (422, "job")


def test_it_takes_the_scope_to_write(call):
    assert call("put", {"parameters": {SHARE: 30}}, scopes=[Token.READ]).status_code == 403
    assert call("get", scopes=[Token.WRITE]).status_code == 403


def test_what_no_rule_knows_any_more_is_not_told_as_set(call, workspace):
    for rule, name in (("a_rule_of_old", "limit"), ("input_bound", "of_old"), SHARE.split(".")):
        ParameterValue.objects.create(workspace=workspace, rule=rule, name=name, value=987654)
    assert call("get").json()["own"] == {}
    assert _held(call("get")) == (15, "preset")


def test_the_ledger_of_a_run_follows_the_parameters(call, agent):
    """The loop pauses for ten seconds: with a gap from 20 s on that is no label of its own."""

    def gap_seconds() -> float:
        run = analysed(agent)
        rows = LedgerEntry.objects.filter(run=run, label="epoch_gap")
        return sum(row.microseconds for row in rows) / 1e6

    agent.declare()
    for segment in agent.segments(6):
        segment.steps = [] if segment.seq == 3 else segment.steps
        assert agent.put(segment).status_code == 200
    assert gap_seconds() == pytest.approx(10, abs=0.5)
    call("put", {"parameters": {"epoch_gaps.gap_seconds": 20}})
    rejudging.rejudge_workspace(Rejudging.objects.get().workspace_id)
    assert gap_seconds() == 0


def test_a_members_token_sets_the_rules_of_jobs_alone(call, job, person):
    person.memberships.update(role=Membership.MEMBER)
    said = {"parameters": {SHARE: 31}}
    refused = call("put", said)
    assert refused.status_code == 403
    assert "owner" in refused.json()["fix"]
    assert not ParameterValue.objects.exists()
    assert call("put", said, job.uuid).status_code == 200
