"""The jobs, runs and files in each scope: the present ones of its own workspace."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.http import Http404
from django.utils import timezone

from tests.web import factories
from webapp.accounts.models import Workspace
from webapp.runs import scope
from webapp.runs.models import Job, Run

pytestmark = pytest.mark.django_db


def full(name: str) -> Workspace:
    """Return a workspace with a present, a deleted and a merged job, and a present and a deleted
    run.
    """
    of = factories.workspace(name)
    job = factories.job(of, "train", key="train.py")
    now = timezone.now()
    factories.job(of, "gone", deleted_at=now)
    for old in ("zeta", "alpha"):
        factories.job(of, old, merged_into=job)
    factories.run(job)
    factories.run(job, deleted_at=now)
    return of


@pytest.fixture
def ours() -> Workspace:
    full("Theirs, before")
    made = full("Ours")
    full("Theirs, after")
    return made


def names(jobs) -> list[str]:  # type: ignore[no-untyped-def]
    return sorted(job.name for job in jobs if job.workspace.name == "Ours")


def numbers(runs) -> list[int]:  # type: ignore[no-untyped-def]
    return sorted(run.number for run in runs if run.workspace.name == "Ours")


def test_present_jobs_and_runs_are_seen(ours):
    assert (names(scope.jobs_of(ours)), scope.jobs_of(ours).count()) == (["train"], 1)
    assert (numbers(scope.runs_of(ours)), scope.runs_of(ours).count()) == ([1], 1)


def test_without_a_workspace_nothing_is_seen(ours):
    assert list(scope.jobs_of(None)) == list(scope.runs_of(None)) == []


def test_what_may_be_undone_is_found_among_all_jobs_and_runs_of_the_workspace(ours):
    jobs, runs = scope.every_job_of(ours), scope.every_run_of(ours)
    assert (names(jobs), jobs.count()) == (["alpha", "gone", "train", "zeta"], 4)
    assert (numbers(runs), runs.count()) == ([1, 2], 2)


def test_merged_jobs_come_by_name_with_the_jobs_that_they_went_into(
    ours, django_assert_num_queries
):
    with django_assert_num_queries(1):
        merged = [(job.name, str(job.merged_into)) for job in scope.merged_jobs_of(ours)]
    assert merged == [("alpha", "train"), ("zeta", "train")]


@pytest.mark.parametrize("runs", [scope.runs_of, scope.every_run_of])
def test_runs_come_with_their_jobs(ours, runs, django_assert_num_queries):
    with django_assert_num_queries(1):
        assert {run.job.name for run in runs(ours)} == {"train"}


def test_jobs_come_as_they_were_first_seen_with_their_present_runs(ours):
    job = Job.objects.get(workspace=ours, name="train")
    older = factories.run(job, started_at=timezone.now() - timedelta(days=1))
    factories.job(ours, "another")
    [first, second] = scope.in_order_of_appearance(scope.jobs_of(ours))
    newest = Run.objects.get(job=job, number=1)
    assert (first.name, first.run_count, first.last_run) == ("train", 2, newest.pk)
    assert (second.name, second.run_count, second.last_run) == ("another", 0, None)
    newest.delete()
    [first, _] = scope.in_order_of_appearance(scope.jobs_of(ours))
    assert (first.run_count, first.last_run) == (1, older.pk)


def test_a_run_is_found_by_its_id_as_text_too(ours):
    run = scope.runs_of(ours).get()
    assert scope.run_or_404(ours, run.pk) == scope.run_or_404(ours, str(run.pk)) == run
    assert scope.run_called(ours, str(run.pk)) == run


@pytest.mark.parametrize("reference", ["train#1", "train.py#1", "train#0001"])
def test_a_run_is_found_by_its_jobs_name_or_key_and_its_number(ours, reference):
    assert scope.run_called(ours, reference) == scope.runs_of(ours).get()


def test_a_name_may_hold_the_sign_before_the_number(ours):
    run = factories.run(factories.job(ours, "a#b"))
    assert scope.run_called(ours, "a#b#1") == run


@pytest.mark.parametrize(
    "reference",
    [
        *("train#2", "train#3", "#1", "train", "train#", "train#one", "train#-1", "other#1", "1"),
        *("²#²", "train#1111111111", "train#" + "9" * 400),
    ],
)
def test_what_is_no_present_run_of_the_workspace_is_missing(ours, reference):
    with pytest.raises(Http404, match=r"^There is no such run in this workspace\.$"):
        scope.run_called(ours, reference)


def test_other_workspaces_runs_are_missing(ours):
    for theirs in Run.objects.exclude(workspace=ours):
        for reference in (theirs.pk, str(theirs.pk), uuid4(), "no id"):
            with pytest.raises(Http404, match=r"^There is no such run in this workspace\.$"):
                scope.run_or_404(ours, reference)
        with pytest.raises(Http404):
            scope.run_called(None, "train#1")


def test_files_are_those_of_the_run(ours):
    run = scope.runs_of(ours).get()
    own = factories.artefact(run)
    factories.artefact(Run.objects.exclude(workspace=ours).first(), "theirs", b"theirs")
    assert list(scope.artefacts_of(run)) == [own]
