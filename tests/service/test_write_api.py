"""The write API: what scripts change, by a token with the scope for it."""

from __future__ import annotations

from decimal import Decimal

import pytest
from django.test import Client

from tests.web import factories
from webapp.accounts.models import AuditEntry, Token, Workspace
from webapp.runs.models import Job, Run


@pytest.fixture
def run(workspace) -> Run:
    return factories.run(factories.job(workspace), owner="ada", tags={"team": "vision", "x": "1"})


def call(workspace: Workspace, method: str, path: str, body: object = None, scope: str = "write"):  # type: ignore[no-untyped-def]
    bearer = {"Authorization": f"Bearer {Token.make(workspace, 'script', [scope])[1]}"}
    ask = getattr(Client(), method)
    return ask(f"/api/v1{path}", body, content_type="application/json", headers=bearer)


def patch(run: Run, body: object, scope: str = "write"):  # type: ignore[no-untyped-def]
    return call(run.workspace, "patch", f"/runs/{run.pk}", body, scope)


def test_what_is_sent_changes_and_the_rest_stays(run):
    body = {"note": "New loader.", "tags": {"team": "speech", "x": None}, "billed_usd": "0.02"}
    answer = patch(run, body).json()
    assert (answer["note"], answer["owner"]) == ("New loader.", "ada")
    assert answer["tags"] == {"team": "speech"}
    assert answer["billed_usd"] == "0.020000000"
    assert patch(run, {}).json() == answer
    actions = AuditEntry.objects.values_list("action", "actor_name")
    assert {action for action, _ in actions} == {"run.edited", "run.billed"}
    assert all(name.startswith("token script") for _, name in actions)


def test_what_a_script_has_set_outlives_what_the_agent_declares(agent, workspace):
    agent.declare(owner="ada", tags={"team": "vision"})
    patch(Run.objects.get(), {"owner": "grace", "tags": {"team": "speech"}})
    agent.declare(owner="ada", tags={"team": "vision", "new": "1"})
    run = Run.objects.get()
    assert (run.owner, run.tags) == ("grace", {"team": "speech", "new": "1"})


def test_the_metrics_of_a_job_are_set_one_by_one_and_removed_with_null(run):
    def patch_metrics(metrics: object):  # type: ignore[no-untyped-def]
        path = f"/jobs/{run.job.uuid}"
        return call(run.workspace, "patch", path, {"metrics": metrics})

    auroc = {"direction": "higher", "tolerated_loss": 2.0, "unit": "percent"}
    patch_metrics({"val/auroc": {"direction": "higher", "tolerated_loss": 2}})
    answer = patch_metrics({"gamma": {"direction": "ignore"}}).json()
    gamma = {"direction": "ignore", "tolerated_loss": None, "unit": "percent"}
    assert answer["metrics"] == {"val/auroc": auroc, "gamma": gamma}
    assert patch_metrics({"val/auroc": None}).json()["metrics"] == {"gamma": gamma}
    listed = call(run.workspace, "get", "/jobs", scope="read").json()["jobs"]
    assert listed[0]["metrics"] == {"gamma": gamma}
    for wrong in ({"x": {"direction": "up"}}, {"x": {}}, {"x": {"tolerated_loss": -1}}, {"": None}):
        assert patch_metrics(wrong).status_code == 422
    assert Job.objects.get(pk=run.job_id).metrics == {"gamma": gamma}


def test_pinning_takes_an_exclusion_back_and_the_other_way_round(run):
    assert patch(run, {"is_excluded": True}).json()["is_excluded"] is True
    answer = patch(run, {"is_pinned": True}).json()
    assert (answer["is_pinned"], answer["is_excluded"]) == (True, False)
    answer = patch(run, {"is_excluded": True}).json()
    assert (answer["is_pinned"], answer["is_excluded"]) == (False, True)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"nmoe": "x"}, "nmoe"),
        ({"owner": None}, "owner"),
        ({"owner": "a" * 121}, "owner"),
        ({"owner": "a\0"}, "owner"),
        ({"tags": {"": "x"}}, "tags"),
        ({"tags": {"k": "v" * 121}}, "tags"),
        ({"tags": {str(n): "" for n in range(501)}}, "tags"),
        ({"tags": {str(n): "" for n in range(499)}}, "tags"),
        ({"billed_usd": "-1"}, "billed_usd"),
        ({"billed_usd": "NaN"}, "billed_usd"),
        ({"billed_usd": "0.0000000001"}, "billed_usd"),
        ({"is_pinned": True, "is_excluded": True}, "change"),
        ({"machine": {"instance_type": ""}}, "machine.instance_type"),
        ({"machine": {"purchase_option": "stolen"}}, "machine.purchase_option"),
        ({"machine": {"nodes": 1}}, "machine.nodes"),
    ],
)
def test_what_cannot_be_is_refused_with_its_field_and_changes_nothing(run, body, field):
    answer = patch(run, body)
    assert answer.status_code == 422
    assert field in answer.json()["field"]
    assert not AuditEntry.objects.exists()


