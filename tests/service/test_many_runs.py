"""A service has a row for every run that ever was. Judging one reads few of them.

What a statement reads is counted by PostgreSQL; its plans depend on what it guesses, and it guesses
otherwise about values that it doesn't know yet, which it has from the sixth time on.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.utils import timezone

from webapp.accounts.models import Workspace
from webapp.analysis import queue
from webapp.analysis.models import Analysis
from webapp.analysis.pricing import sharing
from webapp.background import fairness
from webapp.runs.models import Attempt, Job, Node, Run

pytestmark = pytest.mark.django_db
RUNS, MOST_READ, REPEATED = 3000, 40, 8
_READ = """
SELECT coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0) FROM pg_stat_xact_user_tables
WHERE relname IN ('runs_run', 'runs_attempt', 'runs_node', 'analysis_analysis')
"""


@pytest.fixture
def run(workspace: Workspace) -> Run:
    """Return a run that runs now, as all others of its workspace, which are analysed."""
    job = Job.objects.create(workspace=workspace, key="job", name="job")
    now = timezone.now()
    times = {"started_at": now - timedelta(hours=1), "ended_at": now}
    runs = [
        Run(pk=uuid4(), workspace=workspace, job=job, number=number, **times)
        for number in range(RUNS)
    ]
    Run.objects.bulk_create(runs)
    attempts = Attempt.objects.bulk_create(Attempt(run=each, number=0) for each in runs)
    Node.objects.bulk_create(Node(attempt=each, machine_id=uuid4().hex) for each in attempts)
    done = {"wanted": 1, "done": 1, "finished_at": now}
    Analysis.objects.bulk_create(Analysis(run=each, **done) for each in runs)
    Analysis.objects.filter(run__in=runs[:5]).update(wanted=2, due_at=now - timedelta(minutes=1))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return runs[0]


def _read(call: Callable[[], object]) -> int:
    """Return the rows that the last of some calls reads."""
    with connection.cursor() as cursor:
        for _ in range(REPEATED):
            cursor.execute(_READ)
            before = cursor.fetchone()[0]
            call()
            cursor.execute(_READ)
        return int(cursor.fetchone()[0] - before)


def _claim(run: Run) -> None:
    Analysis.objects.filter(run=run).update(leased_until=None)
    assert queue.claim(run.pk)


CALLS: dict[str, Callable[[Run], object]] = {
    "which rows come next": lambda _: fairness.in_turn(queue.KIND, 50, timezone.now()),
    "a claim": _claim,
    "the other runs on its machines": lambda run: sharing.neighbours(
        run, list(Node.objects.filter(attempt__run=run))
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_is_read_does_not_grow_with_the_runs_that_there_are(run, name):
    assert _read(lambda: CALLS[name](run)) < MOST_READ


def test_so_with_a_worker_that_holds_a_run_of_the_workspace(run):
    """The question then is whether other workspaces have something to do."""
    held = Analysis.objects.exclude(run=run).filter(wanted=2).first()
    Analysis.objects.filter(pk=held.pk).update(leased_until=timezone.now() + timedelta(minutes=1))
    assert _read(lambda: _claim(run)) < MOST_READ
