"""Deleting and restoring jobs and runs."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal

import pytest
from django.urls import reverse
from django.utils import timezone

from tests.html import read_page
from tests.web import factories, training
from tests.web.conftest import Person
from webapp.accounts.models import AuditEntry, Membership
from webapp.analysis import tasks
from webapp.ingest import declarations
from webapp.retention import deletion
from webapp.runs.editing import merging
from webapp.runs.models import UNDO_DAYS, Job, Run

DELETED = reverse("dashboard:deleted")


@pytest.fixture
def job(owner) -> Job:
    job = factories.job(owner.workspace, "vision/train.py")
    for cost in ("1", "2", "4"):
        factories.run(job, cost=cost)
    return job


def post(person: Person, name: str, row: Job | Run, **form: str):  # type: ignore[no-untyped-def]
    key = row.uuid if isinstance(row, Job) else row.pk
    return person.client.post(reverse(f"runs:{name}", args=[key]), form, follow=True)


def undo(person: Person, page: str):  # type: ignore[no-untyped-def]
    """Press the button of the message."""
    match = re.search(r'action="([^"]+/restore/)">(.*?)</form>', page, re.DOTALL)
    assert match is not None
    form = dict(re.findall(r'name="(deleted_at)" value="([^"]*)"', match[2]))
    return person.client.post(match[1], form, follow=True)


def spend(person: Person) -> list[str]:
    return re.findall(r"\$\d+\.\d\d", person.page("/jobs/"))


def test_a_deleted_run_is_in_no_list_or_sum_until_its_deletion_is_undone(owner, job):
    run = job.runs.get(cost_usd=2)
    page = read_page(post(owner, "delete_run", run))
    assert f"{run} was deleted." in page
    assert "$5.00" in page
    assert "$7.00" not in page
    assert owner.client.get(reverse("dashboard:run", args=[run.pk])).status_code == 404
    back = undo(owner, page)
    assert back.redirect_chain[-1][0] == reverse("dashboard:run", args=[run.pk])
    assert f"{run} was restored." in read_page(back)
    assert "$7.00" in owner.page("/jobs/")
    assert [entry.action for entry in AuditEntry.objects.order_by("pk")] == [
        "run.deleted",
        "run.restored",
    ]


def test_a_deleted_job_goes_with_its_runs_and_comes_back_with_those_alone(owner, job):
    before, other = job.runs.get(cost_usd=1), factories.run(factories.job(owner.workspace, "other"))
    post(owner, "delete_run", before)
    page = read_page(post(owner, "delete_job", job))
    assert "vision/train.py and its runs were deleted." in page
    assert "$6.00" not in page
    assert owner.client.get(reverse("dashboard:job", args=[job.uuid])).status_code == 404
    assert str(other.job) in page
    page = read_page(undo(owner, page))
    assert "was restored with 2 runs" in page
    assert "$6.00" in page
    assert Run.objects.present().filter(job=job).count() == 2


def test_deleting_and_restoring_once_more_changes_nothing(owner, job):
    run = job.runs.first()
    for _ in range(2):
        post(owner, "delete_run", run)
    for _ in range(2):
        post(owner, "restore_run", run)
    for _ in range(2):
        page = read_page(post(owner, "delete_job", job))
    for _ in range(2):
        undo(owner, page)
    assert Run.objects.present().count() == 3
    actions = list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))
    assert actions == ["run.deleted", "run.restored", "job.deleted", "job.restored"]


def test_what_is_deleted_is_listed_and_comes_back_from_there(owner, stranger, job):
    assert "Nothing to restore. Deleted jobs" in owner.page(DELETED)
    run = job.runs.get(cost_usd=4)
    post(owner, "delete_run", run)
    post(owner, "delete_job", factories.job(owner.workspace, "no runs"))
    post(owner, "delete_job", job)
    page = owner.page(DELETED)
    assert page.count("Restore</button>") == 3
    assert "job with 2 runs" in page
    assert f"vision/train.py #{run.number}" in page
    assert "no runs" in page
    assert "vision" not in stranger.page(DELETED)
    post(owner, "restore_run", run)
    assert list(Run.objects.present()) == [run]
    assert "vision/train.py" in owner.page("/jobs/")
    page = owner.page(DELETED)
    assert "2 runs</span>" in page
    undo(owner, page)
    assert Run.objects.present().count() == 3


def test_a_new_run_of_a_deleted_job_brings_it_back_and_the_undo_its_old_runs(owner, job):
    page = read_page(post(owner, "delete_job", job))
    again = factories.job(owner.workspace, "unrelated")
    declarations.store_declaration(
        owner.workspace, training.Training("vision/train.py").declaration()
    )
    assert Job.objects.get(pk=job.pk).present_runs.count() == 1
    undo(owner, page)
    assert Job.objects.get(pk=job.pk).present_runs.count() == 4
    assert again.present_runs.count() == 0


def test_advice_of_a_deleted_run_is_renewed_from_the_newest_that_is_left(owner):
    older, newer = (training.uploaded_run(owner.workspace, minutes=1) for _ in range(2))
    for run in (older, newer):
        tasks.evaluate(str(run.pk))
    assert {advised.run_id for advised in older.job.recommendations.all()} == {newer.pk}
    post(owner, "delete_run", newer)
    tasks.evaluate(str(older.pk))
    assert {advised.run_id for advised in older.job.recommendations.all()} == {older.pk}
    assert "Recommendations" in owner.page(reverse("dashboard:job", args=[older.job.uuid]))


def test_of_two_runs_on_one_machine_the_one_that_is_left_pays_all_of_it(owner):
    once, again = training.uploaded_at_once(owner.workspace, "a", "b")

    def costs() -> list[Decimal]:
        for run in (once, again):
            tasks.evaluate(str(run.pk))
        return [Run.objects.get(pk=run.pk).cost_usd or Decimal(0) for run in (once, again)]

    shared = costs()
    post(owner, "delete_job", again.job)
    assert costs()[0] == pytest.approx(2 * shared[0], rel=Decimal("1e-6"))
    post(
        owner, "restore_job", again.job, deleted_at=Job.objects.get(name="b").deleted_at.isoformat()
    )
    assert costs() == shared
    post(owner, "delete_run", once)
    assert costs()[1] == pytest.approx(2 * shared[1], rel=Decimal("1e-6"))


def test_what_nobody_brings_back_goes_for_good_as_the_dry_run_says(owner, job):
    kept, gone = job, factories.job(owner.workspace, "gone")
    runs = [factories.run(gone) for _ in range(2)]
    merging.merge(factories.job(owner.workspace, "alias"), gone, owner.user)
    single, restored = kept.runs.order_by("number")[:2]
    for run in (single, restored):
        post(owner, "delete_run", run)
    post(owner, "restore_run", restored)
    post(owner, "delete_job", gone)
    later = timezone.now() + timedelta(days=UNDO_DAYS)
    assert deletion.delete_all_expired(later - timedelta(days=1)) == []
    planned = deletion.plan_deletions(later)
    assert {item.name for item in planned} == {str(run) for run in (single, *runs)} | {"gone"}
    assert deletion.delete_all_expired(later) == planned
    assert [str(row) for row in Job.objects.all()] == [str(kept)]
    assert Run.objects.count() == 2
    assert "Nothing to restore. Deleted jobs" in owner.page(DELETED)


@pytest.mark.parametrize("moment", ["", "soon", "2026-01-01", "2026-13-01T00:00:00Z"])
def test_nothing_comes_back_of_a_moment_that_is_none(owner, job, moment):
    post(owner, "delete_job", job)
    assert post(owner, "restore_job", job, deleted_at=moment).status_code == 404
    assert not Run.objects.present().exists()


def test_members_delete_and_restore_viewers_do_not_and_strangers_find_nothing(owner, stranger, job):
    run = job.runs.first()
    for name, row in (("delete_run", run), ("delete_job", job), ("restore_run", run)):
        assert post(stranger, name, row).status_code == 404
    Membership.objects.filter(user=owner.user).update(role="viewer")
    assert post(owner, "delete_run", run).status_code == 403
    assert "Delete" not in owner.page(reverse("dashboard:run", args=[run.pk]))
    Membership.objects.filter(user=owner.user).update(role="member")
    assert post(owner, "delete_run", run).status_code == 200
    Membership.objects.filter(user=owner.user).update(role="viewer")
    page = owner.page(DELETED)
    assert f"#{run.number}" in page
    assert "Restore</button>" not in page
