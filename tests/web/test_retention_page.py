"""The page with the retention settings and the next deletions."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from tests.html import read_page
from tests.web import factories
from webapp.accounts.models import AuditEntry, Membership
from webapp.retention.models import RetentionReport

PAGE = "/settings/retention/"


def test_an_owner_changes_it_and_it_is_written_down(owner):
    answer = owner.client.post(PAGE, {"keep_raw_days": 7, "keep_tiers_days": 90}, follow=True)
    assert "Saved" in read_page(answer)
    owner.workspace.refresh_from_db()
    kept = owner.workspace
    assert (kept.keep_raw_days, kept.keep_tiers_days, kept.keep_runs_days) == (7, 90, None)
    entry = AuditEntry.objects.get(workspace=kept)
    assert (entry.action, entry.actor) == ("retention.changed", owner.user)
    assert entry.change == {"keep_raw_days": [30, 7], "keep_tiers_days": [365, 90]}


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"keep_raw_days": 0}, "greater than or equal to 1"),
        ({"keep_raw_days": "soon"}, "whole number"),
        ({"keep_raw_days": 40_000}, "less than or equal to 36500"),
        ({"keep_raw_days": 90, "keep_tiers_days": 30}, "can&#x27;t be shorter"),
        ({"keep_raw_days": "", "keep_tiers_days": 30}, "can&#x27;t be shorter"),
        (
            {"keep_raw_days": 1, "keep_tiers_days": 30, "keep_runs_days": 29},
            "can&#x27;t be shorter",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(owner, form, told):
    answer = owner.client.post(PAGE, form)
    assert told in read_page(answer)
    owner.workspace.refresh_from_db()
    assert owner.workspace.keep_raw_days == 30


def test_it_says_what_goes_next(owner):
    run = factories.run(factories.job(owner.workspace))
    assert "Nothing to delete" in owner.page(PAGE)
    run.deleted_at = timezone.now() - timedelta(days=31)
    run.save()
    page = owner.page(PAGE)
    assert "Next deletion" in page
    assert '<td>Runs</td><td class="number">1</td>' in page


def test_it_says_what_went(owner, stranger):
    RetentionReport.objects.create(
        workspace=owner.workspace, counts={"raw": 12}, size_bytes=3 * 1024**2
    )
    assert "12 single samples" in owner.page(PAGE)
    assert "12 single samples" not in stranger.page(PAGE)


def test_a_member_reads_it_and_can_not_change_it(owner):
    Membership.objects.update(role=Membership.MEMBER)
    page = owner.page(PAGE)
    assert "Only owners can change these settings" in page
    assert ">Save<" not in page
    assert owner.client.post(reverse("retention:retention"), {}).status_code == 403


@pytest.mark.parametrize(
    ("field", "told"),
    [("raw_deleted_at", "The charts show 10 s means"), ("samples_deleted_at", "are kept")],
)
def test_a_run_says_that_its_samples_are_gone(owner, field, told):
    run = factories.run(factories.job(owner.workspace))
    factories.node(run)
    address = reverse("dashboard:run", args=[run.pk])
    assert "samples-deleted" not in owner.page(address)
    setattr(run, field, timezone.now())
    run.save()
    assert told in owner.page(address)
