"""Merging two jobs, and undoing it."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from django.urls import reverse
from django.utils import timezone
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from tests.html import read_page
from tests.web import factories
from tests.web.conftest import Person
from tests.web.training import Training
from webapp.accounts.models import AuditEntry, Membership
from webapp.analysis.successive import verdicts
from webapp.ingest import declarations
from webapp.runs.editing import deletion, merging
from webapp.runs.models import Job, MovedRun, Run


def a_job(owner: Person, name: str, *costs: float) -> Job:
    """Make a job with runs a minute apart, judged as they came in."""
    job = factories.job(owner.workspace, name)
    for cost in costs:
        began = timezone.now() - timedelta(minutes=1000 - job.runs_made)
        run = factories.run(job, cost=f"{cost:.4f}", started_at=began)
        run.summary = replace(run.summary)
        run.save()
        verdicts.judge_run(run)
    return job


def merge(person: Person, job: Job, into: str):  # type: ignore[no-untyped-def]
    address = reverse("runs:merge_job", args=[job.uuid])
    return person.client.post(address, {"into": into}, follow=True)


def undo(person: Person, page: str):  # type: ignore[no-untyped-def]
    match = re.search(r'action="([^"]+/unmerge/)"', page)
    assert match is not None
    return person.client.post(match[1], follow=True)


def numbers(job: Job) -> list[int]:
    return list(job.runs.order_by("number").values_list("number", flat=True))


def arrives(owner: Person, job: str) -> Run:
    training = Training(job)
    declarations.store_declaration(owner.workspace, training.declaration())
    return Run.objects.select_related("job").get(pk=training.run_id)


def test_the_runs_of_both_are_one_jobs_and_the_undo_parts_them_as_they_were(owner):
    old, new = a_job(owner, "train.py", 1, 2), a_job(owner, "vision/train.py", 4)
    page = read_page(merge(owner, old, "vision/train.py"))
    assert "train.py was merged into vision/train.py." in page
    assert "$7.00" in page
    assert (numbers(old), numbers(new)) == ([], [1, 2, 3])
    listed = owner.page("/jobs/")
    assert "vision/train.py" in listed
    assert ">train.py<" not in listed
    page = read_page(undo(owner, page))
    assert "train.py is a separate job again." in page
    assert (numbers(old), numbers(new)) == ([1, 2], [1])
    assert not MovedRun.objects.exists()
    changes = [(entry.action, entry.change) for entry in AuditEntry.objects.order_by("pk")]
    assert changes == [
        ("job.merged", {"merged_into": [None, "vision/train.py"], "runs": [2, 0]}),
        ("job.unmerged", {"merged_into": ["vision/train.py", None], "runs": [0, 2]}),
    ]


def test_the_address_of_a_merged_job_leads_to_where_its_runs_are(owner, stranger):
    old, new = a_job(owner, "old", 1), a_job(owner, "new")
    merge(owner, old, "new")
    answer = owner.client.get(reverse("dashboard:job", args=[old.uuid]))
    assert (answer.status_code, answer.url) == (302, reverse("dashboard:job", args=[new.uuid]))
    assert stranger.client.get(reverse("dashboard:job", args=[old.uuid])).status_code == 404


def test_what_comes_in_under_a_merged_name_goes_with_it_and_comes_back_with_it(owner):
    old, new = a_job(owner, "old", 1), a_job(owner, "new", 2)
    merge(owner, old, "new")
    late = arrives(owner, "old")
    assert late.job == new
    merging.unmerge(old, owner.user)
    late.refresh_from_db()
    assert (late.job, numbers(old), numbers(new)) == (old, [1, 2], [1])
    assert arrives(owner, "old").number == 3
    assert arrives(owner, "new").number == 4


def test_a_job_that_others_were_merged_into_takes_them_along(owner):
    first, second, third = a_job(owner, "a", 1), a_job(owner, "b", 2), a_job(owner, "c", 3)
    merging.merge(first, second, owner.user)
    merging.merge(second, third, owner.user)
    assert numbers(third) == [1, 2, 3]
    assert arrives(owner, "a").job == third
    merging.unmerge(first, owner.user)
    assert (len(numbers(first)), numbers(second), len(numbers(third))) == (2, [], 2)
    merging.unmerge(second, owner.user)
    assert (len(numbers(first)), numbers(second), numbers(third)) == (2, [1], [1])


MOVES = st.lists(
    st.tuples(st.sampled_from("mua"), st.integers(0, 2), st.integers(0, 2)), max_size=12
)


@given(MOVES)
@examples(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_merged_all_undone_leaves_each_run_with_the_job_it_came_for(owner, moves):
    workspace = factories.workspace(str(uuid4()))
    person = Person(owner.client, owner.user, workspace)
    jobs = [a_job(person, name, 1, 2) for name in "abc"]
    came_for = {run.pk: (run.job_id, run.number) for run in Run.objects.filter(job__in=jobs)}
    for what, one, other in moves:
        if what == "a":
            run = arrives(person, jobs[one].name)
            came_for[run.pk] = (jobs[one].pk, None)
        elif what == "u":
            merging.unmerge(jobs[one], owner.user)
        else:
            try:
                merging.merge(jobs[one], jobs[other], owner.user)
            except merging.MergeError:
                continue
    for job in jobs:
        merging.unmerge(job, owner.user)
    for run in Run.objects.filter(job__in=jobs):
        job, number = came_for[run.pk]
        assert run.job_id == job
        assert number in (None, run.number)
    assert not MovedRun.objects.filter(came_from__in=jobs).exists()


def test_merged_runs_are_judged_together_and_apart_again(owner):
    old, new = a_job(owner, "old", 1, 1.01, 0.99), a_job(owner, "new", 1)

    def baseline_runs() -> int:
        return int(new.runs.get(cost_usd=1).summary.verdict.baseline_runs)

    # Of the new job's run, the youngest of all.
    now = timezone.now()
    Run.objects.filter(job=new).update(started_at=now, ended_at=now + timedelta(seconds=600))
    assert baseline_runs() == 0
    merging.merge(old, new, owner.user)
    last = Run.objects.order_by("started_at").last()
    assert last.summary.verdict.baseline_runs == 3
    merging.unmerge(old, owner.user)
    assert baseline_runs() == 0


def test_advice_goes_with_the_runs_and_stays_where_both_have_it(owner):
    old, new = a_job(owner, "old", 1), a_job(owner, "new", 2)
    moves = factories.recommendation(old.runs.get(), dedupe_key="loader", title="Load in workers")
    stays = factories.recommendation(old.runs.get(), dedupe_key="resize", title="Shrink the old")
    factories.recommendation(new.runs.get(), dedupe_key="resize", title="Shrink the new")
    page = read_page(merge(owner, old, "new"))
    assert moves.title in page
    assert "Shrink the new" in page
    assert stays.title not in page
    page = read_page(undo(owner, page))
    assert moves.title in page
    assert stays.title in page
    assert moves.title not in owner.page(reverse("dashboard:job", args=[new.uuid]))


def test_deleted_runs_go_along_and_come_back_where_they_are_then(owner):
    old, new = a_job(owner, "old", 1, 2), a_job(owner, "new", 4)
    gone = old.runs.get(cost_usd=1)
    deletion.delete_run(gone, owner.user)
    merging.merge(old, new, owner.user)
    deletion.restore_run(gone, owner.user)
    assert new.present_runs.count() == 3
    merging.unmerge(old, owner.user)
    assert old.present_runs.count() == 2


@pytest.mark.parametrize(
    ("into", "told"),
    [("old", "be merged into itself"), ("", "required"),
     ("nothing", "There is no job named nothing"),
     ("gone", "There is no job named gone"), ("theirs", "There is no job named theirs")],
)  # fmt: skip
def test_what_cannot_be_merged_is_told(owner, stranger, into, told):
    old = a_job(owner, "old", 1)
    factories.job(owner.workspace, "other")
    factories.job(owner.workspace, "gone", deleted_at=timezone.now())
    factories.job(stranger.workspace, "theirs")
    assert told in read_page(merge(owner, old, into))
    assert Job.objects.get(pk=old.pk).merged_into is None


def test_merged_jobs_are_listed_and_parted_from_there(owner, stranger):
    old = a_job(owner, "old", 1)
    merge(owner, old, a_job(owner, "new", 2).name)
    page = owner.page(reverse("dashboard:deleted"))
    assert "Merged jobs" in page
    assert "old" not in stranger.page(reverse("dashboard:deleted"))
    undo(owner, page)
    assert Job.objects.get(pk=old.pk).merged_into is None
    assert "Merged jobs" not in owner.page(reverse("dashboard:deleted"))


def test_a_name_of_a_merged_job_is_taken(owner):
    old, new = a_job(owner, "old", 1), a_job(owner, "new", 2)
    merge(owner, old, "new")
    answer = owner.client.post(reverse("runs:edit_job", args=[new.uuid]), {"name": "old"})
    assert "old is the name of a job that was merged into new" in read_page(answer)


def test_members_merge_viewers_do_not_and_strangers_find_no_job(owner, stranger):
    old = a_job(owner, "old", 1)
    a_job(owner, "new", 2)
    assert merge(stranger, old, "new").status_code == 404
    Membership.objects.filter(user=owner.user).update(role="viewer")
    assert merge(owner, old, "new").status_code == 403
    Membership.objects.filter(user=owner.user).update(role="member")
    assert merge(owner, old, "new").status_code == 200
    address = reverse("runs:unmerge_job", args=[old.uuid])
    assert stranger.client.post(address).status_code == 404