def test_a_corrected_machine_is_priced_again(agent, workspace):
    agent.declare()
    for segment in agent.segments(3):
        agent.put(segment)
    run = Run.objects.get()
    small = patch(run, {"machine": {"instance_type": "c5.xlarge", "region": "us-east-1"}}).json()
    large = patch(run, {"machine": {"node": 1, "instance_type": "c5.2xlarge"}}).json()
    assert Decimal(large["cost_usd"]) == pytest.approx(
        2 * Decimal(small["cost_usd"]), rel=Decimal("1e-6")
    )
    answer = patch(run, {"note": "x", "machine": {"node": 2, "region": "eu-west-1"}})
    assert (answer.status_code, answer.json()["field"]) == (422, "machine.node")
    assert Run.objects.get().note == ""


def test_a_machine_without_a_price_is_saved_only_if_it_is_meant(agent, workspace):
    agent.declare()
    for segment in agent.segments(3):
        agent.put(segment)
    run = Run.objects.get()
    machine = {"instance_type": "c5.lrage", "region": "us-east-1"}
    patch(run, {"machine": {**machine, "instance_type": "c5.xlarge"}})

    refused = patch(run, {"note": "x", "machine": machine})
    priced = Run.objects.get()
    meant = patch(run, {"machine": {**machine, "is_confirmed": True}})

    assert (refused.status_code, refused.json()["field"]) == (422, "machine.instance_type")
    assert "Did you mean c5.large" in refused.json()["fix"]
    assert priced.cost_usd is not None
    assert priced.note == ""
    assert meant.json()["cost_usd"] is None


def test_a_job_is_renamed_and_its_tags_change_one_by_one(run):
    job = f"/jobs/{run.job.uuid}"
    call(run.workspace, "patch", job, {"tags": {"a": "1", "b": "2"}})
    answer = call(run.workspace, "patch", job, {"name": " Vision ", "tags": {"a": None}}).json()
    assert (answer["name"], answer["tags"], answer["run_count"]) == ("Vision", {"b": "2"}, 1)
    factories.job(run.workspace, "speech")
    answer = call(run.workspace, "patch", job, {"name": "speech", "owner": "x"})
    assert (answer.status_code, answer.json()["field"]) == (409, "name")
    assert "Another job is named speech" in answer.json()["detail"]
    assert Job.objects.get(uuid=run.job.uuid).owner == ""


def test_jobs_are_merged_and_parted_again(run):
    other = factories.job(run.workspace, "other")
    factories.run(other)
    old, new = (f"/jobs/{job.uuid}" for job in (run.job, other))
    answer = call(run.workspace, "patch", old, {"merged_into": str(other.uuid)}).json()
    assert (answer["id"], answer["run_count"]) == (str(other.uuid), 2)
    assert call(run.workspace, "patch", old, {"owner": "x"}).status_code == 404
    answer = call(run.workspace, "patch", old, {"merged_into": None, "owner": "x"}).json()
    assert (answer["id"], answer["run_count"], answer["owner"]) == (str(run.job.uuid), 1, "x")
    for into, status in ((other.uuid, 409), (run.pk, 422)):
        answer = call(run.workspace, "patch", new, {"owner": "y", "merged_into": str(into)})
        assert (answer.status_code, answer.json()["field"]) == (status, "merged_into")
    assert Job.objects.get(pk=other.pk).owner == ""


def test_jobs_of_another_workspace_are_neither_merged_into_nor_parted(run):
    elsewhere = Workspace.objects.create(name="Elsewhere")
    theirs = factories.job(elsewhere, "theirs")
    gone = factories.job(elsewhere, "gone", merged_into=theirs)
    wanted = {"merged_into": str(theirs.uuid)}
    answer = call(run.workspace, "patch", f"/jobs/{run.job.uuid}", wanted)
    assert (answer.status_code, answer.json()["field"]) == (422, "merged_into")
    answer = call(run.workspace, "patch", f"/jobs/{gone.uuid}", {"merged_into": None})
    assert answer.status_code == 404
    run.refresh_from_db()
    gone.refresh_from_db()
    assert (run.job.merged_into, gone.merged_into) == (None, theirs)


def test_what_is_deleted_is_gone_until_it_is_restored(run):
    other = factories.run(run.job)
    for path in (f"/runs/{run.pk}", f"/jobs/{run.job.uuid}"):
        for _ in range(2):
            assert call(run.workspace, "delete", path).status_code == 204
    assert call(run.workspace, "get", f"/runs/{run.pk}", scope="read").status_code == 404
    assert call(run.workspace, "get", "/jobs", scope="read").json()["jobs"] == []
    assert call(run.workspace, "patch", f"/jobs/{run.job.uuid}", {"owner": "x"}).status_code == 404
    answer = call(run.workspace, "post", f"/jobs/{run.job.uuid}/restore").json()
    assert (answer["run_count"], answer["last_run"]) == (1, str(other.pk))
    answer = call(run.workspace, "post", f"/runs/{run.pk}/restore").json()
    assert answer["id"] == str(run.pk)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("patch", "/runs/{run}"),
        ("delete", "/runs/{run}"),
        ("post", "/runs/{run}/restore"),
        ("patch", "/jobs/{job}"),
        ("delete", "/jobs/{job}"),
        ("post", "/jobs/{job}/restore"),
    ],
)
def test_what_is_another_workspaces_is_missing(run, method, path):
    other = Workspace.objects.create(name="Elsewhere")
    address = path.format(run=run.pk, job=run.job.uuid)
    assert call(other, method, address, {"owner": "eve"}).status_code == 404
    assert Run.objects.present().get().owner == "ada"
