"""Following recommendations: states on pages and in the API, decisions, and who may decide."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from advisor.recommend import Recommendation as Advised
from tests.html import read_page
from tests.web import factories
from tests.web.judged import finished
from webapp.accounts.models import AuditEntry, Membership, Token, User
from webapp.advice import deciding, life_cycle, settling
from webapp.advice.calibrating import factor_of
from webapp.advice.models import RealisedSaving, Recommendation
from webapp.runs.editing import deletion
from webapp.runs.models import Job, Run

TABLE = [
    {
        "instance_type": kind,
        "node_count": 1,
        "purchase_option": "on_demand",
        "vcpus": 2,
        "memory_bytes": 4 * 2**30,
        "gpus": 0,
        "gpu_model": "",
        "rejected_because": "",
        "time_low_seconds": 590.0,
        "time_mid_seconds": 600.0,
        "time_high_seconds": 610.0,
        "cost_low_usd": "0.49",
        "cost_mid_usd": "0.50",
        "cost_high_usd": "0.51",
    }
    for kind in ("c5.large", "c6i.large")
]


def run_on(job: Job, kind: str = "c5.large", slow: float = 1.0, **more: Any) -> Run:
    machines = {"instance_type": kind, "node_count": 1, "purchase_option": "on_demand"}
    made = finished(job, slow, configuration=machines, **more)
    factories.node(made, instance_type=kind)
    return made


def advised(of: Run, **more: Any) -> Recommendation:
    values = {
        "kind": "change_instance_type",
        "dedupe_key": "change_instance_type",
        "title": "Run on 1 × c6i.large instead of c5.large",
        "change": {"instance_type": "c6i.large", "node_count": 1},
        "candidates": TABLE,
        "saving_low_usd": Decimal("0.49"),
        "saving_usd": Decimal("0.5"),
        "saving_high_usd": Decimal("0.51"),
        "rung": "same",
        "how_to_apply": ["Start the next run on c6i.large."],
    }
    return factories.recommendation(of, **values | more)


@pytest.fixture
def job(owner: Any) -> Job:
    return factories.job(owner.workspace)


@pytest.fixture
def row(job: Job) -> Recommendation:
    evidence = run_on(job)
    factories.analysis(evidence)
    return advised(evidence)


def settled(row: Recommendation) -> Recommendation:
    settling.settle(row.job)
    row.refresh_from_db()
    return row


def text(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def job_page(owner: Any, job: Job) -> str:
    return text(owner.page(reverse("dashboard:job", args=[job.uuid])))


def post(client: Client, verb: str, row: Recommendation, **form: str) -> int:
    return client.post(reverse(f"advice:{verb}", args=[row.uuid]), form).status_code


def test_a_followed_recommendation_stays_with_what_it_saved_and_the_run_that_proves_it(
    owner, job, row
):
    later = run_on(job, "c6i.large", cost="0.5")
    assert settled(row).state == Recommendation.VERIFIED
    assert (row.claimed_by, row.proven_by) == (later, later)

    shown = job_page(owner, job)
    assert "What was decided" in shown
    assert "verified" in shown
    assert "Saved $0.5000 in 1 run" in shown
    assert "100 % of what was promised" in shown
    assert "followed before anybody opened it" in shown
    on_run = text(owner.page(reverse("dashboard:run", args=[later.pk])))
    assert "Saved by following recommendations" in on_run
    assert "$0.5000" in on_run


def test_page_api_and_run_name_one_saving(owner, job, row):
    run_on(job, "c6i.large", cost="0.5")
    run_on(job, "c6i.large", 0.9, cost="0.45")
    settled(row)
    token = Token.make(owner.workspace, "script", ["read"])[1]
    headers = {"Authorization": f"Bearer {token}"}
    address = f"/api/v1/jobs/{job.uuid}/recommendations"
    (told,) = Client().get(address, headers=headers).json()["recommendations"]
    of_run = Client().get(f"/api/v1/runs/{row.run_id}", headers=headers).json()
    lines = told["savings"]
    assert told["realised"]["usd"] == of_run["recommendations"][0]["realised_usd"]
    assert sum(Decimal(line["usd"]) for line in lines) == Decimal(told["realised"]["usd"])
    assert lines[-1]["sum_usd"] == told["realised"]["usd"]
    assert f"Saved ${Decimal(told['realised']['usd']):.2f} in 2 runs" in job_page(owner, job)


def test_a_dearer_machine_fails_and_its_loss_counts(owner, job, row):
    run_on(job, "c6i.large", 1.5, cost="1.5")
    assert settled(row).state == Recommendation.FAILED
    assert row.realised_usd < 0
    assert "Cost $0.5000 more" in job_page(owner, job)


def test_provisional_advice_is_not_claimed_and_not_frozen(owner, job):
    row = advised(run_on(job), is_provisional=True)
    run_on(job, "c6i.large", cost="0.5")
    job_page(owner, job)
    assert settled(row).state == Recommendation.ACTIVE
    assert row.seen_at is None
    Recommendation.objects.update(is_provisional=False)
    assert settled(row).state == Recommendation.VERIFIED


def test_what_a_person_saw_first_may_still_be_followed(owner, job, row):
    job_page(owner, job)
    Recommendation.objects.update(candidates=TABLE[:1], change={"instance_type": "t3.large"})
    run_on(job, "c6i.large", cost="0.5")
    assert settled(row).state == Recommendation.VERIFIED
    assert row.claimed_candidate["instance_type"] == "c6i.large"


def test_part_of_a_later_run_proves_nothing(job, row):
    later = run_on(job, "c6i.large", cost="0.5")
    factories.analysis(later, is_final=False)
    assert settled(row).state == Recommendation.ACTIVE


def test_deleting_restoring_and_repricing_the_proof_heals_the_state(owner, job, row):
    later = run_on(job, "c6i.large", cost="0.5")
    factories.analysis(later)
    assert settled(row).realised_usd == Decimal("0.5")
    deletion.delete_run(later, owner.user)
    row.refresh_from_db()
    assert (row.state, row.realised_usd, row.claimed_by) == ("active", None, None)
    assert not RealisedSaving.objects.exists()
    deletion.restore_run(later, owner.user)
    Run.objects.filter(pk=later.pk).update(cost_usd=Decimal("0.8"))
    assert settled(row).realised_usd == Decimal("0.2")
    assert settled(row).realised_usd == Decimal("0.2")
    assert RealisedSaving.objects.count() == 1


def test_a_dismissed_one_stays_dismissed_until_that_is_undone(owner, job, row):
    assert post(owner.client, "dismiss", row, reason="The vendor fixes the type") == 302
    run_on(job, "c6i.large", cost="0.5")
    assert settled(row).state == Recommendation.DISMISSED
    assert "The vendor fixes the type" in job_page(owner, job)
    assert post(owner.client, "reopen", row) == 302
    row.refresh_from_db()
    assert row.state == Recommendation.VERIFIED
    assert [entry.action for entry in AuditEntry.objects.order_by("pk")] == [
        "recommendation.dismissed",
        "recommendation.reopened",
    ]


def test_a_snoozed_one_opens_by_itself_and_not_before(owner, job, row):
    until = timezone.now() + timedelta(days=3)
    assert post(owner.client, "snooze", row, until=f"{until:%Y-%m-%d}") == 302
    row.refresh_from_db()
    assert row.state == Recommendation.SNOOZED
    assert deciding.wake(timezone.now()) == 0
    assert deciding.wake(until) == 1
    row.refresh_from_db()
    assert (row.state, row.decided_by) == ("active", "")


@pytest.mark.parametrize("until", ["", "2020-01-01", "never", "2999-01-01", "2026-02-31"])
def test_a_snooze_needs_a_day_within_the_next_year(owner, row, until):
    post(owner.client, "snooze", row, until=until)
    row.refresh_from_db()
    assert row.state == Recommendation.ACTIVE


def test_what_no_run_tells_can_be_marked_as_followed(owner, job):
    row = advised(run_on(job), candidates=[], change={"code": "compiled"}, rules=["other"])
    post(owner.client, "follow", row)
    row.refresh_from_db()
    assert (row.state, row.claimed_by) == ("claimed", None)
    Recommendation.objects.update(followed_since=timezone.now() - timedelta(hours=99, minutes=1))
    later = run_on(job, slow=0.5)
    assert settled(row).state == Recommendation.VERIFIED
    assert row.claimed_by == later
    post(owner.client, "reopen", row)
    row.refresh_from_db()
    assert (row.state, row.claimed_by) == ("active", None)


def test_viewers_and_strangers_decide_nothing(owner, stranger, row):
    viewer = User.objects.create_user("vic@example.org")
    Membership.objects.create(workspace=owner.workspace, user=viewer, role=Membership.VIEWER)
    client = Client()
    client.force_login(viewer)
    for verb in ("dismiss", "snooze", "follow", "reopen"):
        assert post(client, verb, row) == 403
        assert post(stranger.client, verb, row) == 404
    assert "Dismiss" not in read_page(client.get(reverse("dashboard:run", args=[row.run_id])))


def test_a_script_decides_with_the_scope_write_in_its_own_workspace(owner, stranger, row):
    body = {"reason": "not now"}
    address = f"/api/v1/jobs/{row.job.uuid}/recommendations/{row.uuid}/dismiss"

    def call(workspace: Any, scope: str, at: str = address, said: Any = body) -> Any:
        token = Token.make(workspace, scope, [scope])[1]
        headers = {"Authorization": f"Bearer {token}"}
        return Client().post(at, said, content_type="application/json", headers=headers)

    assert call(stranger.workspace, "write").status_code == 404
    assert call(owner.workspace, "read").status_code == 403
    answer = call(owner.workspace, "write").json()
    assert (answer["state"], answer["state_reason"]) == ("dismissed", "not now")
    assert answer["decided_by"].startswith("token ")
    reopened = call(owner.workspace, "write", address.replace("dismiss", "reopen"), {})
    assert reopened.json()["state"] == "active"
    snooze = address.replace("dismiss", "snooze")
    assert call(owner.workspace, "write", snooze, {"days": 0}).status_code == 422
    assert call(owner.workspace, "write", snooze, {"days": 7}).json()["state"] == "snoozed"


def test_the_rung_the_risk_and_the_steps_are_in_words(owner, row):
    Recommendation.objects.update(risk=1.2, risk_reason="The cores may become too few.")
    page = text(owner.page(reverse("dashboard:run", args=[row.run_id])))
    told = ("own figures", "Low", "The cores may become too few.", "aws ec2 run-instances")
    for words in told:
        assert words in page


def test_estimates_that_were_off_widen_the_next_ones_of_their_kind(owner, stranger, job):
    for number in range(6):
        other = factories.job(owner.workspace, f"other-{number}")
        row = advised(run_on(other))
        run_on(other, "c6i.large", 1.8, cost="0.9")
        settled(row)
    assert factor_of(owner.workspace, "change_instance_type") > 1.3
    assert factor_of(owner.workspace, "fix_input_pipeline") == 1.0
    assert factor_of(stranger.workspace, "change_instance_type") == 1.0


def from_engine(saving: str, kind: str = "c6i.large") -> Advised:
    return Advised(
        kind="change_instance_type",
        title=f"Run on 1 × {kind}",
        change={"instance_type": kind, "node_count": 1},
        saving_low_usd=Decimal(saving),
        saving_usd=Decimal(saving),
        saving_high_usd=Decimal(saving),
        monthly_saving_usd=None,
        risk=0.0,
        risk_dimension="",
        effort="low",
        evidence=[],
        assumptions=[],
        candidates=TABLE,
        dedupe_key="change_instance_type",
    )


def test_advice_from_a_part_of_a_run_is_renewed_by_the_whole_after_a_later_run_followed(job):
    first = run_on(job)
    life_cycle.save(first, [from_engine("0.1")], is_final=False)
    later = run_on(job, "c6i.large", cost="0.5")
    life_cycle.save(later, [], is_final=True)
    row = Recommendation.objects.get()
    assert (row.claimed_by, row.is_provisional) == (None, True)

    life_cycle.save(first, [from_engine("0.5")], is_final=True)
    row.refresh_from_db()
    assert (row.state, row.saving_usd) == ("verified", Decimal("0.5"))
    assert row.claimed_estimate["saving_usd"] == "0.500000000"


def test_the_next_advice_of_a_kind_is_a_row_of_its_own_and_may_expire(job):
    first = run_on(job)
    life_cycle.save(first, [from_engine("0.5")], is_final=True)
    second = run_on(job, "c6i.large", cost="0.5")
    life_cycle.save(second, [from_engine("0.1", "t3.large")], is_final=True)
    followed, following = Recommendation.objects.order_by("pk")
    assert (followed.state, following.state) == ("verified", "active")
    life_cycle.save(first, [from_engine("0.5")], is_final=True)
    assert Recommendation.objects.count() == 2

    life_cycle.save(run_on(job, "c6i.large", cost="0.5"), [], is_final=True)
    following.refresh_from_db()
    followed.refresh_from_db()
    assert (followed.realised_runs, following.state) == (2, "expired")


def test_a_dismissed_kind_is_not_advised_again(owner, job, row):
    deciding.dismiss(row, owner.user, "")
    life_cycle.save(run_on(job), [from_engine("0.7")], is_final=True)
    assert [each.state for each in Recommendation.objects.all()] == ["dismissed"]


@pytest.mark.parametrize("largest", ["startup_breakdown", "checkpoint_stalls"])
def test_without_a_price_what_takes_most_time_is_to_be_done_first(owner, largest):
    run = factories.run(factories.job(owner.workspace), cost=None)
    nothing = dict.fromkeys(
        ("saving_low_usd", "saving_usd", "saving_high_usd", "monthly_saving_usd")
    )
    for rule in ("startup_breakdown", "checkpoint_stalls"):
        seconds = 300.0 if rule == largest else 20.0
        factories.judgement(run, rule, waste_seconds_high=seconds, waste_usd_high=None)
        factories.recommendation(run, title=f"Mend {rule}", rules=[rule], **nothing)

    page = text(owner.page(reverse("dashboard:run", args=[run.pk])))
    job = text(owner.page(reverse("dashboard:job", args=[run.job.uuid])))

    assert f"Mend {largest}." in page.partition("Do this first")[2][:200]
    assert job.index(f"Mend {largest}") == job.index("Mend ")


def test_how_to_apply_is_a_block_for_the_scheduler_that_the_person_chose_once(owner):
    run = factories.run(factories.job(owner.workspace))
    change = {"instance_type": "c6i.large", "node_count": 2}
    address, other = (
        reverse("advice:recommendation", args=[factories.recommendation(run, change=change).uuid])
        for _ in range(2)
    )
    assert "aws ec2 run-instances --instance-type c6i.large --count 2" in owner.page(address)
    form = {"scheduler": "slurm", "next": address}
    chosen = owner.client.post(reverse("advice:choose_scheduler"), form)
    assert chosen["Location"] == address
    for shown in (address, other):
        page = owner.page(shown)
        assert "sbatch --nodes=2 --constraint=c6i.large" in page
        assert "aws ec2" not in page
    elsewhere = {"scheduler": "fortran", "next": "https://example.org/"}
    left = owner.client.post(reverse("advice:choose_scheduler"), elsewhere)
    assert left["Location"] == reverse("advice:inbox")
    assert "sbatch" in owner.page(address)
