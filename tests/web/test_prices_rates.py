"""A workspace's own rates, and the cost of its runs with them."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from tests.html import read_page
from tests.web import factories, training
from webapp.accounts.models import AuditEntry
from webapp.analysis import tasks
from webapp.analysis.models import Analysis, CostPart
from webapp.prices.models import Discount, Price
from webapp.runs.models import Node, Run

RATES = reverse("prices:rates")
RATE = {
    "service": "ec2", "instance_type": "c5.large", "region": "us-east-1",
    "purchase_option": "on_demand", "usd_per_hour": "0.05", "valid_from": "2020-01-01",
}  # fmt: skip
DISCOUNT = {"percent": "12.5", "family": "", "valid_from": "2020-01-01"}


def analysed(run: Run) -> Run:
    tasks.evaluate(str(run.pk))
    return Run.objects.get(pk=run.pk)


def add(person, name: str, form: dict[str, object]):  # type: ignore[no-untyped-def]
    return person.client.post(reverse(f"prices:{name}"), form)


def test_an_owner_adds_a_price_and_the_history_says_so(owner):
    assert add(owner, "add_rate", RATE).status_code == 302
    row = Price.objects.get(workspace=owner.workspace)
    assert (row.usd_per_hour, row.precedence, row.provider) == (Decimal("0.05"), 100, "aws")
    assert "$0.05" in owner.page(RATES)
    entry = AuditEntry.objects.get(workspace=owner.workspace)
    assert (entry.action, entry.subject) == ("rate.added", "c5.large in us-east-1")
    assert entry.change["usd_per_hour"] == [None, "0.05"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"usd_per_hour": "cheap"}, "usd_per_hour is &#x27;cheap&#x27;"),
        ({"instance_type": ""}, "instance_type is empty"),
        ({"valid_from": "soon"}, "Enter a valid date"),
        ({"valid_to": "2019-01-01"}, "valid_to must be after"),
        ({"service": "lambda"}, "Select a valid choice"),
    ],
)
def test_what_is_wrong_with_a_price_is_said_and_nothing_is_added(owner, changed, words):
    answer = add(owner, "add_rate", RATE | changed)
    assert answer.status_code == 200
    assert words in read_page(answer)
    assert not Price.objects.filter(workspace=owner.workspace).exists()


def test_a_price_that_is_known_with_another_figure_has_to_be_ended_first(owner):
    add(owner, "add_rate", RATE)
    answer = add(owner, "add_rate", RATE | {"usd_per_hour": "0.06"})
    assert "already has a rate from 2020-01-01, 0.05; end that rate first" in read_page(answer)
    assert add(owner, "add_rate", RATE).status_code == 302
    assert Price.objects.get(workspace=owner.workspace).usd_per_hour == Decimal("0.05")


def test_a_price_that_a_cost_names_is_ended_and_another_goes(owner):
    add(owner, "add_rate", RATE)
    add(owner, "add_rate", RATE | {"instance_type": "c5.xlarge"})
    named, other = Price.objects.filter(workspace=owner.workspace).order_by("instance_type")
    run = factories.run(factories.job(owner.workspace))
    part = CostPart.objects.create(
        run=run, node=factories.node(run), day="2026-01-01", microseconds=1, usd=Decimal(1)
    )
    part.prices.add(named)
    for row in (named, other):
        owner.client.post(reverse("prices:end_rate", args=[row.pk]))
    kept = Price.objects.get(workspace=owner.workspace)
    assert kept.pk == named.pk
    assert kept.valid_to is not None
    assert list(part.prices.all()) == [named]


def test_another_workspaces_rates_cant_be_seen_or_ended(owner, stranger):
    add(owner, "add_rate", RATE | {"instance_type": "zz9.secret"})
    add(owner, "add_discount", DISCOUNT | {"family": "zz9"})
    row, discount = Price.objects.get(workspace=owner.workspace), Discount.objects.get()
    assert "zz9" not in stranger.page(RATES)
    for name, pk in (("end_rate", row.pk), ("end_discount", discount.pk)):
        assert stranger.client.post(reverse(f"prices:{name}", args=[pk])).status_code == 404
    answer = stranger.client.get(reverse("prices:rates_csv"))
    assert b"zz9" not in b"".join(answer.streaming_content)


def test_a_discount_is_added_shown_and_ended(owner):
    assert add(owner, "add_discount", DISCOUNT | {"family": "ml.P4d.24xlarge"}).status_code == 302
    discount = Discount.objects.get()
    assert (discount.percent, discount.family) == (Decimal("12.5"), "p4d")
    assert "12.5 %" in owner.page(RATES)
    owner.client.post(reverse("prices:end_discount", args=[discount.pk]))
    discount.refresh_from_db()
    assert discount.valid_to is not None
    actions = AuditEntry.objects.filter(workspace=owner.workspace).values_list("action", flat=True)
    assert set(actions) == {"discount.added", "discount.ended"}


@pytest.mark.parametrize("percent", ["0", "100", "101", "-1", "a"])
def test_a_discount_is_a_part_of_the_price(owner, percent):
    assert add(owner, "add_discount", DISCOUNT | {"percent": percent}).status_code == 200
    assert not Discount.objects.exists()


def upload(person, text: str):  # type: ignore[no-untyped-def]
    file = SimpleUploadedFile("rates.csv", text.encode())
    return person.client.post(reverse("prices:import_rates"), {"file": file})


HEADER = "provider,service,instance_type,region,usd_per_hour,valid_from\n"


def test_rates_are_imported_all_or_none_and_come_out_as_they_went_in(owner):
    good = f"{HEADER}aws,ec2,c5.large,us-east-1,0.05,2020-01-01\n"
    answer = upload(owner, good + "aws,ec2,c5.xlarge,us-east-1,much,2020-01-01\n")
    assert answer.status_code == 200
    assert "line 3: usd_per_hour is" in read_page(answer)
    assert not Price.objects.filter(workspace=owner.workspace).exists()

    assert upload(owner, good).status_code == 302
    exported = b"".join(owner.client.get(reverse("prices:rates_csv")).streaming_content).decode()
    assert upload(owner, exported).status_code == 302
    assert Price.objects.filter(workspace=owner.workspace).count() == 1

    clash = f"{HEADER}aws,ec2,c5.large,us-east-1,0.06,2020-01-01\naws,ec2,m5.large,,1,2020-01-01\n"
    assert "end that rate first" in read_page(upload(owner, clash))
    assert Price.objects.filter(workspace=owner.workspace).count() == 1


@pytest.mark.parametrize("text", ["", "\xff", "nonsense"])
def test_a_file_that_is_no_table_is_refused(owner, text):
    file = SimpleUploadedFile("rates.csv", text.encode("latin-1"))
    answer = owner.client.post(reverse("prices:import_rates"), {"file": file})
    assert answer.status_code == 200


def test_a_run_is_priced_at_your_rate_and_its_list_price_is_kept_beside_it(owner):
    add(owner, "add_discount", DISCOUNT | {"percent": "50"})
    run = analysed(training.uploaded_run(owner.workspace, minutes=1))
    assert run.summary.basis == "your rate"
    assert run.summary.list_usd == pytest.approx(run.cost_usd * 2, abs=Decimal("1e-9"))
    assert "less 50 %" in run.summary.price_source
    part = run.cost_parts.get()
    assert [price.workspace for price in part.prices.all()] == [None]


def test_a_machine_of_your_own_costs_what_its_gpus_do_and_a_rate_prices_what_had_none(owner):
    run = training.uploaded_run(owner.workspace, minutes=1)
    gpus = [{"model": "NVIDIA H100 80GB HBM3", "memory_bytes": 85 * 10**9, "allocated": n < 2}
            for n in range(8)]  # fmt: skip
    own = {"provider": "", "service": "", "instance_type": "", "region": "", "zone": ""}
    Node.objects.filter(attempt__run=run).update(gpus=gpus, **own)
    run = analysed(run)
    assert run.cost_usd is None
    assert "none of your own rates fits it" in run.summary.missing[0]

    form = RATE | {"service": "gpu_hour", "provider": "on_premises", "region": "",
                   "instance_type": "H100 80GB HBM3", "usd_per_hour": "1.80"}  # fmt: skip
    assert add(owner, "add_rate", form).status_code == 302
    analysis = Analysis.objects.get(run=run)
    assert analysis.wanted > analysis.done
    run = analysed(run)
    seconds = Decimal(run.cost_parts.get().microseconds) / 10**6
    assert run.cost_usd == (2 * Decimal("1.80") * seconds / 3600).quantize(Decimal("1e-9"))
    assert run.summary.usd_per_hour == Decimal("14.4")
    assert run.summary.list_usd is None
    assert run.started_at is not None
    assert run.started_at > datetime(2020, 1, 1, tzinfo=UTC)
    assert Run.objects.get(pk=run.pk).summary.basis == "your rate"
