"""People edit while agents upload and workers analyse, without deadlocks or losses."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connection

from tests.web import factories, training
from webapp.accounts.models import Token, Workspace
from webapp.analysis import tasks
from webapp.ingest import declarations
from webapp.runs.editing import deletion, jobs, merging, runs
from webapp.runs.models import Job, Run

pytestmark = pytest.mark.django_db(transaction=True)
ROUNDS = 10


def at_once(*works: Callable[[int], object]) -> None:
    """Do each in a thread and with a connection of its own, `ROUNDS` times; errors come through."""

    def repeated(work: Callable[[int], object]) -> None:
        try:
            for turn in range(ROUNDS):
                work(turn)
        finally:
            connection.close()

    with ThreadPoolExecutor(len(works)) as pool:
        for done in [pool.submit(repeated, work) for work in works]:
            done.result()


def arrives(workspace: Workspace, job: str) -> Run:
    declaration = training.Training(job).declaration()
    declarations.store_declaration(workspace, declaration)
    return Run.objects.get(pk=declaration.run_id)


def test_runs_that_arrive_while_their_job_is_merged_and_parted_stay_with_it(workspace):
    old, new = (arrives(workspace, name).job for name in ("old", "new"))
    actor = Token.make(workspace, "script", ["write"])[0]

    def merge_and_part(_: int) -> None:
        merging.merge(old, new, actor)
        merging.unmerge(old, actor)

    at_once(
        merge_and_part,
        lambda _: arrives(workspace, "old"),
        lambda _: arrives(workspace, "old"),
        lambda _: arrives(workspace, "new"),
    )
    assert (old.runs.count(), new.runs.count()) == (2 * ROUNDS + 1, ROUNDS + 1)
    for job in Job.objects.all():
        numbers = [run.number for run in job.runs.all()]
        assert len(set(numbers)) == len(numbers)
        assert max(numbers) <= job.runs_made


def test_a_name_that_a_job_is_given_while_its_first_run_arrives_is_one_jobs(workspace):
    job = arrives(workspace, "old").job
    actor = Token.make(workspace, "script", ["write"])[0]
    together = Barrier(2)
    refused = []

    def rename(turn: int) -> None:
        together.wait(30)
        try:
            jobs.edit(job, actor, {"name": f"new-{turn}"})
        except jobs.NameTakenError as error:
            refused.append(str(error))

    def arrive(turn: int) -> None:
        together.wait(30)
        arrives(workspace, f"new-{turn}")

    at_once(rename, arrive)
    assert Run.objects.count() == ROUNDS + 1
    assert Job.objects.count() == 1 + len(refused)
    assert all(message.startswith("Another job is named new-") for message in refused)


def test_edits_of_successive_runs_that_are_uploaded_and_analysed_meanwhile(workspace):
    first = training.uploaded_run(workspace)
    second = training.uploaded_run(workspace)
    for run in (first, second):
        tasks.evaluate(str(run.pk))
    factories.run(first.job)
    actor = Token.make(workspace, "script", ["write"])[0]

    def declared_again(run: Run) -> Callable[[int], object]:
        declaration = training.Training("vision/train.py", run_id=run.pk).declaration()
        return lambda _: declarations.store_declaration(workspace, declaration)

    def delete_and_restore(_: int) -> None:
        deletion.delete_run(second, actor)
        deletion.restore_run(second, actor)

    at_once(
        declared_again(first),
        declared_again(second),
        lambda _: tasks.evaluate(str(first.pk)),
        lambda _: tasks.evaluate(str(second.pk)),
        lambda turn: runs.edit(first, actor, {"is_excluded": turn % 2 == 0}),
        delete_and_restore,
    )
    assert Run.objects.present().count() == 3
