"""The changes that a new version of the bundled table makes to prices that costs name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal

from django.utils import timezone
from trimtab.wire import Declaration

from advisor.pricing.bundled import bundled_prices
from advisor.pricing.price import PriceRow
from tests.web.test_prices_of_runs import analysed
from tests.web.training import Training, upload
from webapp.analysis import queue
from webapp.analysis.models import Analysis, CostPart
from webapp.prices import bundled
from webapp.prices.models import Price
from webapp.runs.models import Run

NAME = "ml.p5.48xlarge"


@dataclass
class OnSageMaker(Training):
    """A training on a p5 of SageMaker, from `began` on."""

    began: datetime = datetime(2025, 7, 1, 12, tzinfo=UTC)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.clock = replace(self.clock, started_at_ns=int(self.began.timestamp()) * 10**9)

    def declaration(self) -> Declaration:
        declared = super().declaration()
        declared.node.service, declared.node.instance_type = "sagemaker_training", NAME
        return declared


def trained(owner, began: datetime) -> Run:
    return analysed(upload(owner.workspace, OnSageMaker("train.py", minutes=1, began=began)))


def hourly_usd(run: Run) -> Decimal:
    seconds = sum(CostPart.objects.filter(run=run).values_list("microseconds", flat=True)) / 10**6
    return round(run.cost_usd / Decimal(seconds) * 3600, 2)


def price() -> Price:
    return Price.objects.get(instance_type=NAME, precedence=0)


def as_it_was(**changes: object) -> None:
    """Make the table that of an earlier version: the price has no end."""
    values = {"valid_to": None, "note": ""} | changes
    Price.objects.filter(pk=price().pk).update(**values)


def bundle(monkeypatch, **changes: object) -> None:
    """Bundle a version with another row for the machine."""

    def changed(row: PriceRow) -> PriceRow:
        return replace(row, **changes) if row.key.instance_type == NAME else row

    monkeypatch.setattr(bundled, "bundled_prices", lambda: tuple(map(changed, bundled_prices())))


def is_due(run: Run) -> bool:
    analysis = Analysis.objects.get(run=run)
    return analysis.wanted > analysis.done


def test_a_run_after_the_end_of_its_price_is_counted_again_and_one_before_is_not(owner):
    as_it_was()
    before = trained(owner, datetime(2025, 5, 31, 12, tzinfo=UTC))
    after = trained(owner, datetime(2025, 7, 1, 12, tzinfo=UTC))
    assert hourly_usd(before) == hourly_usd(after) == Decimal("113.07")
    bundled.sync_bundled()
    assert price().valid_to == datetime(2025, 6, 1, tzinfo=UTC)
    assert "from $98.32 to $55.04 on 2025-06-01" in price().note
    assert (is_due(before), is_due(after)) == (False, True)
    assert hourly_usd(analysed(after)) == round(Decimal("55.04") * Decimal("1.15"), 2)
    part = CostPart.objects.get(run=after)
    assert part.is_estimated
    assert [row.usd_per_hour for row in part.prices.all()] == [Decimal("55.04")]
    queue.queue_run(before)
    again = analysed(before)
    assert (again.cost_usd, is_due(again)) == (before.cost_usd, False)
    assert list(CostPart.objects.get(run=again).prices.all()) == [price()]


def test_a_price_that_a_cost_names_is_never_rewritten(owner, monkeypatch):
    as_it_was()
    run = trained(owner, datetime(2025, 7, 1, 12, tzinfo=UTC))
    named = price()
    bundle(monkeypatch, usd_per_hour=Decimal("99.5"), valid_to=None, source="a better list")
    began = timezone.now()
    bundled.sync_bundled()
    bundled.sync_bundled()
    old, new = Price.objects.filter(instance_type=NAME).order_by("valid_from")
    assert (old.pk, old.usd_per_hour, old.source) == (named.pk, named.usd_per_hour, named.source)
    assert old.valid_from == named.valid_from
    assert old.note == "corrected to $99.5 by a better list"
    assert began <= old.valid_to == new.valid_from
    assert (new.usd_per_hour, new.valid_to) == (Decimal("99.5"), None)
    assert hourly_usd(analysed(run)) == Decimal("113.07")


def test_another_source_of_the_same_price_changes_nothing_that_a_cost_names(owner, monkeypatch):
    as_it_was()
    trained(owner, datetime(2025, 7, 1, 12, tzinfo=UTC))
    named = price()
    bundle(monkeypatch, source="a better list", valid_to=None, note="")
    bundled.sync_bundled()
    assert (price().pk, price().source, price().valid_to) == (named.pk, named.source, None)


def test_a_price_that_no_cost_names_is_corrected(owner, monkeypatch):
    bundle(monkeypatch, usd_per_hour=Decimal("99.5"), valid_to=None)
    bundled.sync_bundled()
    assert (price().usd_per_hour, price().valid_to) == (Decimal("99.5"), None)


def test_a_price_confirmed_later_queues_no_run(owner, monkeypatch):
    as_it_was()
    run = trained(owner, datetime(2025, 7, 1, 12, tzinfo=UTC))
    seen_at = datetime(2026, 11, 1, tzinfo=UTC)
    bundle(monkeypatch, seen_at=seen_at, valid_to=None, note="")
    bundled.sync_bundled()
    assert (price().seen_at, is_due(run)) == (seen_at, False)
