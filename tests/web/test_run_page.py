"""The page of a run: cost, findings, recommendations, and every state of a run."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from django.urls import reverse
from django.utils import timezone

from advisor.run_summary import RunSummary
from tests.web import factories, training
from webapp.analysis import queue
from webapp.analysis.results import dividing
from webapp.runs.models import Node, Run, Session


def _address(run: Run) -> str:
    return reverse("dashboard:run", args=[run.pk])


def _text(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


@pytest.fixture
def run(owner) -> Run:
    made = factories.run(factories.job(owner.workspace))
    factories.node(made)
    return factories.costed(made)


def test_the_headline_has_cost_time_and_configuration(owner, run):
    text = _text(owner.page(_address(run)))

    assert "$0.0142" in text
    assert "10 m 0 s" in text
    assert "c5.large" in text
    assert "Finished" in text


@pytest.mark.parametrize(("cost", "shown"), [("0.01234", "$0.0123"), ("12.345", "$12.35")])
def test_four_decimals_are_shown_below_a_dollar_and_two_above(owner, cost, shown):
    run = factories.run(factories.job(owner.workspace), cost=cost)

    assert shown in owner.page(_address(run))


def test_no_price_comes_with_its_reason_and_is_never_zero(owner):
    run = factories.run(factories.job(owner.workspace), cost=None)
    missing = [f"{factories.node(run).key}: instance type not declared"]
    run.summary = factories.summary(missing=missing, usd_per_hour=None, instance_types=[])
    run.save()

    text = _text(owner.page(_address(run)))

    assert "no price" in text
    assert "instance type not declared" in text
    assert "$0.00" not in text
    assert "--instance-type" in text


def test_a_run_that_is_not_analysed_yet_is_not_said_to_have_no_price_reason(owner):
    run = factories.run(
        factories.job(owner.workspace), cost=None, summary=RunSummary(), state="running"
    )

    text = _text(owner.page(_address(run)))

    assert "not computed yet" in text
    assert "Analysis in progress" in text


@pytest.mark.parametrize("state", ["running", "lost"])
def test_the_cost_of_a_run_that_may_go_on_is_at_least_that(owner, run, state):
    assert "at least" not in owner.page(_address(run))

    Run.objects.filter(pk=run.pk).update(state=state)

    assert "at least" in owner.page(_address(run))


def test_only_a_running_run_is_fetched_again(owner, run):
    assert "data-changing" not in owner.page(_address(run))

    Run.objects.filter(pk=run.pk).update(state="running")

    assert "data-changing" in owner.page(_address(run))


def test_a_lost_run_says_that_its_agent_went_silent(owner, run):
    Run.objects.filter(pk=run.pk).update(state="lost")

    assert "No contact with the agent" in owner.page(_address(run))


def test_the_worst_finding_stands_first(owner, run):
    factories.judgement(run, "a_small_one", severity="low", summary="Small.")
    factories.judgement(run, "the_worst", severity="high", summary="Steps waited 62 %.")

    page = owner.page(_address(run))
    notice = page.partition("notice-finding")[2].partition("</div></div>")[0]

    assert "Steps waited 62 %." in notice
    assert "Small." not in notice


def test_a_finding_is_folded_under_the_one_that_explains_it(owner, run):
    claims = {
        "input_bound": [["data_stall"], 300.0, 0.6, 0.9],
        "batch_size": [["gpu_idle", "data_stall"], 310.0, 0.2, 1.0],
        "low_gpu_utilization": [["gpu_idle", "data_stall"], 320.0, 0.3, 0.7],
        "idle_tail": [["idle_tail"], 560.0, 0.9, 1.0],
    }
    factories.ledger(run, data_stall=300.0, gpu_idle=20.0, idle_tail=200.0)
    for rule, claim in claims.items():
        factories.judgement(run, rule, summary=f"Measured by {rule}.", claims=[claim])
    dividing.redivide_ledger(run)

    page = owner.page(_address(run))
    folded = page.partition("explains 2 other findings")[2].partition("</details>")[0]

    assert "Measured by batch_size." in folded
    assert "Measured by low_gpu_utilization." in folded
    assert "4 of 4 fired" in _text(page)
    assert "is explained by other findings: Training waits for data" in _text(folded)
    assert run.judgements.get(rule="idle_tail").waste_seconds_high == 200
    assert run.judgements.get(rule="low_gpu_utilization").waste_seconds_high == pytest.approx(
        0.7 * 20 * 20 / 40, abs=7
    )


def test_every_rule_is_listed_whatever_it_found(owner, run):
    factories.judgement(run, "fired_rule", "fired")
    factories.judgement(run, "passed_rule", "passed", summary="CPU p95 was 96 %.")
    factories.judgement(run, "gpu_rule", "not_applicable", summary="No GPU.")
    factories.judgement(
        run, "short_rule", "insufficient_data", summary="41 of 60 s of steps are there."
    )

    page = owner.page(_address(run))
    text = _text(page)

    assert "No GPU." in page.partition("<summary>Not applicable: 1 rule<")[2]
    for words in ("Fired", "Passed", "Not applicable", "Insufficient data"):
        assert words in text
    assert "41 of 60 s" in text
    assert "1 of 4 fired" in text


def test_no_finding_is_good_news_only_once_rules_were_judged(owner, run):
    assert "No rule fired" not in owner.page(_address(run))

    factories.judgement(run, "passed_rule", "passed")

    assert "No rule fired" in owner.page(_address(run))


def test_a_recommendation_shows_saving_interval_risk_and_effort(owner, run):
    factories.recommendation(run, candidates=[])

    text = _text(owner.page(_address(run)))

    assert "Move from c5.large to t3.medium" in text
    assert re.search(r"\$0\.0060.*\$0\.0041 to \$0\.0079", text)
    assert "Low (cpu)" in text
    assert "of 4" not in text
    assert re.search(r"Effort\s+low", text, re.IGNORECASE)


def test_the_cost_names_the_price_rows_that_made_it(owner, run):
    text = _text(owner.page(_address(run)))

    assert "AWS price list" in text
    assert "$0.085" in text
    assert "us-east-1" in text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"is_later_price": True}, "later price"),
        ({"is_estimated": True}, "estimated price"),
        ({"missing_segments": 3}, "3 uploads"),
        ({"unreadable": 2}, "2 stored objects"),
    ],
)
def test_doubts_about_the_figures_are_said(owner, run, changes, words):
    assert words not in owner.page(_address(run))

    run.summary = replace(run.summary, **changes)
    run.save()

    assert words in _text(owner.page(_address(run)))


def test_uploads_that_were_refused_and_deleted_are_said(owner, run):
    Node.objects.filter(attempt__run=run).update(expired_uploads={"a": 1, "b": 2})

    assert "The service refused 3 uploads" in _text(owner.page(_address(run)))


def test_a_failed_analysis_shows_its_error(owner, run):
    factories.analysis(run, done=0, error="ValueError: <b>no frame</b>", attempts=3)

    page = owner.page(_address(run))

    assert "The analysis of this run failed" in page
    assert "<b>no frame</b>" not in page


def test_a_failed_analysis_can_be_asked_for_again(owner, run):
    failed = {"error": "OSError: the store is away", "given_up_at": timezone.now()}
    analysis = factories.analysis(run, done=0, attempts=3, **failed)
    assert queue.claim(run.pk) is None
    page = owner.page(_address(run))
    address = re.search(r'action="(/runs/[^"]+/analyse/)"', page)[1]

    owner.client.post(address)

    analysis.refresh_from_db()
    assert analysis.error == ""
    assert queue.claim(run.pk) is not None
    assert "Analysis in progress" in owner.page(_address(run))


def test_the_environment_is_shown_and_escaped(owner):
    run = training.uploaded_run(owner.workspace, job="<i>job</i>")

    page = owner.page(_address(run))

    assert "--epochs 30" in page
    assert "4f2c9d1e8a" in page
    assert "Intel Xeon Platinum 8124M" in page
    assert "batch_size" in page
    assert "<i>job</i>" not in page


def test_phases_are_compared_with_the_run_before_in_the_order_of_time(owner):
    job = factories.job(owner.workspace)
    factories.run(job, summary=factories.summary(phase_seconds={"train": 500.0, "initialise": 9.0}))
    phases = {"train": 400.0, "finalise": 60.0, "initialise": 30.0}
    run = factories.run(job, summary=factories.summary(phase_seconds=phases))

    time = owner.page(_address(run)).partition('id="time"')[2].partition("</section>")[0]
    text = _text(time)

    assert "Initialise 6 % 9.00 s 30 s +21 s" in text
    assert "Train 82 % 8 m 20 s 6 m 40 s −1 m 40 s" in text
    assert text.index("Initialise 6") < text.index("Train 82") < text.index("Finalise 12")
    assert "Total 100 % 8 m 29 s 8 m 10 s −19 s" in text


def test_gpu_charts_are_asked_for_where_there_are_gpus(owner):
    with_gpus = training.uploaded_run(owner.workspace, job="a", gpus=2)
    without = training.uploaded_run(owner.workspace, job="b")

    def keys(run: Run) -> set[str]:
        document = owner.client.get(_address(run)).context["chart"]
        return {chart["key"] for chart in document["charts"]}

    assert "gpu" in keys(with_gpus)
    assert "gpu" not in keys(without)
    assert {"cpu", "memory", "step", "disk", "net"} <= keys(without)


def test_a_run_without_a_node_says_that_nothing_has_arrived(owner):
    run = factories.run(
        factories.job(owner.workspace), state="running", summary=RunSummary(), cost=None
    )

    assert "No samples have arrived yet" in owner.page(_address(run))


def test_a_failed_run_tells_its_exit_code_once(owner):
    run = training.uploaded_run(owner.workspace, minutes=1)
    Session.objects.filter(node__attempt__run=run).update(end_state="failed", exit_code=3)
    Run.objects.filter(pk=run.pk).update(state=Run.FAILED)

    failure = owner.page(reverse("dashboard:run", args=[run.pk])).partition('id="failure"')[2]

    assert failure.partition("</div></div>")[0].lower().count("exit code 3") == 1


@pytest.mark.parametrize(
    ("seconds", "waste", "note"),
    [
        ({"effective": 6.0}, "unknown", "no sample shows what the time was used for"),
        ({"effective": 120.0, "gap": 400.0}, "$0.00", "none found; the use of 80 % is unknown"),
        ({"effective": 600.0}, "$0.00", "nothing wasted"),
    ],
)
def test_time_that_nobody_can_explain_is_not_called_free_of_waste(owner, seconds, waste, note):
    run = factories.run(factories.job(owner.workspace))
    factories.node(run)
    factories.ledger(run, **seconds)

    page = owner.page(reverse("dashboard:run", args=[run.pk]))
    report = owner.page(reverse("dashboard:report", args=[run.pk]))

    for shown in (page, report):
        words = re.sub(r"<[^>]+>", " ", shown)
        assert re.search(rf"Waste\s+{re.escape(waste)}", words)
        assert note in words


def test_waste_without_a_price_is_a_share_of_the_time(owner):
    run = factories.run(factories.job(owner.workspace), cost=None)
    factories.node(run)
    factories.ledger(run, effective=180.0, initialise=420.0)

    words = re.sub(r"<[^>]+>", " ", owner.page(reverse("dashboard:run", args=[run.pk])))

    assert re.search(r"Waste\s+70 %\s+of the time", words)
    assert "start-up: 70 %, in dollars unknown without a price" in re.sub(r"\s+", " ", words)
