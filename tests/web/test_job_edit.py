"""The edit page of a job."""

from __future__ import annotations

import pytest
from django.urls import reverse
from django.utils import timezone

from tests.html import read_page
from tests.web import factories
from tests.web.conftest import Person
from webapp.accounts.models import AuditEntry, Membership
from webapp.runs.models import Job


@pytest.fixture
def job(owner) -> Job:
    job = factories.job(owner.workspace, "vision/train.py")
    factories.run(job)
    return job


def edit(person: Person, job: Job, **changes: str):  # type: ignore[no-untyped-def]
    known = {"name": job.name, "owner": job.owner, "tags": "", "metrics": ""}
    return person.client.post(reverse("runs:edit_job", args=[job.uuid]), known | changes)


def page(person: Person, job: Job) -> str:
    return person.page(reverse("dashboard:job", args=[job.uuid]))


def test_a_name_an_owner_and_tags_are_set_and_written_down(owner, job):
    edit(owner, job, name="Vision, nightly", owner="grace", tags="team=vision")
    shown = page(owner, job)
    assert "<h1>Vision, nightly</h1>" in shown
    assert "grace" in shown
    assert "team: vision" in shown
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor) == ("job.edited", owner.user)
    assert entry.change["name"] == ["vision/train.py", "Vision, nightly"]
    assert "Agents send runs as “vision/train.py”" in owner.page(
        reverse("runs:edit_job", args=[job.uuid])
    )


def test_the_settings_of_metrics_are_kept_shown_again_and_written_down(owner, job):
    lines = "gamma: ignore\nval/auroc: higher, 2 %"
    edit(owner, job, metrics="val/auroc: higher, 2 %\r\ngamma: ignore")
    form = owner.page(reverse("runs:edit_job", args=[job.uuid]))
    assert f">\n{lines}</textarea>" in form
    assert AuditEntry.objects.get().change == {"metrics": ["", lines]}
    edit(owner, job)
    assert Job.objects.get(pk=job.pk).metrics == {}


def test_a_line_about_a_metric_that_is_not_clear_is_refused_with_an_example(owner, job):
    answer = edit(owner, job, metrics="gamma: <b>up</b>")
    assert "“gamma: &lt;b&gt;up&lt;/b&gt;” isn’t clear".replace("’", "&#x27;") in (
        read_page(answer)
    )
    assert "val/auroc: higher, 2 %" in read_page(answer)
    assert Job.objects.get(pk=job.pk).metrics == {}


def test_owner_and_tags_of_a_job_are_those_of_its_runs_that_name_none(owner, job):
    named = factories.run(job, owner="ada", tags={"team": "speech", "sweep": "3"})
    edit(owner, job, owner="grace", tags="team=vision")
    of_none, of_ada = (
        owner.page(reverse("dashboard:run", args=[run.pk]))
        for run in (job.runs.get(number=1), named)
    )
    assert "grace" in of_none
    assert "team: vision" in of_none
    assert "grace" not in of_ada
    assert "team: speech" in of_ada
    assert "sweep: 3" in of_ada


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({}, "Another job is named speech"),
        (
            {"name": "Speech", "key": "speech"},
            "Agents send the runs of Speech under the name speech",
        ),
        ({"deleted_at": timezone.now()}, "the name of a deleted job"),
    ],
)
def test_a_name_that_another_job_has_or_had_first_is_refused(owner, job, other, told):
    factories.job(owner.workspace, **{"name": "speech"} | other)
    answer = edit(owner, job, name="speech")
    assert answer.status_code == 200
    assert told in read_page(answer)
    assert Job.objects.get(pk=job.pk).name == "vision/train.py"
    assert not AuditEntry.objects.exists()


def test_a_job_may_have_its_first_name_again_and_another_workspaces(owner, stranger, job):
    factories.job(stranger.workspace, "speech")
    assert edit(owner, job, name="speech").status_code == 302
    assert edit(owner, job, name="vision/train.py").status_code == 302
    assert Job.objects.get(pk=job.pk).name == "vision/train.py"


def test_viewers_see_no_way_to_edit_and_another_workspace_sees_no_job(owner, stranger, job):
    assert edit(stranger, job, name="mine").status_code == 404
    Membership.objects.filter(user=owner.user).update(role="viewer")
    assert "Edit" not in page(owner, job)
    assert edit(owner, job, name="mine").status_code == 403
