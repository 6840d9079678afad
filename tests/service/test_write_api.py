"""The write API: what scripts change, by a token with the scope for it."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.web import factories
from webapp.accounts.models import AuditEntry, Token, Workspace
from webapp.runs.models import Run


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
        ({"tags": {str(n): "" for n in range(101)}}, "tags"),
        ({"tags": {str(n): "" for n in range(99)}}, "tags"),
        ({"billed_usd": "-1"}, "billed_usd"),
        ({"billed_usd": "NaN"}, "billed_usd"),
        ({"billed_usd": "0.0000000001"}, "billed_usd"),
        ({"is_pinned": True, "is_excluded": True}, "change"),
    ],
)
def test_what_cannot_be_is_refused_with_its_field_and_changes_nothing(run, body, field):
    answer = patch(run, body)
    assert answer.status_code == 422
    assert field in answer.json()["field"]
    assert not AuditEntry.objects.exists()


def test_another_workspaces_run_is_missing(run):
    other = Workspace.objects.create(name="Elsewhere")
    answer = call(other, "patch", f"/runs/{run.pk}", {"owner": "eve"})
    assert answer.status_code == 404
    assert Run.objects.get().owner == "ada"
