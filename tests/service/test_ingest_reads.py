"""A token of the scope `ingest` reads the runs that it uploaded to."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module

import pytest
from django.apps import apps
from django.db import transaction
from django.test import Client
from django.utils import timezone

from tests.service.uploads import FakeAgent
from webapp.accounts.models import Token
from webapp.ingest import uploaders
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _forget():
    uploaders._known.clear()


def _token(workspace, *scopes: str) -> str:  # type: ignore[no-untyped-def]
    return Token.make(workspace, "a token", list(scopes or ("ingest",)))[1]


def _reads(plain: str, run: Run) -> set[int]:
    """Return the answers about a run, asked for by id and by number."""
    client, headers = Client(), {"Authorization": f"Bearer {plain}"}
    name = f"{run.job.name}%23{run.number}"
    paths = (f"runs/{run.pk}", f"cost?run={run.pk}", f"cost?run={name}")
    return {client.get(f"/api/v1/{path}", headers=headers).status_code for path in paths}


def _uploaded(plain: str) -> Run:
    agent = FakeAgent(Client(), plain)
    assert agent.put(agent.segment(0)).status_code == 200
    return Run.objects.get(pk=agent.run_id)


def test_it_reads_what_it_uploaded_and_nothing_else(workspace):
    own, other = _token(workspace), _token(workspace)
    run = _uploaded(own)
    assert _reads(own, run) == {200}
    assert _reads(other, run) == {404}
    assert _reads(_token(workspace, "ingest", "write"), run) == {404}
    assert _reads(_token(workspace, "read"), run) == {200}
    assert _reads(_token(workspace, "ingest", "read"), run) == {200}


def test_it_compares_its_own_runs_and_no_others(workspace):
    own = _token(workspace)
    a, b, foreign = _uploaded(own), _uploaded(own), _uploaded(_token(workspace))

    def status(plain: str, other: Run) -> int:
        headers = {"Authorization": f"Bearer {plain}"}
        return Client().get(f"/api/v1/compare?a={a.pk}&b={other.pk}", headers=headers).status_code

    assert status(own, b) == 200
    assert status(own, foreign) == 404
    assert status(_token(workspace), b) == 404
    assert status(_token(workspace, "read"), foreign) == 200


def test_the_refusal_says_which_token_to_use(workspace):
    run = _uploaded(_token(workspace))
    headers = {"Authorization": f"Bearer {_token(workspace)}"}
    answer = Client().get(f"/api/v1/cost?run={run.pk}", headers=headers).json()
    assert "scope read" in answer["fix"]


def test_a_declaration_or_a_file_is_an_upload_too(workspace):
    first, second = _token(workspace), _token(workspace)
    agent = FakeAgent(Client(), first)
    assert agent.declare().status_code == 200
    run = Run.objects.get(pk=agent.run_id)
    assert _reads(first, run) == {200}
    agent.token = second
    assert agent.put(agent.segment(0)).status_code == 200
    assert _reads(first, run) == _reads(second, run) == {200}


def test_a_run_of_unknown_uploaders_is_read_again_after_the_next_upload(workspace):
    """An agent that runs through the upgrade."""
    plain, _ = _token(workspace), _token(workspace)
    agent = FakeAgent(Client(), plain)
    agent.put(agent.segment(0))
    run = Run.objects.get(pk=agent.run_id)
    run.uploaders.clear()
    uploaders._known.clear()
    assert _reads(plain, run) == {404}
    agent.put(agent.segment(1))
    assert _reads(plain, run) == {200}


def test_a_steady_upload_costs_no_query_for_it(
    workspace, django_assert_num_queries, django_capture_on_commit_callbacks
):
    token, _ = Token.make(workspace, "steady", ["ingest"])
    plain = _token(workspace)
    run = _uploaded(plain)
    with django_capture_on_commit_callbacks(execute=True):
        uploaders.remember_uploader(token, run.pk)
    with django_assert_num_queries(0):
        uploaders.remember_uploader(token, run.pk)


def test_what_an_upload_that_was_rolled_back_wrote_is_written_with_the_next_one(
    workspace, django_capture_on_commit_callbacks
):
    plain = _token(workspace)
    run = _uploaded(plain)
    token, late = Token.make(workspace, "late", ["ingest"])
    committed = django_capture_on_commit_callbacks(execute=True)
    with suppress(ZeroDivisionError), committed, transaction.atomic():
        uploaders.remember_uploader(token, run.pk)
        raise ZeroDivisionError
    assert _reads(late, run) == {404}
    with django_capture_on_commit_callbacks(execute=True):
        uploaders.remember_uploader(token, run.pk)
    assert _reads(late, run) == {200}


def test_the_upgrade_knows_the_uploader_where_only_one_token_can_be_it(workspace):
    moving = import_module("webapp.runs.migrations.0013_uploaders_of_earlier_runs")
    plain = _token(workspace)
    run = _uploaded(plain)
    for others, expected in ((0, {200}), (1, {404})):
        run.uploaders.clear()
        for _ in range(others):
            Token.make(workspace, "revoked", ["ingest"], revoked_at=timezone.now())
        moving.record_only_tokens(apps, None)
        assert _reads(plain, run) == expected
