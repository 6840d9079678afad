"""Machines whose platform says what it bills of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.costing.billing import AS_HELD, Billing, as_document, bill_use, from_document
from advisor.costing.cost import NodeUse, cost_of_run, shares_on_machine
from advisor.pricing.book import PriceBook
from advisor.pricing.price import PriceKey, PriceRow

KEY = PriceKey("aws", "sagemaker_training", "us-west-2", "ml.p3.2xlarge")
NOON = datetime(2026, 6, 24, 12, tzinfo=UTC)
BOOK = PriceBook([PriceRow(KEY, Decimal("3.6"), NOON - timedelta(days=99), None, "list")])
"""A tenth of a cent a second."""


def use(start: datetime = NOON, seconds: int = 1000) -> NodeUse:
    return NodeUse("1", KEY, ((start, start + timedelta(seconds=seconds)),))


@given(held=st.integers(1, 10**6), seconds=st.integers(0, 10**6), kept=st.integers(0, 10**5))
def test_the_cost_is_that_of_the_billed_and_the_retained_seconds(held, seconds, kept):
    cost = cost_of_run([bill_use(use(seconds=held), Billing(seconds, kept))], BOOK)
    assert cost.total_usd == (seconds + kept) * Decimal("0.001")
    assert sum(part.usd for part in cost.parts) == cost.total_usd


def test_the_retained_time_is_paid_on_its_own_days():
    late = use(datetime(2026, 6, 24, 23, 50, tzinfo=UTC), seconds=600)
    parts = cost_of_run([bill_use(late, Billing(300, 1200))], BOOK).parts
    assert [(part.day.day, part.usd) for part in parts] == [
        (24, Decimal("0.3")),
        (25, Decimal("1.2")),
    ]


def test_a_machine_of_no_known_time_costs_what_is_billed():
    assert cost_of_run([bill_use(use(seconds=0), Billing(500))], BOOK).total_usd == Decimal("0.5")


def test_a_shared_machine_is_retained_once():
    one, other = bill_use(use(), Billing(1000, 100)), use(NOON + timedelta(seconds=500), 100)
    scaled = shares_on_machine([one, NodeUse("2", KEY, other.intervals)], ["1"])
    assert len({each.share for each in scaled}) > 1
    assert cost_of_run(scaled, BOOK).total_usd == Decimal("1.05")


@pytest.mark.parametrize("wrong", [{"billed_share": Fraction(-1)}, {"retained_seconds": -1}])
def test_a_negative_time_names_its_node(wrong):
    with pytest.raises(ValueError, match="node 1: the billed time is negative"):
        cost_of_run([NodeUse("1", KEY, use().intervals, **wrong)], BOOK)


def test_what_is_stored_is_what_was_billed():
    billing = Billing(1476, 1800, True, ("Managed spot training.",))
    assert from_document(as_document(billing)) == billing
    assert (as_document(AS_HELD), from_document({})) == ({}, AS_HELD)


@pytest.mark.parametrize(
    "wrong",
    [
        {"billed_seconds": -1},
        {"billed_seconds": 1.5},
        {"retained_seconds": 10**9},
        {"retained_seconds": None},
        {"is_at_least": "yes"},
        {"notes": [7]},
        {"notes": ["x" * 2_000]},
        {"notes": ["x"] * 50},
    ],
)
def test_a_process_that_read_hostile_files_hands_over_no_impossible_time(wrong):
    with pytest.raises(ValueError, match="billed time"):
        from_document(wrong)
