"""Budgets: their state, who changes them, and that an alert is recorded once."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.core import mail as django_mail
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.html import read_page
from tests.web import factories
from tests.web.test_spend import held
from webapp.accounts.models import AuditEntry, Membership, Token, Workspace
from webapp.notify.delivery import send
from webapp.notify.models import Mail
from webapp.notify.tasks import sweep
from webapp.runs.models import Job, Run
from webapp.spend.budget_alerts import record_alerts
from webapp.spend.budget_status import BudgetLine, standings
from webapp.spend.models import Budget, BudgetAlert
from webapp.spend.scope import budgets_of

NOON = datetime(2026, 10, 11, tzinfo=UTC)
"""A third of October has passed."""


@pytest.fixture
def job(owner) -> Job:
    return factories.job(owner.workspace, tags={"team": "vision"})


def budget(of: Workspace, usd: str = "100", **more: Any) -> Budget:
    return Budget.objects.create(workspace=of, amount_usd=Decimal(usd), **more)


def line(of: Workspace, now: datetime = NOON) -> BudgetLine:
    [budget_line] = standings(of, budgets_of(of), now)
    return budget_line


def spent(job: Job, hours: float, when: datetime = datetime(2026, 10, 3, tzinfo=UTC)) -> None:
    """Spend at a dollar an hour."""
    held(job, when, hours * 3600)


@pytest.mark.parametrize(
    ("hours", "usd", "state"),
    [(10, "100", "ok"), (10, "20", "forecast_over"), (10, "12.51", "forecast_over"),
     (10, "12.5", "over_threshold"), (10, "12", "over_threshold"),
     (10, "10", "over_threshold"), (10, "9.99", "over"), (0.001, "100", "ok")],
)  # fmt: skip
def test_its_state_is_the_worst_that_holds(owner, job, hours, usd, state):
    budget(owner.workspace, usd)
    spent(job, hours)
    assert line(owner.workspace).state == state


def test_a_job_that_runs_each_day_is_forecast_to_go_on(owner, job):
    budget(owner.workspace)
    for day in range(1, 40):
        spent(job, 1, datetime(2026, 9, 1, tzinfo=UTC) + timedelta(days=day))
    standing = line(owner.workspace).standing
    assert standing.spent_usd == 10
    assert standing.forecast_usd == pytest.approx(Decimal(31), abs=Decimal("0.6"))
    assert standing.low_usd < standing.forecast_usd < standing.high_usd


def test_a_jobs_first_run_counts_and_not_the_workspaces(owner, job):
    """A job that is a week old, in a workspace of three months."""
    old = factories.job(owner.workspace, "old.py")
    for day in range(90):
        spent(old, 1, datetime(2026, 7, 13, tzinfo=UTC) + timedelta(days=day))
    for day in range(4, 11):
        spent(job, 1, datetime(2026, 10, day, tzinfo=UTC))
    budget(owner.workspace, job=job)
    standing = line(owner.workspace).standing
    assert standing.forecast_usd == pytest.approx(7 + Decimal(21), abs=Decimal("1.5"))


def test_one_dear_first_day_is_not_every_day(owner, job):
    budget(owner.workspace, "15")
    spent(job, 10, datetime(2026, 10, 9, tzinfo=UTC))
    first = line(owner.workspace)
    assert (first.state, first.standing.forecast_usd) == ("ok", None)
    spent(job, 1, datetime(2026, 10, 10, tzinfo=UTC))
    second = line(owner.workspace)
    assert second.state == "forecast_over"
    assert 11 < second.standing.forecast_usd <= 11 + 11 * 5
    assert second.standing.high_usd >= 11 + 11 / 2 * 21


def test_without_any_spend_there_is_no_forecast(owner):
    budget(owner.workspace)
    assert line(owner.workspace).standing.low_usd is None
    assert "no forecast yet" in owner.page(reverse("spend:budgets"))


def test_it_counts_the_runs_of_its_job_or_tag_only(owner, job):
    other = factories.job(owner.workspace, "other.py")
    spent(job, 1)
    spent(other, 2)
    held(other, datetime(2026, 10, 4, tzinfo=UTC), 4 * 3600, tags={"team": "vision"})
    budget(owner.workspace, job=job)
    budget(owner.workspace, job=other)
    budget(owner.workspace, tag_key="team", tag_value="vision")
    budget(owner.workspace)
    usd = {
        str(each.budget): each.standing.spent_usd
        for each in standings(owner.workspace, budgets_of(owner.workspace), NOON)
    }
    assert usd == {
        "vision/train.py": 1,
        "other.py": 6,
        "team: vision": 5,
        "Whole workspace": 7,
    }


def test_runs_without_a_price_are_reported_beside_it(owner, job):
    budget(owner.workspace)
    factories.run(job, cost=None, started_at=NOON - timedelta(days=1))
    assert line(owner.workspace).unpriced_count == 1


def test_a_budget_is_made_changed_deleted_and_brought_back(owner, job):
    form = {"kind": "job", "job": str(job.uuid), "amount_usd": "250.50", "threshold_pct": "75"}
    owner.client.post(reverse("spend:new_budget"), form)
    made = Budget.objects.get()
    assert (made.job, made.amount_usd, made.threshold_pct) == (job, Decimal("250.5"), 75)
    figures = {"amount_usd": "300", "threshold_pct": "75"}
    owner.client.post(reverse("spend:edit_budget", args=[made.uuid]), figures)
    assert "$300.00" in owner.page(reverse("spend:budgets"))
    gone = owner.client.post(reverse("spend:delete_budget", args=[made.uuid]), follow=True)
    assert "is deleted" in read_page(gone)
    assert "$300.00" not in owner.page(reverse("spend:budgets"))
    owner.client.post(reverse("spend:restore_budget", args=[made.uuid]))
    assert "$300.00" in owner.page(reverse("spend:budgets"))
    entries = AuditEntry.objects.order_by("pk").values_list("action", "change")
    assert [action for action, _ in entries] == [
        "budget.made", "budget.changed", "budget.deleted", "budget.restored"
    ]  # fmt: skip
    assert entries[1][1] == {"amount_usd": ["250.5", "300"]}


def test_the_jobs_page_leads_to_a_budget_of_that_job(owner, job):
    address = f"{reverse('spend:new_budget')}?job={job.uuid}"
    assert address in owner.page(reverse("dashboard:job", args=[job.uuid]))
    assert f'value="{job.uuid}" selected' in owner.page(address)


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ({"kind": "job"}, "Choose a job."),
        ({"kind": "tag", "tag": "vision"}, "Write a tag as key=value, for example team=vision."),
        ({"kind": "workspace", "amount_usd": "0"}, "greater than or equal to 0.01"),
        ({"kind": "workspace", "threshold_pct": "101"}, "less than or equal to 100"),
        ({"kind": "tag", "tag": "team=vision"}, "This job, tag or workspace already has a budget."),
    ],
)
def test_it_says_what_is_wrong_with_a_budget(owner, form, why):
    budget(owner.workspace, tag_key="team", tag_value="vision")
    whole = {"amount_usd": "10", "threshold_pct": "80"} | form
    page = read_page(owner.client.post(reverse("spend:new_budget"), whole))
    assert why in page
    assert Budget.objects.count() == 1


def test_a_deleted_budget_does_not_come_back_beside_another_of_the_same(owner):
    old = budget(owner.workspace, deleted_at=NOON)
    budget(owner.workspace)
    address = reverse("spend:restore_budget", args=[old.uuid])
    page = read_page(owner.client.post(address, follow=True))
    assert "has another budget now" in page
    assert budgets_of(owner.workspace).count() == 1


def test_the_budget_of_a_merged_or_deleted_job_is_not_shown(owner, job):
    budget(owner.workspace, job=job)
    other = factories.job(owner.workspace, "other.py")
    Job.objects.filter(pk=job.pk).update(merged_into=other)
    assert not budgets_of(owner.workspace).exists()
    Job.objects.filter(pk=job.pk).update(merged_into=None, deleted_at=NOON)
    assert not budgets_of(owner.workspace).exists()
    budget(owner.workspace)
    assert [str(each) for each in budgets_of(owner.workspace)] == ["Whole workspace"]


def test_viewers_read_budgets_and_are_offered_no_change(owner):
    budget(owner.workspace)
    Membership.objects.update(role=Membership.VIEWER)
    page = owner.page(reverse("spend:budgets"))
    assert "Whole workspace" in page
    assert reverse("spend:new_budget") not in page


def test_the_jobs_page_has_a_line_on_its_budget(owner, job):
    address = reverse("dashboard:job", args=[job.uuid])
    assert 'id="budget"' not in owner.page(address)
    budget(owner.workspace, "5", job=job)
    factories.run(job)
    match = re.search(r'id="budget".*?</p>', owner.page(address), re.DOTALL)
    assert match is not None
    assert "of $5.00 spent in" in match[0]


def test_the_api_gives_the_state_of_each_budget(owner, job):
    budget(owner.workspace, "5", job=job)
    token = Token.make(owner.workspace, "script", [Token.READ])[1]
    headers = {"Authorization": f"Bearer {token}"}
    [row] = Client().get("/api/v1/budgets", headers=headers).json()["budgets"]
    assert (row["kind"], row["of"], row["amount_usd"]) == (
        "job",
        job.name,
        "5.000000000",
    )
    assert row["state"] == "ok"


def test_an_alert_is_recorded_once_a_month_and_only_when_it_gets_worse(owner, job):
    budget(owner.workspace, "20")
    spent(job, 10)
    assert [record_alerts(NOON), record_alerts(NOON)] == [1, 0]
    spent(job, 11, datetime(2026, 10, 9, tzinfo=UTC))
    assert [record_alerts(NOON), record_alerts(NOON)] == [1, 0]
    alerts = BudgetAlert.objects.order_by("pk").values_list("state", "spent_usd")
    assert list(alerts) == [("forecast_over", 10), ("over", 21)]
    Budget.objects.update(amount_usd=Decimal(1000))
    assert record_alerts(NOON) == 0
    Budget.objects.update(amount_usd=Decimal(1))
    spent(job, 10, datetime(2026, 11, 1, tzinfo=UTC))
    assert record_alerts(datetime(2026, 11, 2, tzinfo=UTC)) == 1


def test_an_alert_is_mailed_once_to_each_subscriber(owner, job):
    sweep()
    budget(owner.workspace, "0.05", job=job)
    factories.costed(_with_node(factories.run(job, seconds=3600)))
    for _ in range(2):
        record_alerts(timezone.now())
        sweep()
        send([mail.pk for mail in Mail.objects.filter(kind="budget")])
    [sent] = django_mail.outbox
    assert sent.to == [owner.user.email]
    assert sent.subject == "vision/train.py: over the budget, $0.0850 of $0.0500 spent"
    assert "Forecast:" in sent.body
    assert "/budgets/" in sent.body


def test_the_mail_of_a_forecast_shows_its_interval(owner, job):
    sweep()
    budget(owner.workspace, "20", job=job)
    for day in range(1, 11):
        spent(job, 1, datetime(2026, 10, day, tzinfo=UTC))
    record_alerts(NOON)
    sweep()
    send([mail.pk for mail in Mail.objects.filter(kind="budget")])
    [sent] = django_mail.outbox
    assert "will overrun its budget" in sent.subject
    assert re.search(r"Forecast: +\$3\d\.\d\d at the end of the month \(\$\d+", sent.body)


def test_a_budget_that_is_gone_by_then_is_not_mailed(owner, job):
    sweep()
    made = budget(owner.workspace, "0.05", job=job)
    factories.costed(_with_node(factories.run(job, seconds=3600)))
    record_alerts(timezone.now())
    sweep()
    Budget.objects.filter(pk=made.pk).update(deleted_at=timezone.now())
    send([mail.pk for mail in Mail.objects.filter(kind="budget")])
    assert django_mail.outbox == []


def _with_node(run: Run) -> Run:
    factories.node(run)
    return run


def test_budgets_of_every_kind_count_the_same_runs(owner, job):
    other = factories.job(owner.workspace, "other.py")
    spent(job, 3)
    spent(other, 4)
    of_kinds = {"job": {"job": job}, "tag": {"tag_key": "team", "tag_value": "vision"}, "all": {}}
    wanted = {name: budget(owner.workspace, **more) for name, more in of_kinds.items()}
    lines = standings(owner.workspace, budgets_of(owner.workspace), NOON)
    usd = {each.budget.pk: each.standing.spent_usd for each in lines}
    assert {name: usd[row.pk] for name, row in wanted.items()} == {"job": 3, "tag": 3, "all": 7}
