"""Corrections of a run's machine and its billed amount."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest
from django.urls import reverse

from tests.html import read_page
from tests.web import factories, training
from tests.web.conftest import Person
from webapp.accounts.models import AuditEntry, Membership
from webapp.advice.models import Recommendation
from webapp.analysis import tasks
from webapp.analysis.models import Analysis
from webapp.prices.models import Price
from webapp.runs.models import Node, Run


def analysed(run: Run) -> Run:
    tasks.evaluate(str(run.pk))
    return Run.objects.get(pk=run.pk)


@pytest.fixture
def run(owner) -> Run:
    return analysed(training.uploaded_run(owner.workspace, minutes=1))


def correct(person: Person, run: Run, **changes: str):  # type: ignore[no-untyped-def]
    known = {"instance_type": "c5.large", "region": "us-east-1", "purchase_option": "on_demand"}
    return person.client.post(
        reverse("runs:correct_machine", args=[run.pk]), known | changes, follow=True
    )


def usd_per_hour(instance_type: str, region: str = "us-east-1") -> Decimal:
    rows = Price.objects.filter(
        workspace=None, service="ec2", instance_type=instance_type, region=region,
        purchase_option="on_demand",
    )  # fmt: skip
    return rows.latest("valid_from").usd_per_hour


def cost_at(run: Run, usd_an_hour: Decimal) -> Decimal:
    seconds = Decimal(sum(part.microseconds for part in run.cost_parts.all())) / 10**6
    return (usd_an_hour * seconds / 3600).quantize(Decimal("1e-9"))


def test_a_corrected_type_is_priced_at_once_and_written_down_with_both_costs(owner, run):
    before = run.cost_usd
    page = read_page(correct(owner, run, instance_type="c5.xlarge"))
    priced = Run.objects.get(pk=run.pk)
    assert priced.cost_usd == cost_at(priced, usd_per_hour("c5.xlarge"))
    assert priced.cost_usd > before
    assert priced.configuration["instance_type"] == "c5.xlarge"
    assert "corrected</span>" in page
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor) == ("machine.corrected", owner.user)
    assert entry.change["instance_type"] == ["c5.large", "c5.xlarge"]
    assert [Decimal(usd) for usd in entry.change["cost_usd"]] == [before, priced.cost_usd]
    assert set(entry.change) == {"instance_type", "cost_usd"}


def test_the_next_analysis_advises_from_the_corrected_machine(owner):
    """The agent measured its cores, and named a smaller type."""
    run = analysed(training.uploaded_run(owner.workspace, minutes=1, vcpus=16))
    assert not run.recommendations.filter(kind="change_instance_type").exists()
    correct(owner, run, instance_type="c5.4xlarge")
    analysis = Analysis.objects.get(run=run)
    assert analysis.wanted > analysis.done
    again = analysed(run)
    assert again.cost_usd == cost_at(again, usd_per_hour("c5.4xlarge"))
    assert "c5.4xlarge" in again.recommendations.get(kind="change_instance_type").title


def test_a_type_that_the_measured_machine_cannot_be_is_shown_and_advises_nothing(owner, run):
    page = read_page(correct(owner, run, instance_type="c5.4xlarge"))
    assert "c5.4xlarge is declared, but 2 cores were found instead of 16" in page
    again = analysed(run)
    change = {"kind": "change_instance_type", "state": Recommendation.ACTIVE}
    assert not again.recommendations.filter(**change).exists()
    right = read_page(correct(owner, run, instance_type="c5.large"))
    assert "is declared, but" not in right


def test_the_parts_by_node_and_day_and_the_waste_follow_the_corrected_price(owner, run):
    waste = run.judgements.filter(waste_usd_high__gt=0).first()
    correct(owner, run, instance_type="c5.xlarge")
    priced = Run.objects.get(pk=run.pk)
    assert sum(part.usd for part in priced.cost_parts.all()) == priced.cost_usd
    ratio = priced.cost_usd / run.cost_usd
    assert priced.judgements.get(pk=waste.pk).waste_usd_high == pytest.approx(
        waste.waste_usd_high * ratio, abs=Decimal("1e-8")
    )


def test_a_machine_of_another_cloud_is_priced_by_the_name_that_the_command_takes(owner, run):
    before, declared = run.cost_usd, Node.objects.get().provider
    page = owner.page(reverse("runs:edit_run", args=[run.pk]))
    assert '<option value="gpu_1x_a10">Lambda' in page
    correct(owner, run, instance_type="gpu_1x_a10", region="us-west-1")
    priced, node = Run.objects.get(pk=run.pk), Node.objects.get()
    assert node.provider == "lambda"
    assert priced.cost_usd is not None
    assert priced.cost_usd > before
    assert AuditEntry.objects.get().change["provider"][1] == "lambda"
    owner.client.post(reverse("runs:take_back_correction", args=[run.pk]))
    assert Run.objects.get(pk=run.pk).cost_usd == before
    assert Node.objects.get().provider == declared


def test_a_machine_of_ones_own_is_priced_by_the_rate_that_the_page_adds(owner, run):
    rates = owner.page("/settings/rates/")
    assert re.search(r'<option\s+value="machine"\s+selected', rates)
    assert f'value="{run.started_at:%Y-%m-%d}"' in rates
    added = {
        "service": "machine",
        "provider": "on_premises",
        "instance_type": "our-box",
        "purchase_option": "on_demand",
        "usd_per_hour": "1.5",
        "valid_from": f"{run.started_at:%Y-%m-%d}",
    }
    owner.client.post("/settings/rates/add/", added)
    assert [row.provider for row in Price.objects.filter(workspace=owner.workspace)] == [
        "on_premises"
    ]
    correct(owner, run, instance_type="our-box", provider="on_premises", region="")
    priced = Run.objects.get(pk=run.pk)
    assert priced.cost_usd == cost_at(priced, Decimal("1.5"))


def test_a_correction_is_taken_back_and_the_cost_with_it(owner, run):
    elsewhere = {"region": "eu-west-1", "purchase_option": "spot", "is_confirmed": "yes"}
    correct(owner, run, instance_type="ml.c5.xlarge", **elsewhere)
    node = Node.objects.get(attempt__run=run)
    assert (node.service, node.declared["service"]) == ("", "ec2")
    edit_page = owner.page(reverse("runs:edit_run", args=[run.pk]))
    assert "the agent reported c5.large in us-east-1" in edit_page
    owner.client.post(reverse("runs:take_back_correction", args=[run.pk]))
    node = Node.objects.get(attempt__run=run)
    assert (node.instance_type, node.region, node.service) == ("c5.large", "us-east-1", "ec2")
    assert (node.declared, node.corrected_by, node.corrected_at) == ({}, "", None)
    assert Run.objects.get(pk=run.pk).cost_usd == run.cost_usd
    assert AuditEntry.objects.count() == 2


def test_a_typing_error_asks_before_it_replaces_a_working_price(owner, run):
    page = read_page(correct(owner, run, instance_type="c5.lrage"))

    assert "no price is known for c5.lrage" in page
    assert 'name="instance_type" value="c5.large"' in page
    assert Node.objects.get(attempt__run=run).instance_type == "c5.large"
    assert Run.objects.get(pk=run.pk).cost_usd == run.cost_usd
    assert not AuditEntry.objects.exists()

    correct(owner, run, instance_type="c5.lrage", is_confirmed="yes")
    assert Node.objects.get(attempt__run=run).instance_type == "c5.lrage"
    assert Run.objects.get(pk=run.pk).cost_usd is None
    # It is still nearly another's name, though there is no price to lose
    assert "Did you mean" in read_page(correct(owner, run, instance_type="c5.largge"))


def test_a_name_like_no_other_asks_only_where_a_price_would_be_lost(owner, run):
    assert "Not saved" in read_page(correct(owner, run, instance_type="basement-7"))
    correct(owner, run, instance_type="basement-7", is_confirmed="yes")
    assert "Not saved" not in read_page(correct(owner, run, instance_type="basement-8"))
    assert Node.objects.get(attempt__run=run).instance_type == "basement-8"


def test_a_type_with_a_rate_of_ones_own_is_no_mistake(owner, run):
    rate = {"service": "ec2", "region": "us-east-1", "purchase_option": "on_demand"}
    rate |= {"instance_type": "c5.largge", "usd_per_hour": "2.5", "valid_from": "2020-01-01"}
    owner.client.post(reverse("prices:add_rate"), rate)

    correct(owner, run, instance_type="c5.largge")

    priced = Run.objects.get(pk=run.pk)
    assert priced.cost_usd == cost_at(priced, Decimal("2.5"))


def test_setting_what_the_agent_says_takes_a_correction_back(owner, run):
    correct(owner, run, instance_type="c5.xlarge")
    correct(owner, run)
    node = Node.objects.get(attempt__run=run)
    assert (node.instance_type, node.service, node.declared) == ("c5.large", "ec2", {})
    assert Run.objects.get(pk=run.pk).cost_usd == run.cost_usd
    correct(owner, run)
    assert AuditEntry.objects.count() == 2


def test_a_machine_that_no_price_is_known_of_has_no_price_never_nothing(owner, run):
    page = read_page(correct(owner, run, instance_type="z9.huge", is_confirmed="yes"))
    assert Run.objects.get(pk=run.pk).cost_usd is None
    assert "No price is known for this machine." in page
    assert "no on-demand price of z9.huge in us-east-1" in page


def test_one_node_of_several_is_corrected_alone(owner):
    run = factories.costed(factories.run(factories.job(owner.workspace)))
    first, second = (factories.node(run, number=number) for number in (1, 2))
    page = owner.page(reverse("runs:edit_run", args=[run.pk]))
    assert "All 2 nodes" in page
    correct(owner, run, instance_type="c5.xlarge", node="2")
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.instance_type, second.instance_type) == ("c5.large", "c5.xlarge")
    correct(owner, run, instance_type="c5.2xlarge", node="")
    first.refresh_from_db()
    assert first.instance_type == "c5.2xlarge"


@pytest.mark.parametrize(
    "changes",
    [{"instance_type": ""}, {"instance_type": "x" * 121}, {"purchase_option": "stolen"}],
)
def test_what_is_no_machine_is_refused(owner, run, changes):
    assert "form-error" in read_page(correct(owner, run, **changes))
    assert Run.objects.get(pk=run.pk).cost_usd == run.cost_usd
    assert not AuditEntry.objects.exists()


def bill(person: Person, run: Run, usd: str):  # type: ignore[no-untyped-def]
    return person.client.post(
        reverse("runs:bill_run", args=[run.pk]), {"billed_usd": usd}, follow=True
    )


def test_what_was_billed_is_kept_to_the_nano_dollar_beside_the_cost(owner, run):
    assert bill(owner, run, "12.345678901").status_code == 200
    billed = Run.objects.get(pk=run.pk)
    assert billed.billed_usd == Decimal("12.345678901")
    assert (billed.cost_usd, billed.billed_by) == (run.cost_usd, owner.user.email)
    assert 'value="12.345678901"' in owner.page(reverse("runs:edit_run", args=[run.pk]))
    assert "$12.35" in owner.page(reverse("dashboard:run", args=[run.pk]))
    bill(owner, run, "")
    billed.refresh_from_db()
    assert (billed.billed_usd, billed.billed_by, billed.billed_at) == (None, "", None)
    changes = [entry.change for entry in AuditEntry.objects.order_by("pk")]
    assert changes == [
        {"billed_usd": [None, "12.345678901"]},
        {"billed_usd": ["12.345678901", None]},
    ]


@pytest.mark.parametrize("usd", ["-1", "much", "NaN", "1e20", "0.0000000001"])
def test_what_is_no_amount_is_refused(owner, run, usd):
    assert "form-error" in read_page(bill(owner, run, usd))
    assert Run.objects.get(pk=run.pk).billed_usd is None


def test_members_correct_and_enter_viewers_do_not_and_strangers_find_no_run(owner, stranger, run):
    for name in ("correct_machine", "bill_run", "take_back_correction"):
        address = reverse(f"runs:{name}", args=[run.pk])
        assert stranger.client.post(address).status_code == 404
    Membership.objects.filter(user=owner.user).update(role="viewer")
    assert correct(owner, run, instance_type="c5.xlarge").status_code == 403
    assert bill(owner, run, "1").status_code == 403
    Membership.objects.filter(user=owner.user).update(role="member")
    assert bill(owner, run, "1").status_code == 200
