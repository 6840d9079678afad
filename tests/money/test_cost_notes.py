"""Sentences about how a cost was calculated."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest

from advisor.costing.cost import NodeUse, cost_of_run
from advisor.costing.notes import notes
from advisor.pricing.book import PriceBook
from advisor.pricing.price import PriceKey, PriceRow

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
KEY = PriceKey("aws", "ec2", "us-east-1", "p3.8xlarge", "on_demand")
BOOK = PriceBook([PriceRow(KEY, Decimal(12), NOON - timedelta(days=9), None, "list")])


def use(node: str, seconds: float, share: Fraction = Fraction(1), **more: bool) -> NodeUse:
    return NodeUse(node, KEY, ((NOON, NOON + timedelta(seconds=seconds)),), share, **more)


def told(own: dict[str, Fraction], *uses: NodeUse) -> list[str]:
    return notes(uses, own, cost_of_run(uses, BOOK).parts)


def test_a_whole_machine_needs_no_words():
    assert told({"a": Fraction(1)}, use("a", 600, owns_machine=True)) == []


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ([Fraction(1, 2)], "1/2 of its machine"),
        ([Fraction(1, 4), Fraction(1, 4)], "1/4 of each machine"),
        ([Fraction(1), Fraction(3, 4)], "3/4 of one of its machines"),
        ([Fraction(1), Fraction(1, 2), Fraction(1, 2)], "1/2 of 2 of its machines"),
        ([Fraction(1, 16)], "1/16 of its machine"),
        ([Fraction(1, 17)], "6 % of its machine"),
        ([Fraction(1537, 2000)], "77 % of its machine"),
    ],
)
def test_it_says_which_part_of_a_machine_was_paid(shares, words):
    own = {str(n): share for n, share in enumerate(shares)}
    uses = [use(node, 600, share) for node, share in own.items()]
    assert told(own, *uses) == [f"The run was allocated {words} and is charged for that share."]


def test_it_says_that_a_crowded_machine_is_paid_once():
    sentences = told({"a": Fraction(1)}, use("a", 600, Fraction(1, 2)))
    assert sentences == [
        "Overlapping runs used the same machine, so its cost is split between them by their shares."
    ]


def test_it_says_how_much_the_minimum_of_the_provider_added():
    assert told({"a": Fraction(1)}, use("a", 20, owns_machine=True)) == [
        "40 s are charged beyond the time that the machines ran: the provider bills at least 60 s "
        "per start."
    ]
    assert told({"a": Fraction(1)}, use("a", 20)) == []


def test_it_says_so_even_for_half_a_second_on_one_of_two_machines():
    own = {"a": Fraction(1), "b": Fraction(1)}
    (sentence,) = told(own, use("a", 59.5, owns_machine=True), use("b", 600, owns_machine=True))
    assert sentence.startswith("0.5 s are charged beyond")


def test_a_provider_without_a_minimum_adds_nothing():
    key = replace(KEY, service="sagemaker_training")
    owned = replace(use("a", 20, owns_machine=True), price_key=key)
    assert told({"a": Fraction(1)}, owned) == []
