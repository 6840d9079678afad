"""The home page: what needs somebody, what is spent and saved, and what runs now."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from tests.html import read_page
from tests.web import factories
from webapp.accounts.models import Membership, Token, Workspace, digest
from webapp.analysis.models import LedgerEntry
from webapp.dashboard.selectors.home import Pace, pace
from webapp.dashboard.selectors.unpriced import unpriced_runs
from webapp.runs.models import Attempt, Job, Node, Run
from webapp.spend.models import Budget
from webapp.spend.months import current_month


def text(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def agenda(person: Any) -> list[str]:
    page = person.page("/")
    found = re.search(r"Needs attention.*?</section>", page, re.DOTALL)
    assert found
    return [text(item).strip() for item in re.findall(r"<li>.*?</li>", found[0], re.DOTALL)]


def _pace(workspace: Workspace, now: datetime) -> Pace:
    month = current_month(workspace, now)
    return pace(workspace, now, unpriced_runs(workspace, month, now))


def labelled(run: Run, **usd: str | None) -> Run:
    node = factories.node(run)
    for label, amount in usd.items():
        cost = None if amount is None else Decimal(amount)
        LedgerEntry.objects.create(
            run=run, node=node, label=label, microseconds=60_000_000, usd=cost
        )
    return run


def test_a_new_workspace_begins_with_its_first_run(owner):
    assert "trimtab run -- python train.py" in owner.page("/")


def test_the_first_token_is_shown_once_in_the_agents_command(owner):
    shown = read_page(owner.client.post("/"))
    [plain] = re.findall(r"export TRIMTAB_TOKEN=(tt_[\w-]{20,})", shown)
    token = Token.objects.get(workspace=owner.workspace, digest=digest(plain))
    assert token.scopes == [Token.INGEST]
    assert plain not in owner.page("/")


def test_no_token_is_made_once_there_are_jobs(owner):
    factories.run(factories.job(owner.workspace))
    before = Token.objects.count()
    assert owner.client.post("/").status_code == 302
    assert Token.objects.count() == before


def test_a_healthy_workspace_says_that_nothing_needs_anybody(owner):
    factories.run(factories.job(owner.workspace))

    assert agenda(owner) == []
    page = owner.page("/")
    assert "Nothing needs you" in page
    assert "no job's last run failed in the last seven days" in page


def test_what_needs_somebody_is_named_the_most_urgent_first(owner):
    job = factories.job(owner.workspace, "vision/train.py")
    bad = factories.run(job)
    hung = factories.run(job, state=Run.RUNNING, ended_at=None)
    factories.judgement(hung, "hung", summary="No step for 20 minutes.")
    factories.run(job, state=Run.FAILED, cost="3.5")
    factories.regression(bad, extra_usd=Decimal("12.5"))
    Budget.objects.create(workspace=owner.workspace, amount_usd="0.001")
    factories.costed(bad)
    factories.node(bad)
    factories.costed(bad)
    factories.recommendation(bad)

    kinds = ["Hangs now", "Failed", "Regression", "Budget", "Recommendation"]
    items = agenda(owner)
    assert len(items) == len(kinds)
    assert all(item.startswith(kind) for item, kind in zip(items, kinds, strict=True))
    page = text(owner.page("/"))
    assert "No step for 20 minutes." in page
    assert "$3.50 spent" in page
    assert "+25 % machine time since #1, 2 runs" in page
    assert "$12.50 more so far" in page
    assert "$1.86 less a month" in page


@pytest.mark.parametrize(
    "changes",
    [
        {"state": Run.FINISHED},
        {"state": Run.FAILED, "started_at": timezone.now() - timedelta(days=8)},
        {"state": Run.FAILED, "deleted_at": timezone.now()},
    ],
)
def test_what_is_over_needs_nobody(owner, changes):
    job = factories.job(owner.workspace)
    factories.run(job)
    factories.judgement(factories.run(job, **changes), "hung")

    assert agenda(owner) == []


def test_an_accepted_or_ended_regression_needs_nobody(owner):
    job = factories.job(owner.workspace)
    first, second = factories.run(job), factories.run(job)
    factories.regression(first, is_accepted=True)
    factories.regression(second, ended_by=factories.run(job))

    assert agenda(owner) == []


def test_a_saving_that_no_run_of_this_month_would_have_is_told_by_the_run(owner):
    run = factories.run(factories.job(owner.workspace))
    row = factories.recommendation(run, monthly_saving_usd=Decimal(0))

    (item,) = agenda(owner)
    row.refresh_from_db()

    assert "$0.0060 less a run" in item
    assert row.seen_at is not None
    assert row.seen_estimate["saving_usd"] == "0.006000000"


def test_unpriced_trouble_has_no_price_not_zero(owner):
    job = factories.job(owner.workspace)
    factories.run(job, state=Run.FAILED, cost=None)

    (item,) = agenda(owner)

    assert "no price" in item
    assert "$0" not in item


def _unpriced(job: Job, **more: Any) -> Run:
    missing = ["n1: no on-demand price of box in an unknown region"]
    run = factories.run(job, cost=None, summary=factories.summary(missing=missing), **more)
    factories.analysis(run, done=1)
    return run


def test_a_first_run_without_a_price_is_no_spend_of_zero(owner):
    run = _unpriced(factories.job(owner.workspace))

    (item,) = agenda(owner)
    page = owner.page("/")

    assert item.startswith(f"No price {run} no on-demand price of box")
    assert "Enter a rate" in item
    shown = text(page)
    assert "no price yet" in shown
    assert "$0" not in shown
    assert "Nothing was spent" not in shown
    assert "Nothing needs you" not in shown
    assert "what was spent is unknown" in shown


def test_runs_without_a_price_are_one_item_and_not_in_the_spend(owner):
    job = factories.job(owner.workspace)
    run = factories.run(job, started_at=timezone.now() - timedelta(minutes=20))
    factories.node(run)
    factories.costed(run)
    for _ in range(2):
        _unpriced(job, started_at=timezone.now() - timedelta(minutes=10))

    (item,) = agenda(owner)

    assert item.startswith("No price 2 runs the newest, ")
    assert "without 2 runs that have no price" in text(owner.page("/"))


def test_a_run_that_is_not_analysed_yet_may_still_have_a_price(owner):
    job = factories.job(owner.workspace)
    factories.run(job, cost=None, state=Run.RUNNING, ended_at=None)

    assert agenda(owner) == []
    assert "no price yet" in owner.page("/")


def test_a_spend_of_last_month_without_a_price_is_no_spend_of_zero(owner):
    job = factories.job(owner.workspace)
    now = datetime(2026, 11, 20, tzinfo=UTC)
    _unpriced(job, started_at=datetime(2026, 10, 3, tzinfo=UTC))

    shown = _pace(owner.workspace, now)

    assert (shown.usd, shown.then_usd, shown.is_unknown) == (Decimal(0), None, True)
    assert _pace(owner.workspace, now - timedelta(days=18, hours=12)).then_usd == Decimal(0)


def test_others_trouble_is_not_told(owner, stranger):
    factories.run(factories.job(owner.workspace))
    job = factories.job(stranger.workspace, "secret/train.py")
    factories.regression(factories.run(job, state=Run.FAILED))
    factories.judgement(factories.run(job, state=Run.RUNNING), "hung")
    factories.recommendation(labelled(factories.run(job), effective="7.5"))

    page = owner.page("/")

    assert agenda(owner) == []
    assert "secret/train.py" not in page
    assert "$7.50" not in page


def test_the_money_is_what_the_ledger_of_the_last_month_says(owner):
    job = factories.job(owner.workspace)
    labelled(factories.run(job), effective="6", data_stall="1.5", gpu_idle="2.5")
    long_ago = timezone.now() - timedelta(days=31)
    labelled(factories.run(job, started_at=long_ago), effective="100")

    page = text(owner.page("/"))

    assert "Held by runs $10.00" in page
    assert "Used $7.50" in page
    assert "Effective $6.00" in page


def test_shares_are_of_the_cost_not_of_the_time(owner):
    """An hour of the one machine costs more than an hour of the other."""
    job = factories.job(owner.workspace)
    labelled(factories.run(job), effective="1", gpu_idle="1")
    labelled(factories.run(job), effective="1", data_stall="5")

    page = text(owner.page("/"))

    assert "Waiting for data 62 % $5.00 Idle GPU 12 % $1.00" in page
    assert "Effective 25 % $2.00" in page


def test_without_a_price_the_share_is_told(owner):
    labelled(factories.run(factories.job(owner.workspace)), effective="1", data_stall=None)

    page = text(owner.page("/"))

    assert "Some of these runs have no price" in page
    assert "50 % of the time was wasted" in page


def test_a_label_leads_to_the_runs_that_lost_most_by_it(owner):
    job = factories.job(owner.workspace)
    small = labelled(factories.run(job), data_stall="0.25", effective="9")
    large = labelled(factories.run(job), data_stall="2.75", effective="1")
    none = labelled(factories.run(job), effective="4")
    (address,) = re.findall(r'href="(/runs/\?[^"]*label=data_stall)"', owner.page("/"))
    unpriced = labelled(factories.run(job, cost=None), data_stall=None)
    listed = owner.page(address.replace("&amp;", "&"))

    names = re.findall(r'class="name" href="/runs/([0-9a-f-]+)/', listed)
    assert names == [str(large.pk), str(small.pk), str(unpriced.pk)]
    assert str(none.pk) not in listed
    assert "$2.75" in listed
    assert "no price" in listed


@pytest.mark.parametrize("query", ["state=x", "days=x", "day=2026-99-99", "label=x", "days=99999"])
def test_a_query_that_says_nothing_lists_all_runs(owner, query):
    run = factories.run(factories.job(owner.workspace))

    assert str(run.pk) in owner.page(f"/runs/?{query}")


def test_runs_are_listed_by_state_and_by_the_day_that_they_held_machines(owner):
    job = factories.job(owner.workspace)
    night = datetime(2026, 11, 3, 23, 50, tzinfo=UTC)
    held = factories.run(job, started_at=night)
    factories.node(held)
    factories.costed(held)
    failed = factories.run(job, state=Run.FAILED)

    by_day = owner.page("/runs/?day=2026-11-03")
    by_state = owner.page("/runs/?state=failed")

    assert str(held.pk) in by_day
    assert str(failed.pk) not in by_day
    assert str(failed.pk) in by_state
    assert str(held.pk) not in by_state
    assert "No run matches" in owner.page("/runs/?day=2026-11-09")


def test_a_running_run_is_told_beside_what_its_job_usually_costs(owner):
    job = factories.job(owner.workspace)
    for cost in ("4", "5", "90"):
        factories.run(job, cost=cost, seconds=3600)
    factories.run(job, cost="1000", state=Run.FAILED)
    running = factories.run(job, cost="1.25", state=Run.RUNNING, seconds=900)

    page = text(owner.page("/"))

    assert f"{job.name} #{running.number}" in page
    assert "at least $1.25" in page
    assert "usually 1 h 0 m" in page
    assert "usually $5.00" in page


def _running(owner, **more: Any) -> Run:
    run = factories.run(factories.job(owner.workspace), state=Run.RUNNING)
    factories.node(run, **more)
    return run


def test_a_running_run_can_be_stopped_and_profiled_from_here_by_members(owner):
    run = _running(owner, allows_stop=True)
    page = owner.page("/")
    for name in ("stop_run", "profile_run"):
        assert f'action="{reverse(f"directives:{name}", args=[run.pk])}"' in page
    assert f'popovertarget="stop-{run.pk}"' in page
    assert "SIGTERM" in page

    Membership.objects.update(role=Membership.VIEWER)
    assert "popovertarget" not in owner.page("/")


def test_a_run_that_may_not_be_stopped_says_why_when_asked(owner):
    run = _running(owner)
    page = owner.page("/")
    assert f'popovertarget="stop-{run.pk}"' in page
    assert "--allow-stop" in page
    assert reverse("directives:stop_run", args=[run.pk]) not in page


def test_only_the_nodes_of_the_last_attempt_tell_whether_it_may_be_stopped(owner):
    run = _running(owner)
    later = Attempt.objects.create(run=run, number=1)
    Node.objects.create(attempt=later, machine_id="i-later", allows_stop=True)
    assert reverse("directives:stop_run", args=[run.pk]) in owner.page("/")


def test_what_was_asked_already_is_not_asked_again(owner):
    run = _running(owner, allows_stop=True)
    owner.client.post(reverse("directives:stop_run", args=[run.pk]))
    assert re.search(r"disabled>Stop requested", owner.page("/"))


def test_what_runs_now_is_added_up_over_all_runs_not_only_those_listed(owner):
    job = factories.job(owner.workspace)
    for _ in range(12):
        factories.run(job, cost="1.5", state=Run.RUNNING)
    factories.run(job, cost=None, state=Run.RUNNING)

    assert "Running now 13 $18.00 so far, 1 without a price" in text(owner.page("/"))


def test_the_pace_of_the_month_is_the_spend_of_its_days(owner):
    job = factories.job(owner.workspace)
    for day in ("2026-10-02", "2026-10-20", "2026-11-01", "2026-11-05"):
        began = datetime.fromisoformat(day).replace(hour=3, tzinfo=UTC)
        run = factories.run(job, started_at=began, seconds=3600)
        factories.node(run)
        factories.costed(run)

    told = _pace(owner.workspace, datetime(2026, 11, 10, 12, tzinfo=UTC))

    assert told.usd == 2 * factories.USD_PER_HOUR
    assert told.then_usd == factories.USD_PER_HOUR
    assert told.before.count(",") == 32
    # $0.17 on an axis that ends at $0.20
    assert told.axis.top_usd == Decimal("0.2")
    assert told.line.endswith(",21.0")


def test_a_bookmark_of_the_old_list_of_jobs_still_leads_there(owner):
    factories.job(owner.workspace, "vision/train.py", owner="ada")
    factories.job(owner.workspace, "speech/train.py", owner="bob")

    page = owner.client.get("/?owner=ada&sort=spend", follow=True)

    assert page.redirect_chain == [(reverse("dashboard:jobs") + "?owner=ada&sort=spend", 302)]
